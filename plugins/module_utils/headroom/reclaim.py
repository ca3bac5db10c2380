# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A careful trial: evict a little of each unit, and see what comes back. Method c, only on request.

In each round the kernel is asked to reclaim half a percent of each unit's memory: by memory.reclaim in version 2 of
control groups, and in version 1 by a limit that is below the usage for the moment in which it is written. Then it
pauses. A unit rests, longer each time, when a tenth of what a round took is back before the next one, and is left alone
after the third time in a row, or if the kernel finds nothing more. One time says little: the kernel does not know at
first what is cold. All units rest likewise when tasks waited for memory. Then it only watches what comes back.

What is still out after an age was not accessed within it, so that the rest is an upper bound of active memory. It is
close where much could be evicted. At the end everything that was taken is read back, by process_madvise; this reads
nothing of a guest into this process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom import groups
from ansible_collections.memstretch.density.plugins.module_utils.headroom.guard import Guard
from ansible_collections.memstretch.density.plugins.module_utils.headroom.host import unit_memory
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host import pressure
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo, set_kernel_file

STEP = 0.005
# At most so much of a unit, and of the tiers' free room, is taken.
MOST_OF_UNIT, _MOST_OF_ROOM = 0.8, 0.5
_PAUSE_S = 0.25
# A unit rests when so much of a round's part is back before the next one; so many times in a row are enough.
_BACK, _MOST_RESTS = 0.1, 3
# Shares of the time in which some task waited for memory: all units rest; and everything is given back at once.
# They are the limits of the verdicts near and over.
ENOUGH_PRESSURE, TOO_MUCH_PRESSURE = 0.01, 0.1
# The least time in which a share of waiting is measured.
_PRESSURE_S = 1.0
_LEAST_TAKEN = 2**20
_GROUPS_1, _GROUPS_2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
# System calls that have the same number on all architectures, and MADV_WILLNEED.
_PIDFD_OPEN, _PROCESS_MADVISE, _WILLNEED = 434, 440, 3
# The kernel handles a little less than 2 GiB in one call, and leaves out the rest.
_MOST_AT_ONCE = 2**30
# What the kernel says of a control group that was removed, because its VM has stopped.
_GONE = (errno.ENOENT, errno.ENODEV)


class ReclaimError(Exception):
    """The trial cannot be made, or was broken off; the text is the reason. What it took has been given back."""


class _Area(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Group:
    """A control group from which memory can be taken."""

    def __init__(self, files: HostFiles, path: str) -> None:
        self._version_2 = files.exists(f"{_GROUPS_2}{path}/memory.reclaim")
        base = _GROUPS_2 if self._version_2 else _GROUPS_1
        self._file = files.path(f"{base}{path}/memory.{'reclaim' if self._version_2 else 'limit_in_bytes'}")
        self._usage = files.path(f"{base}{path}/memory.usage_in_bytes")
        self._limit = None if self._version_2 else _read(self._file)

    def take(self, size: int) -> bool:
        """Reclaim so many bytes; return whether the kernel found as many."""
        try:
            if self._version_2:
                set_kernel_file(self._file, size)
                return True
            try:
                set_kernel_file(self._file, max(0, int(_read(self._usage)) - size))
                return True
            finally:
                self.put_back()
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EBUSY, *_GONE):  # it reclaimed what it could
                return False
            raise ReclaimError(f"the kernel refused to reclaim ({self._file}): {error.strerror}") from error

    def put_back(self) -> None:
        """Set the limit as it was, if there still is one."""
        if self._limit is not None:
            try:
                set_kernel_file(self._file, self._limit)
            except OSError as error:
                if error.errno not in _GONE:
                    raise


def usable(files: HostFiles, path: str) -> bool:
    """Decide whether memory can be taken from a control group."""
    return path != "/" and any(
        files.exists(f"{base}{path}/memory.{name}")
        for base, name in ((_GROUPS_2, "reclaim"), (_GROUPS_1, "limit_in_bytes"))
    )


def objection(files: HostFiles) -> str | None:
    """Return why no trial can be made on this host; None if nothing speaks against it. It only reads."""
    if not meminfo(files).get("SwapFree"):
        return "a trial needs free swap to evict to"
    if "psi_memory_some_us" not in pressure.snapshot(files.root):
        return "a trial needs to know whether tasks wait for memory, and this kernel does not count that (PSI)"
    size = os.sysconf("SC_PAGE_SIZE")
    error = _bring_back(os.getpid(), [(id(files) // size * size, size)])
    if error:
        return f"this kernel cannot bring back what a trial evicts (process_madvise): {os.strerror(error)}"
    return None


class Reclaim:
    """A trial with some units. Use it as a context manager.

    Raises:
        ReclaimError: it cannot be made; nothing was changed.
    """

    def __init__(self, files: HostFiles, units: t.Sequence[Unit]) -> None:
        self._files, self._units = files, units
        reason = objection(files)
        if reason:
            raise ReclaimError(reason)
        try:
            paths = groups.of_units(files, units, lambda path: usable(files, path))
        except groups.NoGroup as error:
            raise ReclaimError(str(error)) from error
        self._groups = [[_Group(files, path) for path in of_unit] for of_unit in paths]

    def __enter__(self) -> Reclaim:
        self._guard = Guard(self._give_back)
        return self

    def __exit__(self, *_error: t.Any) -> None:
        self._give_back()
        self._guard.dismiss()

    def watch(self, ages: t.Sequence[int]) -> list[dict[int, tuple[float, int]]]:
        """Return for each unit and age how long it was watched, and an upper bound of what was accessed meanwhile.

        Args:
            ages: in seconds, increasing.
        """
        before = self._out()
        self._take()
        began = time.monotonic()
        found: list[dict[int, tuple[float, int]]] = [{} for _unit in self._units]
        for age in ages:
            self._wait_until(began + age)
            for unit, of_unit in zip(self._units, found):
                if any(self._files.exists(f"/proc/{pid}") for pid in unit.pids):
                    of_unit[age] = (time.monotonic() - began, unit_memory(self._files, unit)["resident"])
        if sum(self._out()) - sum(before) < _LEAST_TAKEN and all(not each for each in before):
            raise ReclaimError("the trial could not evict anything that stayed out")
        return found

    def _take(self) -> None:
        """Evict what is not missed at once."""
        sizes = [sum(unit_memory(self._files, unit)[name] for name in ("resident", "swapped")) for unit in self._units]
        room = meminfo(self._files).get("SwapFree", 0) * _MOST_OF_ROOM
        left = {number: size * MOST_OF_UNIT for number, size in enumerate(sizes) if size}
        rests, resting = dict.fromkeys(left, 0), dict.fromkeys(left, 0)
        all_rests = 0
        while left and room > 0 and all_rests < _MOST_RESTS:
            turn = [number for number in left if not resting[number]]
            resting.update((number, resting[number] - 1) for number in left if resting[number])
            before = self._out()
            parts = {number: int(sizes[number] * STEP) for number in turn}
            found = {number: self._evict(number, part) for number, part in parts.items()}
            taken = self._out()
            for number, part in parts.items():
                evicted = max(part, taken[number] - before[number])  # the kernel takes batches
                left[number] -= evicted
                room -= evicted
                if not found[number] or left[number] < part:
                    del left[number]
            some = self._waited(_PAUSE_S * (1 + all_rests))
            now = self._out()
            all_rests = all_rests + 1 if some > ENOUGH_PRESSURE else 0
            for number in turn:
                if taken[number] - now[number] > _BACK * max(taken[number] - before[number], sizes[number] * STEP):
                    rests[number] += 1
                    resting[number] = 2 ** rests[number]
                    if rests[number] == _MOST_RESTS:
                        left.pop(number, None)
                else:
                    rests[number] = 0

    def _evict(self, number: int, size: int) -> bool:
        """Evict so many bytes of a unit; return whether the kernel found as many."""
        took = [group.take(max(4096, size // len(self._groups[number]))) for group in self._groups[number]]
        return all(took)

    def _wait_until(self, at: float) -> None:
        """Wait, and break off if tasks wait for memory too much."""
        while time.monotonic() < at:
            seconds = min(_PRESSURE_S, at - time.monotonic())
            some = self._waited(max(0.01, seconds))
            if seconds >= _PRESSURE_S and some > TOO_MUCH_PRESSURE:
                raise ReclaimError(f"the trial was broken off: some task waited for memory in {some:.0%} of a second")

    def _waited(self, seconds: float) -> float:
        """Return the share of some seconds from now on in which some task waited for memory."""
        before, began = pressure.snapshot(self._files.root), time.monotonic()
        time.sleep(seconds)
        after = pressure.snapshot(self._files.root)
        waited = after["psi_memory_some_us"] - before["psi_memory_some_us"]
        return waited / 1e6 / (time.monotonic() - began)

    def _out(self) -> list[int]:
        return [unit_memory(self._files, unit)["swapped"] for unit in self._units]

    def _give_back(self) -> None:
        """Restore the limits, and bring back what is out. What fails for one unit keeps no other from it."""
        failed = []
        for unit, of_unit in zip(self._units, self._groups):
            for group in of_unit:
                try:
                    group.put_back()
                except OSError as refused:
                    failed.append(f"the limit of {unit.name} could not be restored: {refused}")
        for unit in self._units:
            for pid in unit.pids:
                error = _bring_back(pid, _areas(self._files, pid))
                if error not in (0, errno.ESRCH, errno.ENOMEM):  # the process, or an area of it, may have ended
                    failed.append(f"{unit.name} could not be brought back whole: {os.strerror(error)}")
        if failed:
            raise ReclaimError("; ".join(failed))


def _areas(files: HostFiles, pid: int) -> list[tuple[int, int]]:
    """Return the first address and the size of the areas of a process that have memory in swap."""
    found = []
    start = size = 0
    # The name of a mapped file may have other characters that Python takes for the end of a line.
    for line in filter(None, (files.text(f"/proc/{pid}/smaps", 2**28) or "").split("\n")):
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            start, end = (int(address, 16) for address in words[0].split("-"))
            size = end - start
        elif words[0] == "Swap:" and words[1] != "0":
            found.append((start, size))
    return found


def _bring_back(pid: int, areas: t.Sequence[tuple[int, int]]) -> int:
    """Let the kernel read areas of a process back from swap.

    Returns:
        0, or the number of the error. After ENOMEM, because a part of an area has gone, the others were read.
    """
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    descriptor = call(*map(ctypes.c_long, (_PIDFD_OPEN, pid, 0)))
    if descriptor < 0:
        return ctypes.get_errno()
    error = 0
    try:
        for area in _in_parts(areas):
            numbers = map(ctypes.c_long, (_PROCESS_MADVISE, descriptor, ctypes.addressof(area), 1, _WILLNEED, 0))
            if call(*numbers) < 0:
                error = ctypes.get_errno()
                if error != errno.ENOMEM:
                    break
        return error
    finally:
        os.close(descriptor)


def _in_parts(areas: t.Sequence[tuple[int, int]]) -> t.Iterator[_Area]:
    for start, size in areas:
        for done in range(0, size, _MOST_AT_ONCE):
            yield _Area(start + done, min(_MOST_AT_ONCE, size - done))


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()
