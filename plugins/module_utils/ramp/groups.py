# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control groups of a ramp, with their own settings, and the reclaim that keeps the fleet within its budget."""

from __future__ import annotations

import contextlib
import glob
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.budget_fit import rounded
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import (
    BudgetError,
    CgroupFiles,
    group_directory,
    group_of_process,
    group_path,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, swap_areas
from ansible_collections.memstretch.density.plugins.module_utils.host.group_reclaim import (
    HIGH,
    LOW,
    GroupReclaim,
    Room,
)

FLEET, REFERENCES = "memstretch-ramp", "memstretch-references"
# The limit is at least this share of the budget; below it, the pages in use at any moment do not fit.
FLOOR = 0.05
# The limit follows compressed memory so often, and by steps of at least this size.
_FOLLOW_S, _LEAST_CHANGE = 0.05, 256 * 1024
_GONE_SECONDS = 5.0
# Free below the limit in a window, at most these shares of the budget: what a look by the keeper and the end of a batch
# take is less, and each look takes a CPU from the fleet.
_LOW, _HIGH = 2 * 2**20, 2.5 * 2**20
_LOW_SHARE, _HIGH_SHARE = 1 / 128, 1 / 100
# Free while servers are filled, at most these shares of the limit: they take up to 200 MB/s.
_JOIN_LOW, _JOIN_HIGH = 4 * 2**20, 8 * 2**20
_JOIN_LOW_SHARE, _JOIN_HIGH_SHARE = 1 / 16, 1 / 8


class RampGroup(CgroupFiles):
    """A control group that exists for one ramp.

    A group keeps the swappiness that its parent had at its creation, so each ramp makes new groups and sets it.

    Args:
        name: below the root of the memory controller.
        root: the directory with the host's files; tests use another one than /.
    """

    def __init__(self, name: str, root: str = "/") -> None:
        path, self.version_1 = group_directory(HostFiles(root), name)
        self.name = name
        super().__init__(os.path.join(root, path.lstrip("/")), self.version_1)

    @property
    def entry(self) -> str:
        """The file to which a process writes 0 to enter the group."""
        return f"{self.path}/cgroup.procs"

    def locked(self) -> t.ContextManager[None]:
        """Return at once: nobody but the keeper of the one ramp of this machine changes the limit.

        A lock in a file would cost most of the keeper's CPU time, since it looks every few milliseconds.
        """
        return contextlib.nullcontext()

    def create(self, limit: int | None, swappiness: int, swap_bytes: int) -> None:
        """Make the group and set what belongs to it.

        Args:
            limit: of its memory, in bytes; None for none.
            swappiness: of its pages; only version 1 has one for each group.
            swap_bytes: how much of it may be in swap; 0 keeps it in DRAM. Version 1 has no such limit: there a
                swappiness of 0 keeps a group from swapping.

        Raises:
            BudgetError: the kernel has no memory controller here, or does not take a value.
        """
        parent = os.path.dirname(self.path)
        controllers = _text(f"{parent}/cgroup.subtree_control")
        if not self.version_1 and "memory" not in (controllers or "").split():
            raise BudgetError(
                f"{parent}/cgroup.subtree_control does not have memory, so no group can have a DRAM budget; write "
                "+memory to it, or mount the memory controller"
            )
        self._make()
        if self.version_1:
            self._set("memory.swappiness", str(swappiness if swap_bytes else 0))
        else:
            self._set("memory.swap.max", str(swap_bytes))
        if limit is not None:
            self.set_limit(limit)

    def _make(self) -> None:
        self.destroy()
        os.mkdir(self.path)

    def has(self, pid: int) -> bool | None:
        """Return whether the memory of a process is charged to this group; None if the process has ended."""
        path = _group_of(pid)
        return None if path is None else f"{path}/".startswith(f"/{group_path(self.name)}/")

    def admit(self, pid: int) -> None:
        """Refuse the process of a server that somebody else has started, unless it is where it must be.

        Raises:
            BudgetError: it is in another group.
        """
        if self.has(pid) is False:
            raise BudgetError(f"process {pid} is in the control group {_group_of(pid)}, not in {self.path}")

    def protect(self) -> None:
        """Let nobody else's need for memory push this group's pages out. Version 1 has no such setting."""
        if not self.version_1:
            self._set("memory.min", "max")

    def settings(self) -> dict[str, int | None]:
        """Return the swappiness and the limit of swap that are in force in this group; None where it has none."""
        files = HostFiles()
        return {
            "swappiness": files.number(f"{self.path}/memory.swappiness"),
            "swap_max_bytes": files.number(f"{self.path}/memory.swap.max"),
        }

    def _set(self, name: str, value: str) -> None:
        with open(f"{self.path}/{name}", "w", encoding="ascii") as file:
            file.write(value)
        got = _text(f"{self.path}/{name}")
        page = os.sysconf("SC_PAGE_SIZE")
        if got != value and not (value.isdigit() and got == str(int(value) // page * page)):
            raise BudgetError(f"{self.path}/{name} is {got} after {value} was written")

    def destroy(self) -> None:
        """Remove the group, once its last process is gone.

        Raises:
            BudgetError: it still has processes.
        """
        deadline = time.monotonic() + _GONE_SECONDS
        while self.exists():
            try:
                self._remove()
            except OSError as error:
                if time.monotonic() > deadline:
                    lists = (_text(f"{directory}/cgroup.procs") for directory, _below, _files in os.walk(self.path))
                    held = [pid for text in lists for pid in (text or "").split()]
                    raise BudgetError(
                        f"{self.path} cannot be removed: {error.strerror}; its processes are {', '.join(held)}. End "
                        "them, then run the same command again"
                    ) from None
                time.sleep(0.02)

    def _remove(self) -> None:
        os.rmdir(self.path)


class ContainerGroup(RampGroup):
    """The group below which podman makes one for each container, with version 1 in all hierarchies.

    What podman leaves of them is removed with it.
    """

    def admit(self, pid: int) -> None:
        """Refuse a container that is elsewhere.

        Raises:
            BudgetError: it is.
        """
        try:
            super().admit(pid)
        except BudgetError as error:
            raise BudgetError(
                f"{error}: podman has not put the container where it was told (--cgroup-parent). Its runtime must be "
                "crun or runc"
            ) from None

    def _remove(self) -> None:
        hierarchies = os.path.dirname(os.path.dirname(self.path))
        same = glob.glob(f"{glob.escape(hierarchies)}/*/{self.name}") if self.version_1 else []
        # This one last: as long as it is there, destroy() goes on.
        for top in [*(path for path in same if path != self.path), self.path]:
            for directory, _below, _files in os.walk(top, topdown=False):
                os.rmdir(directory)


class Partition(RampGroup):
    """The group of libvirt's partition with the VMs of a fleet. A ramp limits it, and lifts the limit at its end.

    libvirt makes a group below it for each VM, which gets the swappiness that the partition has at that moment.
    """

    def __init__(self, name: str, root: str = "/") -> None:
        super().__init__(name, root)
        self._before: dict[str, str] = {}
        self._wanted: dict[str, str] = {}
        self._limit_bytes: int | None = None
        self._is_new = False

    def create(self, limit: int | None, swappiness: int, swap_bytes: int) -> None:
        """Limit it.

        Raises:
            BudgetError: it has a limit already, or the kernel does not take this one.
        """
        there = self.limit()
        if there is not None:
            raise BudgetError(
                f"{self.path} has a limit of {there:,} bytes already: a DRAM budget (host_tuning_dram_budget), or what "
                "a killed ramp has left. Lift it first: write -1, in version 2 max, to its file of the limit"
            )
        self._limit_bytes = limit
        super().create(limit, swappiness, swap_bytes)

    def _make(self) -> None:
        self._is_new = not self.exists()
        os.makedirs(self.path, exist_ok=True)
        name = "memory.swappiness" if self.version_1 else "memory.swap.max"
        self._before = {name: _text(f"{self.path}/{name}") or ""}

    def _set(self, name: str, value: str) -> None:
        super()._set(name, value)
        self._wanted[name] = value

    def admit(self, pid: int) -> None:
        """Refuse a VM that is not in the partition, which would escape from the budget.

        Raises:
            BudgetError: it is in another group.
        """
        super().admit(pid)
        # systemd sets up the group of a slice with its first VM, and resets what was set before.
        for name, value in self._wanted.items():
            super()._set(name, value)
        if self.limit() is None and self._limit_bytes is not None:
            self.set_limit(self._limit_bytes)

    def destroy(self) -> None:
        """Lift the limit, and remove the group if libvirt had none before. It may have removed it with its last VM."""
        if self.exists() and self._before:
            self.set_limit(None)
            for name, value in self._before.items():
                super()._set(name, value)
            if self._is_new:
                with contextlib.suppress(OSError):  # it has other VMs by now, so it is libvirt's
                    os.rmdir(self.path)


class Beside(RampGroup):
    """What stands for the group of references that are VMs: anywhere but in the partition of the fleet.

    Args:
        fleet: the partition.
    """

    def __init__(self, fleet: RampGroup) -> None:
        super().__init__(REFERENCES)
        self._fleet = fleet

    def settings(self) -> dict[str, int | None]:
        """Return nothing: each of them has a group of libvirt's."""
        return {"swappiness": None, "swap_max_bytes": None}

    def admit(self, pid: int) -> None:
        """Refuse a reference that is within the budget.

        Raises:
            BudgetError: it is.
        """
        if self._fleet.has(pid):
            raise BudgetError(
                f"process {pid} is in the control group {_group_of(pid)}, so it is within the budget of the fleet; a "
                "reference needs another vm_fleet_partition"
            )


def _group_of(pid: int) -> str | None:
    return group_of_process(HostFiles(), pid)


def _text(path: str) -> str | None:
    return HostFiles().text(path)


class BudgetKeeper(GroupReclaim):
    """Keeps a group and the compressed memory outside of it within a budget, in the background.

    While servers join and settle, the limit follows what compressed memory takes. Reclaim does not give way then: on
    busy CPUs it would be the last to run, and the fleet would exceed the budget. During a window the limit is frozen,
    so that nothing but the fleet's own page-ins causes reclaim.

    Args:
        group: of the fleet.
        budget: in bytes.
        outside: returns the bytes that are charged but not in the group.
    """

    def __init__(self, group: CgroupFiles, budget: int, outside: t.Callable[[], int]) -> None:
        super().__init__(group)
        self._budget, self._outside = budget, outside
        self.room = window_room(budget)
        self._followed = 0.0
        self.freeze(False)

    def freeze(self, frozen: bool) -> None:
        """Leave the limit as it is, or let it follow again."""
        self._frozen = self.gives_way = frozen

    def make_room(self, joining: bool) -> None:
        """Keep more room while servers are filled, which take memory much faster than a fleet pages it in."""
        with self._group.locked():
            limit = self._group.limit() or self._budget
        self.room = joining_room(limit) if joining else window_room(self._budget)

    def step(self) -> float:
        """Let the limit follow, reclaim if there is too little room, and return the seconds until the next look."""
        now = time.monotonic()
        if not self._frozen and now - self._followed >= _FOLLOW_S:
            self._followed = now
            self._follow()
        return super().step()

    def _follow(self) -> None:
        wanted = rounded(max(FLOOR * self._budget, self._budget - self._outside()))
        with self._group.locked():
            limit = self._group.limit()
        if limit is None or abs(limit - wanted) >= _LEAST_CHANGE:
            self._group.squeeze(wanted)  # what the kernel cannot move now, it is asked for again at the next look


def window_room(budget: int) -> Room:
    """Return what is kept free below the limit in a window."""
    return _room(budget, (_LOW, _LOW_SHARE), (_HIGH, _HIGH_SHARE))


def joining_room(limit: int) -> Room:
    """Return what is kept free below a limit while servers are filled."""
    return _room(limit, (_JOIN_LOW, _JOIN_LOW_SHARE), (_JOIN_HIGH, _JOIN_HIGH_SHARE))


def _room(of: int, low: tuple[float, float], high: tuple[float, float]) -> Room:
    lowest, highest = (rounded(min(most, share * of)) for most, share in (low, high))
    return Room(max(LOW, lowest), max(HIGH, highest))


class Areas(t.NamedTuple):
    """The machine's swap: what belongs to the tier, and what does not."""

    tier: list[dict[str, t.Any]]
    others: list[dict[str, t.Any]]


def areas(tier: t.Collection[str], files: HostFiles | None = None) -> Areas:
    """Return the swap areas in use.

    Args:
        tier: names of those that are measured, as in /proc/swaps.
        files: of the host.

    Raises:
        BudgetError: one of the tier is not in use, or another one is used before it.
    """
    found = swap_areas(files or HostFiles())
    names = {area["name"] for area in found}
    absent = sorted(set(tier) - names)
    if absent:
        raise BudgetError(
            f"tier: {', '.join(absent)} is not in use as swap (in use: {', '.join(sorted(names)) or 'none'})"
        )
    ours = [area for area in found if area["name"] in tier]
    others = [area for area in found if area["name"] not in tier]
    lowest = min((area["priority"] for area in ours), default=0)
    before = [area["name"] for area in others if ours and area["priority"] >= lowest]
    if before:
        raise BudgetError(
            f"tier: {before[0]} has a priority of at least {lowest}, so it would take the fleet's pages too; give the "
            "tier a higher priority, or turn that area off"
        )
    return Areas(ours, others)
