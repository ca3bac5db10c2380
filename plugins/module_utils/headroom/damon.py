# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DAMON, the kernel's data access monitor, as a counter that is exact to the page.

DAMON's regions usually cover much memory, of which it looks at one page each; it then guesses. Here each region is a
sampled page, so nothing is guessed: DAMON marks the pages as not accessed, sleeps for one sampling interval, and looks
which of them were accessed in between. The sampling interval is the age. It asks the MMU notifiers, so what a KVM guest
accesses counts.

Each age has a kdamond of its own with its own pages, so that all ages are measured at the same time. The interface is
/sys/kernel/mm/damon/admin (Documentation/admin-guide/mm/damon/usage.rst), with the file tried_regions of Linux 6.2 and
later. Whatever is written there ends with the look, even if this process is killed: a second process waits for the end
of this one and then turns the kdamonds off.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom.guard import Guard
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import thread_seconds
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, set_kernel_file
from ansible_collections.memstretch.density.plugins.module_utils.host.record import (
    DIRECTORY,
    HostRecord,
    HostRecordError,
)

ADMIN = "/sys/kernel/mm/damon/admin/kdamonds"
_LARGEST = 2**62
# The kernel answers "which regions were accessed" at the end of the running interval. Until then the question cannot be
# interrupted, and no other kdamond can be asked. So it is asked this long before that end: for an age of less than ten
# seconds, and for a longer one, where coming too late costs more.
_ASKED_BEFORE_S = (0.3, 1.0)
# A question that comes later than this would wait for the end of the next interval.
_TOO_LATE_S = 0.05
# Between the ends of two intervals that are asked for, and in addition for each region that is then read.
_APART_S, _APART_FOR_EACH_S = 1.4, 60e-6
# Another program may ask its own DAMON something, which takes a moment.
_BUSY_S = 1.0
_END_S = 10.0
# The pages that an age may have. Each is a directory with two files of sysfs, which is memory that the host lacks then.
MOST_REGIONS = 20_000


class DamonError(Exception):
    """DAMON cannot be used; the text is the reason."""


class DamonInUse(DamonError):
    """Somebody else uses it, or has set it up. The kernel removes all kdamonds before it makes others."""


def refuse(admin: str = ADMIN, records: str = DIRECTORY) -> None:
    """Check that nothing speaks against DAMON on this host. It only reads.

    Args:
        admin: the directory of the interface.
        records: that of the originals of this host's settings.

    Raises:
        DamonError: something does.
        DamonInUse: somebody else uses it.
    """
    try:
        in_use = _read(f"{admin}/nr_kdamonds")
    except FileNotFoundError as error:
        raise DamonError("this kernel has no DAMON (CONFIG_DAMON_SYSFS)") from error
    except OSError as error:
        raise DamonError(f"DAMON cannot be read: {error.strerror}") from error
    if in_use != "0":
        raise DamonInUse(
            f"DAMON is in use: {admin}/nr_kdamonds is {in_use}. Somebody else has set it up, and a look would delete "
            f"these settings, also while it is off. {_remedy(admin, records)}"
        )


def _remedy(admin: str, records: str) -> str:
    """Return what the owner of this host can do about a DAMON of somebody else."""
    told = (
        "End it with the program that made it; if it is off and nobody needs its settings, type: echo 0 > "
        f"{admin}/nr_kdamonds. Then look again"
    )
    try:
        record = HostRecord("host_settings", records).read() or {}
    except (HostRecordError, OSError) as error:
        return f"{told}. Whether a profile has only switched it off is unknown: {error}"
    originals, profile = record.get("originals", {}), record.get("profile")
    if profile and any(knob.startswith(f"{admin}/") and value == "on" for knob, value in originals.items()):
        return (
            f"The profile {profile} has only switched it off, and the playbook restore switches it on again. "
            "Restore this host, end DAMON with the program that made it, and look again"
        )
    return told


class Damon:
    """The kdamonds of one look, one for each age. Use it as a context manager.

    Args:
        ages: the sampling interval of each kdamond, in seconds.
        admin: the directory of the interface.

    Raises:
        DamonError: it cannot be used; whatever was set is as before.
    """

    def __init__(self, ages: t.Sequence[float], admin: str = ADMIN) -> None:
        self._ages, self._admin = ages, admin
        self._regions = 0
        self._frames: list[set[int]] = [set() for _age in ages]
        self._cpu: dict[int, float] = {}
        refuse(admin)

    def __enter__(self) -> Damon:
        self._guard = Guard(lambda: turn_off(self._admin))
        try:
            with _named("the number of kdamonds"):
                set_kernel_file(f"{self._admin}/nr_kdamonds", len(self._ages))
        except DamonError:
            self._guard.dismiss()
            raise
        return self

    def __exit__(self, *_error: t.Any) -> None:
        turn_off(self._admin)
        self._guard.dismiss()

    def prepare(self, number: int, frames: t.Sequence[int]) -> None:
        """Set what a kdamond watches.

        Args:
            number: of the kdamond, as in C(ages).
            frames: the page frames, sorted, each once.
        """
        self._regions = max(self._regions, len(frames))
        self._frames[number] = set(frames)
        size = os.sysconf("SC_PAGE_SIZE")
        context = f"{self._admin}/{number}/contexts/0"
        interval = round(self._ages[number] * 1e6)
        with _named("what it watches"):
            set_kernel_file(f"{self._admin}/{number}/contexts/nr_contexts", 1)
            set_kernel_file(f"{context}/operations", "paddr")
            # The largest number of regions first: the kernel merges regions when there are more.
            set_kernel_file(f"{context}/monitoring_attrs/nr_regions/max", 2 * len(frames) + 1000)
            for name in ("update_us", "aggr_us", "sample_us"):
                set_kernel_file(f"{context}/monitoring_attrs/intervals/{name}", interval)
            set_kernel_file(f"{context}/targets/nr_targets", 1)
            set_kernel_file(f"{context}/targets/0/regions/nr_regions", len(frames))
            with _directory(f"{context}/targets/0/regions") as regions:
                for position, frame in enumerate(frames):
                    set_kernel_file(f"{position}/start", frame * size, regions)
                    set_kernel_file(f"{position}/end", (frame + 1) * size, regions)
            scheme = f"{context}/schemes/0"
            set_kernel_file(f"{context}/schemes/nr_schemes", 1)
            set_kernel_file(f"{scheme}/action", "stat")
            pattern = f"{scheme}/access_pattern"
            set_kernel_file(f"{pattern}/sz/max", _LARGEST)
            set_kernel_file(f"{pattern}/nr_accesses/min", 1)
            set_kernel_file(f"{pattern}/nr_accesses/max", 1_000_000)
            set_kernel_file(f"{pattern}/age/max", 1_000_000)

    def watch(self, passes: t.Sequence[int]) -> t.Iterator[tuple[int, float, set[int]]]:
        """Turn the kdamonds on, and yield after each age its number and the page frames that were accessed within it.

        In between are the seconds that it really took: the kernel's timers are coarse, and late by up to an eighth.

        A page whose address a CPU still has in its TLB may be accessed without a trace. That matters only for less
        memory than a TLB covers, a few MiB, that one process uses all the time.

        Args:
            passes: how often each age is looked at.
        """
        began = time.monotonic()
        due = [(began + start, number, 0) for number, start in enumerate(self.starts(passes))]
        heapq.heapify(due)
        since = [0.0] * len(self._ages)
        while due:
            at, number, done = heapq.heappop(due)
            state, age = f"{self._admin}/{number}/state", self._ages[number]
            if not done:
                _sleep_until(at)
                _command(state, "on")
                since[number] = time.monotonic()
                heapq.heappush(due, (since[number] + age, number, 1))
                continue
            _sleep_until(at - _ASKED_BEFORE_S[age >= 10])
            if time.monotonic() > at - _TOO_LATE_S:
                heapq.heappush(due, (at + age, number, done))  # the machine was busy; the next interval has begun
                since[number] = at
                continue
            _command(state, "update_schemes_tried_regions")
            end = time.monotonic()
            took, since[number] = end - since[number], end
            self._read_cpu(number)
            yield number, took, self._accessed(number)
            if done < passes[number]:
                heapq.heappush(due, (end + age, number, done + 1))
            else:
                _command(state, "off")

    def starts(self, passes: t.Sequence[int]) -> list[float]:
        """Return when each kdamond is turned on, so that no two intervals end at the same time; long ones first."""
        apart = _APART_S + _APART_FOR_EACH_S * self._regions
        taken: list[float] = []
        found = [0.0] * len(self._ages)
        for number in sorted(range(len(self._ages)), key=lambda each: -self._ages[each]):
            age, start = self._ages[number], 0.0
            while True:
                ends = [start + age * (turn + 1) for turn in range(passes[number])]
                if all(abs(end - other) >= apart for end in ends for other in taken):
                    break
                start += apart / 4
            found[number] = start
            taken += ends
        return found

    def seconds(self, passes: t.Sequence[int]) -> float:
        """Return how long it takes to look at each age so often."""
        every = zip(self.starts(passes), self._ages, passes)
        return max(start + age * turns for start, age, turns in every)

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that the kdamonds had taken when they were last asked."""
        return sum(self._cpu.values())

    def _read_cpu(self, number: int) -> None:
        seconds = thread_seconds(HostFiles(), _read(f"{self._admin}/{number}/pid"))
        if seconds is not None:  # otherwise it has just ended
            self._cpu[number] = seconds

    def _accessed(self, number: int) -> set[int]:
        size, watched = os.sysconf("SC_PAGE_SIZE"), self._frames[number]
        found: set[int] = set()
        with _directory(f"{self._admin}/{number}/contexts/0/schemes/0/tried_regions") as regions:
            for name in os.listdir(regions):
                if name.isdigit():
                    first = int(_read(f"{name}/start", regions)) // size
                    found.add(first)
                    if first + 1 in watched:  # the kernel merges regions that adjoin
                        found.update(range(first, int(_read(f"{name}/end", regions)) // size))
        return found


@contextlib.contextmanager
def _directory(path: str) -> t.Iterator[int]:
    """Open a directory: paths that begin at it are shorter for the kernel, too, which matters for many files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))


def _command(path: str, word: t.Any, busy: float = _BUSY_S) -> None:
    """Write to a file of the interface. The kernel refuses it while it works on another command."""
    deadline = time.monotonic() + busy
    while True:
        try:
            set_kernel_file(path, word)
            return
        except OSError as error:
            if error.errno == errno.EBUSY and time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            reason = error.strerror
            if error.errno == errno.EBUSY:
                reason = "somebody else's DAMON is running"
            elif error.errno == errno.EINVAL and word not in ("on", "off"):  # questions to one that is off
                reason = "somebody turned it off meanwhile, as the profiles of tune do. Look again"
            raise DamonError(f"the kernel refused DAMON ({word}): {reason}") from error


def turn_off(admin: str = ADMIN) -> None:
    """Turn all kdamonds off and remove them. A question of a process that was killed may still be waiting.

    Raises:
        DamonError: one of them goes on; the others are off all the same.
    """
    failed: DamonError | None = None
    for number in range(int(_read(f"{admin}/nr_kdamonds"))):
        state = f"{admin}/{number}/state"
        if _read(state) == "on":
            try:
                _command(state, "off", _END_S)
            except DamonError as error:
                if _read(state) == "on":  # it has not ended by itself either
                    failed = error
    if failed:
        raise failed
    _command(f"{admin}/nr_kdamonds", 0, _END_S)


@contextlib.contextmanager
def _named(step: str) -> t.Iterator[None]:
    """Turn an error of the interface into a DamonError that names the step."""
    try:
        yield
    except OSError as error:
        raise DamonError(f"the kernel refused DAMON ({step}): {error.strerror}") from error


def _read(path: str, directory: int | None = None) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.read(descriptor, 4096).decode().strip()
    finally:
        os.close(descriptor)
