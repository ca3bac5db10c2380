# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A DRAM budget: a cap that makes a large host behave like a small one. Two mechanisms, and how each is undone.

Each mechanism is a class that says what its state is, refuses what would end in the OOM killer, and sets it. A state is a dictionary
from names that people read to values; equal states are equal dictionaries.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    HostFiles,
    meminfo,
    remove_file,
    write_file,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text

MARK = "# Written by the Ansible collection memstretch.density; its role host_tuning removes it again."
SYSCTL_FILE = "/etc/sysctl.d/zz-memstretch-budget.conf"
HUGEPAGES = "/proc/sys/vm/nr_hugepages"
# The kernel hands out huge pages from what is in one piece; a cap that is off by less than this is the cap.
_HUGEPAGES_SHORT = 0.02
_NO_LIMIT_V1 = 2**62


class BudgetError(Exception):
    """The budget cannot be set; the text says why, with the figures, and what to do."""


class HugepageBudget:
    """The rest of the host's DRAM is reserved as huge pages, so that the whole host lives in what is left of it."""

    def __init__(self, size: int, reserve: int) -> None:
        self._info = meminfo(HostFiles())
        self._page = self._info.get("Hugepagesize", 0)
        if not self._page:
            raise BudgetError(
                "dram_budget: mechanism hugepages is not possible, this kernel has no huge pages; use cgroup"
            )
        self._size, self._reserve = size, reserve
        self.persistent = booted()

    def observe(self) -> dict[str, t.Any]:
        return {"huge pages": int(_read(HUGEPAGES) or 0), SYSCTL_FILE: _read(SYSCTL_FILE)}

    def wanted(self, present: t.Mapping[str, t.Any], original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        pages = original["huge pages"] + max(0, self._info["MemTotal"] - self._size) // self._page
        close = abs(present["huge pages"] - pages) <= pages * _HUGEPAGES_SHORT
        return {
            "huge pages": present["huge pages"] if close else pages,
            SYSCTL_FILE: (
                present[SYSCTL_FILE] if close and present[SYSCTL_FILE] else f"{MARK}\nvm.nr_hugepages = {pages}\n"
            )
            if self.persistent
            else None,
        }

    def lifted(self, present: t.Mapping[str, t.Any], original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {**present, "huge pages": original["huge pages"]}

    def refuse(self, present: t.Mapping[str, t.Any]) -> None:
        """Raise BudgetError if the host's own programs would not fit."""
        ours = present["huge pages"] * self._page
        in_use = self._info["MemTotal"] - self._info["MemAvailable"] - ours
        if self._size < in_use + self._reserve:
            raise BudgetError(
                f"a DRAM budget of {size_text(self._size)} by huge pages would push the host into OOM: its programs hold {size_text(in_use)}, and "
                f"{size_text(self._reserve)} are kept in reserve. The budget must be at least {size_text(in_use + self._reserve)}."
            )
        if self._size >= self._info["MemTotal"]:
            raise BudgetError(
                f"a DRAM budget of {size_text(self._size)} is no budget: the host has {size_text(self._info['MemTotal'])}"
            )

    def reach(self, state: t.Mapping[str, t.Any]) -> None:
        _write(HUGEPAGES, str(state["huge pages"]))
        got = int(_read(HUGEPAGES) or 0)
        if abs(got - state["huge pages"]) > state["huge pages"] * _HUGEPAGES_SHORT:
            raise BudgetError(
                f"the kernel found room for {got:,} of {state['huge pages']:,} huge pages; the rest of its memory is in use or in too "
                "small pieces. Stop what uses it, or set the budget right after a boot."
            )
        if state[SYSCTL_FILE] is None:
            remove_file(SYSCTL_FILE)
        else:
            write_file(SYSCTL_FILE, state[SYSCTL_FILE])


class SliceBudget:
    """A limit on a slice of systemd, in either version of control groups, by a drop-in of our own."""

    persistent = True

    def __init__(self, size: int, group: str, run_command: RunCommand) -> None:
        self._size, self._group, self._run_command = size, group, run_command
        self._dropin = f"/etc/systemd/system/{group}.d/90-memstretch-budget.conf"
        steps = group[: -len(".slice")].split("-")
        path = "/".join("-".join(steps[:depth]) + ".slice" for depth in range(1, len(steps) + 1))
        v1 = "/sys/fs/cgroup/memory"
        self._files = CgroupFiles(f"{v1 if os.path.isdir(v1) else '/sys/fs/cgroup'}/{path}", os.path.isdir(v1))

    def observe(self) -> dict[str, t.Any]:
        # A slice with nothing in it has no group; its limit is the drop-in's and comes with the first service.
        return {self._dropin: _read(self._dropin), "limit": self._files.limit()}

    def wanted(self, present: t.Mapping[str, t.Any], _original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {
            self._dropin: f"{MARK}\n[Slice]\nMemoryMax={self._size}\n",
            "limit": self._size if self._files.there() else None,
        }

    def lifted(self, present: t.Mapping[str, t.Any], _original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {self._dropin: None, "limit": None}

    def refuse(self, _present: t.Mapping[str, t.Any]) -> None:
        self._files.refuse(self._size)

    def reach(self, state: t.Mapping[str, t.Any]) -> None:
        if state[self._dropin] is None:
            remove_file(self._dropin)
            _remove_empty(os.path.dirname(self._dropin))
        else:
            os.makedirs(os.path.dirname(self._dropin), exist_ok=True)
            write_file(self._dropin, state[self._dropin])
        run_checked(self._run_command, ["systemctl", "daemon-reload"], BudgetError)
        if self._files.there() and self._files.limit() != state["limit"]:
            self._files.set_limit(state["limit"])


class GroupBudget:
    """A limit on a control group that we make ourselves, on a host without systemd. It is gone after a reboot."""

    persistent = False

    def __init__(self, size: int, group: str) -> None:
        v1 = "/sys/fs/cgroup/memory"
        version_1 = os.path.isdir(v1)
        if not version_1 and "memory" not in (_read("/sys/fs/cgroup/cgroup.subtree_control") or "").split():
            raise BudgetError(
                "dram_budget: mechanism cgroup is not possible, no memory controller is mounted at /sys/fs/cgroup; use hugepages"
            )
        self._size = size
        self._files = CgroupFiles(f"{v1 if version_1 else '/sys/fs/cgroup'}/{group}", version_1)

    def observe(self) -> dict[str, t.Any]:
        return {"group": self._files.path if self._files.there() else None, "limit": self._files.limit()}

    def wanted(self, _present: t.Mapping[str, t.Any], _original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {"group": self._files.path, "limit": self._size}

    def lifted(self, present: t.Mapping[str, t.Any], _original: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {**present, "limit": None}

    def refuse(self, _present: t.Mapping[str, t.Any]) -> None:
        self._files.refuse(self._size)

    def reach(self, state: t.Mapping[str, t.Any]) -> None:
        if state["group"]:
            os.makedirs(self._files.path, exist_ok=True)
        if self._files.there() and self._files.limit() != state["limit"]:
            self._files.set_limit(state["limit"])
        if not state["group"] and self._files.there():
            self._files.dissolve()


class CgroupFiles:
    """The files of one control group, in either version."""

    def __init__(self, path: str, version_1: bool) -> None:
        self.path = path
        self._limit, self._usage, self._none = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "-1")
            if version_1
            else ("memory.max", "memory.current", "max")
        )

    def there(self) -> bool:
        return os.path.isdir(self.path)

    def limit(self) -> int | None:
        """Return the limit in bytes, None without one."""
        text = _read(f"{self.path}/{self._limit}")
        return int(text) if text and re.match(r"^\d+$", text) and int(text) < _NO_LIMIT_V1 else None

    def usage(self) -> int:
        return int(_read(f"{self.path}/{self._usage}") or 0)

    def set_limit(self, limit: int | None) -> None:
        """Set it; the kernel moves what is above it to swap meanwhile, which takes as long as that takes."""
        _write(f"{self.path}/{self._limit}", self._none if limit is None else str(limit))

    def refuse(self, size: int) -> None:
        """Raise BudgetError if what is in the group would not fit into the budget and the host's swap."""
        room = size + meminfo(HostFiles()).get("SwapFree", 0)
        if self.usage() > room:
            raise BudgetError(
                f"a DRAM budget of {size_text(size)} for {self.path} would end in the OOM killer: {size_text(self.usage())} are in use there, and "
                f"budget and free swap are {size_text(room)} together. Stop a part of the fleet, or add swap first."
            )

    def dissolve(self) -> None:
        """Hand its processes to the parent group and remove it."""
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
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BudgetError(f"the kernel refuses {value} for {path}: {error.strerror}") from error


def _remove_empty(directory: str) -> None:
    """Remove it unless it holds drop-ins of others, or never was."""
    if os.path.isdir(directory) and not os.listdir(directory):
        os.rmdir(directory)
