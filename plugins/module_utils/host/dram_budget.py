# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A DRAM budget: a cap that makes a large host behave like a small one. Two mechanisms, and how to undo each.

Each mechanism is a class that reads its present state, computes the wanted one, refuses a budget that would end in the
OOM killer, and sets a state. A state is a dictionary of values by readable names; equal states are equal dictionaries.
"""

from __future__ import annotations

import contextlib
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import budget_service
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    HostFiles,
    meminfo,
    remove_file,
    set_kernel_file,
    write_file,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import locked
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import MARK
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text

HUGEPAGES = "/proc/sys/vm/nr_hugepages"
# The kernel makes huge pages from contiguous memory only, so a number that is off by less than this share is accepted.
_HUGEPAGES_TOLERANCE = 0.02
_NO_LIMIT_V1 = 2**62
# How often the kernel is told to lower a limit: pages that are being written can be freed the next time.
_TRIES = 3
_SWAPPINESS = "memory.swappiness"
# The place of the flags in /proc/PID/stat, after the program's name, and the one that exiting sets: proc(5), sched.h.
_FLAGS, _PF_EXITING = 6, 0x4
CGROUP_V1, CGROUP_V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


class BudgetError(Exception):
    """The budget cannot be set; the message says why, with the figures, and what to do."""

    changed = False  # whether the host was changed before the error


class HugepageBudget:
    """Reserves the rest of the host's DRAM as huge pages, so that the whole host has only the budget left.

    Args:
        size: the budget in bytes.
        reserve: the part of the budget that must be left on top of the memory of the host's programs, in bytes.
        run_command: AnsibleModule.run_command.
    """

    def __init__(self, size: int, reserve: int, run_command: RunCommand) -> None:
        self._info = meminfo(HostFiles())
        self._page = self._info.get("Hugepagesize", 0)
        if not self._page:
            raise BudgetError(
                "dram_budget: mechanism hugepages is not possible, because this kernel has no huge pages; use cgroup"
            )
        self._size, self._reserve, self._run_command = size, reserve, run_command
        self.persistent = booted()

    def read_state(self) -> dict[str, t.Any]:
        """Return the present state."""
        return {"huge pages": int(_read(HUGEPAGES) or 0), **budget_service.read_files()}

    def applied_state(self, present: t.Mapping[str, t.Any], original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the state with the budget in force. Raises BudgetError for a budget of the host's memory or more."""
        if self._size >= self._info["MemTotal"]:
            raise BudgetError(
                f"a DRAM budget of {size_text(self._size)} must be below the host's memory "
                f"({size_text(self._info['MemTotal'])})"
            )
        pages = original["huge pages"] + (self._info["MemTotal"] - self._size) // self._page
        close = abs(present["huge pages"] - pages) <= pages * _HUGEPAGES_TOLERANCE
        lasting = budget_service.wanted_files(self._size, original["huge pages"])
        return {
            "huge pages": present["huge pages"] if close else pages,
            **(lasting if self.persistent else dict.fromkeys(lasting)),
        }

    def lifted_state(self, present: t.Mapping[str, t.Any], original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the state with the budget no longer in force, and everything else as it is."""
        return {**present, "huge pages": original["huge pages"]}

    def check(self, present: t.Mapping[str, t.Any]) -> None:
        """Raise BudgetError if the budget is too small for the host's own programs."""
        hugepages = present["huge pages"] * self._page
        in_use = self._info["MemTotal"] - self._info["MemAvailable"] - hugepages
        if self._size < in_use + self._reserve:
            raise BudgetError(
                f"a DRAM budget of {size_text(self._size)} by huge pages would push the host into OOM: its programs "
                f"use {size_text(in_use)}, and the reserve is {size_text(self._reserve)}. The budget must be at least "
                f"{size_text(in_use + self._reserve)}."
            )

    def set_state(self, state: t.Mapping[str, t.Any]) -> None:
        """Reserve or release huge pages, and write or remove the files that reserve them at each boot."""
        if state[budget_service.LINK] is None:  # the next boot must be without the budget, even if this fails
            self._write_files(state)
        # To reserve what it is told, the kernel would take even the memory of running programs.
        needed = (state["huge pages"] - int(_read(HUGEPAGES) or 0)) * self._page
        if needed > self._info["MemAvailable"]:
            raise BudgetError(
                f"{state['huge pages']:,} huge pages need {size_text(needed)} more than now, and "
                f"{size_text(self._info['MemAvailable'])} are available"
            )
        _write(HUGEPAGES, str(state["huge pages"]))
        got = int(_read(HUGEPAGES) or 0)
        if abs(got - state["huge pages"]) > state["huge pages"] * _HUGEPAGES_TOLERANCE:
            raise BudgetError(
                f"the kernel could reserve {got:,} of {state['huge pages']:,} huge pages; the rest of its memory is in "
                "use or too fragmented. Stop programs that use it, or set the budget right after a boot."
            )
        self._write_files(state)

    def _write_files(self, state: t.Mapping[str, t.Any]) -> None:
        if budget_service.write_files(state) and self.persistent:
            run_checked(self._run_command, ["systemctl", "daemon-reload"], BudgetError)


class SliceBudget:
    """Limits a slice of systemd by our own drop-in, in either version of control groups.

    Args:
        size: the budget in bytes.
        group: name of the slice.
        run_command: AnsibleModule.run_command.
    """

    persistent = True

    def __init__(self, size: int, group: str, run_command: RunCommand) -> None:
        self._size, self._group, self._run_command = size, group, run_command
        self._dropin = f"/etc/systemd/system/{group}.d/90-memstretch-budget.conf"
        self._files = CgroupFiles(*group_directory(HostFiles(), group))

    def read_state(self) -> dict[str, t.Any]:
        """Return the present state."""
        # An empty slice has no control group. systemd sets the limit from the drop-in when the first service starts.
        with self._files.locked():
            return {
                self._dropin: _read(self._dropin),
                "limit": self._files.limit(),
                "swappiness": self._files.swappiness(),
            }

    def applied_state(self, present: t.Mapping[str, t.Any], _original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the state with the budget in force."""
        return {
            self._dropin: f"{MARK}\n[Slice]\nMemoryMax={self._size}\n",
            "limit": self._size if self._files.exists() else None,
            "swappiness": self._files.applied_swappiness() if self._files.exists() else [],
        }

    def lifted_state(self, present: t.Mapping[str, t.Any], _original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the state with the budget no longer in force."""
        return {self._dropin: None, "limit": None, "swappiness": self._files.swappiness()}

    def check(self, _present: t.Mapping[str, t.Any]) -> None:
        """Raise BudgetError if the processes of the slice do not fit into the budget and the free swap."""
        self._files.check(self._size)

    def set_state(self, state: t.Mapping[str, t.Any]) -> None:
        """Write or remove the drop-in, and set the limit of the control group if the slice has one now."""
        if state[self._dropin] is None:
            remove_file(self._dropin)
            _remove_empty(os.path.dirname(self._dropin))
        else:
            os.makedirs(os.path.dirname(self._dropin), exist_ok=True)
            write_file(self._dropin, state[self._dropin])
        run_checked(self._run_command, ["systemctl", "daemon-reload"], BudgetError)
        if self._files.exists() and self._files.limit() != state["limit"]:
            self._files.set_limit(state["limit"])
        self._files.set_swappiness(state["swappiness"])


class GroupBudget:
    """Limits a control group that it creates, on a host without systemd, until the next reboot.

    Args:
        size: the budget in bytes.
        group: path of the control group below the root of the memory controller.
    """

    persistent = False

    def __init__(self, size: int, group: str) -> None:
        path, version_1 = group_directory(HostFiles(), group)
        if not version_1 and "memory" not in (_read("/sys/fs/cgroup/cgroup.subtree_control") or "").split():
            raise BudgetError(
                "dram_budget: mechanism cgroup is not possible, because no memory controller is mounted at "
                "/sys/fs/cgroup; use hugepages"
            )
        self._size = size
        self._files = CgroupFiles(path, version_1)

    def read_state(self) -> dict[str, t.Any]:
        """Return the present state."""
        with self._files.locked():
            return {
                "group": self._files.path if self._files.exists() else None,
                "limit": self._files.limit(),
                "swappiness": self._files.swappiness(),
            }

    def applied_state(self, _present: t.Mapping[str, t.Any], _original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the state with the budget in force."""
        return {"group": self._files.path, "limit": self._size, "swappiness": self._files.applied_swappiness()}

    def lifted_state(self, present: t.Mapping[str, t.Any], _original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the state with the budget no longer in force; the control group stays."""
        return {**present, "limit": None}

    def check(self, _present: t.Mapping[str, t.Any]) -> None:
        """Raise BudgetError if the processes of the control group do not fit into the budget and the free swap."""
        self._files.check(self._size)

    def set_state(self, state: t.Mapping[str, t.Any]) -> None:
        """Create the control group and set its limit, or remove the group."""
        if state["group"]:
            os.makedirs(self._files.path, exist_ok=True)
        if self._files.exists() and self._files.limit() != state["limit"]:
            self._files.set_limit(state["limit"])
        self._files.set_swappiness(state["swappiness"])
        if not state["group"] and self._files.exists():
            self._files.remove()


def group_directory(files: HostFiles, group: str) -> tuple[str, bool]:
    """Return the directory of a control group of the memory controller, and whether it is of version 1.

    Args:
        files: of the host.
        group: as in group_path().
    """
    version_1 = files.exists(CGROUP_V1)
    return f"{CGROUP_V1 if version_1 else CGROUP_V2}/{group_path(group)}", version_1


def group_path(group: str) -> str:
    """Return the path of a control group below the root of its controller.

    Args:
        group: such a path, or the name of a slice, whose directory is below those of its parents.
    """
    if "/" in group or not group.endswith(".slice"):
        return group
    parts = group[: -len(".slice")].split("-")
    return "/".join("-".join(parts[:depth]) + ".slice" for depth in range(1, len(parts) + 1))


def group_of_process(files: HostFiles, pid: int) -> str | None:
    """Return the path of the control group that a process's memory is charged to; None if it has ended or exits."""
    version_2 = None
    # The name of a group may have any character but the end of a line, also some that Python takes for one.
    for line in filter(None, (files.text(f"/proc/{pid}/cgroup") or "").split("\n")):
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            # In version 1 the kernel says of a process that exits that it is in the root's group, wherever it was.
            return None if path == "/" and _is_exiting(files, pid) else path
        if number == "0":
            version_2 = path
    return version_2


def _is_exiting(files: HostFiles, pid: int) -> bool:
    """Return whether a process exits or has ended: proc(5), the field flags of stat."""
    stat = files.text(f"/proc/{pid}/stat")
    return stat is None or bool(int(stat.rpartition(")")[2].split()[_FLAGS]) & _PF_EXITING)


class CgroupFiles:
    """The files of one control group, in version 1 or 2."""

    def __init__(self, path: str, version_1: bool) -> None:
        self.path, self.version_1 = path, version_1
        self._limit, self._usage, self._none = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "-1")
            if version_1
            else ("memory.max", "memory.current", "max")
        )

    def exists(self) -> bool:
        """Check whether the control group exists."""
        return os.path.isdir(self.path)

    def processes(self) -> int:
        """Count how many processes are in the control group and the groups below it."""
        lists = (_read(os.path.join(directory, "cgroup.procs")) for directory, _below, _files in os.walk(self.path))
        return sum(len((text or "").split()) for text in lists)

    def locked(self) -> t.ContextManager[None]:
        """Keep other processes from changing the limit: a watch lowers it for a moment, and raises it again.

        Hold this while reading the limit; set_limit() and squeeze() acquire it themselves.
        """
        return locked(f"the limit of the control group {self.path}")

    def limit(self) -> int | None:
        """Return the memory limit in bytes, None if there is none."""
        text = _read(f"{self.path}/{self._limit}")
        return int(text) if text and re.match(r"^\d+$", text) and int(text) < _NO_LIMIT_V1 else None

    def usage(self) -> int:
        """Return the memory in use, in bytes."""
        return int(_read(f"{self.path}/{self._usage}") or 0)

    def set_limit(self, limit: int | None) -> None:
        """Set the memory limit. This returns when the kernel has moved what exceeds the limit to swap."""
        with self.locked():
            self._set_limit(limit)

    def _set_limit(self, limit: int | None) -> None:
        _write(f"{self.path}/{self._limit}", self._none if limit is None else str(limit))

    def squeeze(self, limit: int) -> bool:
        """Set a limit that may be below the memory in use; return False if the kernel cannot move the rest to swap.

        The OOM killer is not called: version 1 refuses such a limit, and in version 2 the memory is reclaimed first.
        """
        version_2 = self._usage == "memory.current"
        if version_2 and self.usage() > limit and not os.path.exists(f"{self.path}/memory.reclaim"):
            raise BudgetError(f"{self.path} has no memory.reclaim; it needs Linux 5.19 or later")
        for _try in range(_TRIES):
            excess = self.usage() - limit
            if version_2 and excess > 0:
                with contextlib.suppress(BudgetError):  # it also fails if a part was reclaimed
                    _write(f"{self.path}/memory.reclaim", str(excess))
                if self.usage() > limit:
                    continue  # a running fleet takes pages back
            with contextlib.suppress(BudgetError):
                self.set_limit(limit)
                return True
        return False

    def reclaim(self, limit: int, free: int, write: t.Callable[[str, str], None]) -> bool:
        """Move memory to swap until C(free) bytes are free below the limit; return False if the kernel cannot.

        The caller holds locked() since it read the limit. Version 1 has no file for reclaim. There a limit takes effect
        only when the memory in use is below it, and the process that sets it reclaims. So the limit is lowered and
        raised again at once; no other process meets it.

        Args:
            limit: of the group.
            free: see above.
            write: writes a value to a file, or raises BudgetError. The kernel reclaims in the process that does it.
        """
        try:
            if self._usage == "memory.current":
                write(f"{self.path}/memory.reclaim", str(free))
            else:
                try:
                    write(f"{self.path}/{self._limit}", str(limit - free))
                finally:
                    self._set_limit(limit)
        except BudgetError:
            return False
        return True

    def limit_hits(self) -> int | None:
        """Count how often a process met the limit since the group exists; None if the kernel does not count that."""
        if self._usage != "memory.current":
            text = _read(f"{self.path}/memory.failcnt")
        else:
            events = dict(line.split() for line in (_read(f"{self.path}/memory.events") or "").splitlines())
            text = events.get("max")
        return None if text is None else int(text)

    def swappiness(self) -> list[int]:
        """Return the different values of the group and those below it. Only version 1 has one for each group."""
        found = (_read(os.path.join(path, _SWAPPINESS)) for path, _below, _files in os.walk(self.path))
        return sorted({int(value) for value in found if value})

    def applied_swappiness(self) -> list[int]:
        """Return the swappiness that a profile needs: the host's, since a group keeps that of its creation."""
        return [int(_read("/proc/sys/vm/swappiness") or 0)] if self.version_1 else []

    def set_swappiness(self, values: t.Sequence[int]) -> None:
        """Set the value of the group and those below it. Several different ones cannot be told apart: they stay."""
        if len(values) != 1 or self.swappiness() == list(values):
            return
        for path, _below, _files in os.walk(self.path):
            _write(os.path.join(path, _SWAPPINESS), str(values[0]))

    def check(self, size: int) -> None:
        """Raise BudgetError if the memory in use does not fit into the budget and the host's free swap."""
        room = size + meminfo(HostFiles()).get("SwapFree", 0)
        if self.usage() > room:
            raise BudgetError(
                f"a DRAM budget of {size_text(size)} for {self.path} would trigger the OOM killer: "
                f"{size_text(self.usage())} are in use there, and budget and free swap are {size_text(room)} together. "
                "Stop a part of the fleet, or add swap first."
            )

    def remove(self) -> None:
        """Move the processes to the parent control group, and remove this one."""
        for pid in (_read(f"{self.path}/cgroup.procs") or "").split():
            try:
                _write(f"{os.path.dirname(self.path)}/cgroup.procs", pid)
            except BudgetError:
                if os.path.isdir(f"/proc/{pid}"):
                    raise
        try:
            os.rmdir(self.path)
        except OSError as error:
            raise BudgetError(f"{self.path} cannot be removed: {error.strerror}") from error


def _read(path: str) -> str | None:
    files = HostFiles()
    text = files.raw(path)
    if files.unreadable:
        raise BudgetError(f"cannot read {files.unreadable[0]}")
    return None if text is None else text.decode() if path.endswith(".conf") else text.decode().strip()


def _write(path: str, value: str) -> None:
    try:
        set_kernel_file(path, value)
    except OSError as error:
        raise BudgetError(f"the kernel refuses {value} for {path}: {error.strerror}") from error


def _remove_empty(directory: str) -> None:
    """Remove a directory if it exists and is empty: it may have drop-ins of others."""
    if os.path.isdir(directory) and not os.listdir(directory):
        os.rmdir(directory)
