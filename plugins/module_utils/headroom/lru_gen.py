# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generations of MGLRU, the kernel's multi-gen LRU, as a clock: method b, for kernels without DAMON.

The kernel keeps the pages of each control group in up to four generations, by when they were last seen to be accessed.
Writing to /sys/kernel/debug/lru_gen makes a new generation: the kernel walks the page tables and moves what was
accessed since the last walk to the generation that was the youngest until then
(Documentation/admin-guide/mm/multigen_lru.rst). So the pages of all generations that are not older than an age are
what was accessed within it. Two ages fit into the four generations, so the ages are looked at in pairs, one after the
other, which takes a little longer than the longest of them.

A generation is only a mark on a page. The kernel makes new ones itself whenever it reclaims, so those that a look has
made need not be removed.

The walk does not ask a guest's own page tables, at least not before Linux 6.13: what a guest accesses under KVM would
seem cold. So VMs under KVM are refused.
"""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom import groups
from ansible_collections.memstretch.density.plugins.module_utils.headroom.guard import Guard
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, set_kernel_file

SWITCH = "/sys/kernel/mm/lru_gen/enabled"
GENERATIONS = "/sys/kernel/debug/lru_gen"
# The parts of MGLRU that are needed: itself, and walks of page tables.
_NEEDED, _ALL = 0x3, 0x7
# The file lists every control group of the host.
_MOST_BYTES = 64 * 2**20
# By how much a generation may be older or younger than the age that is wanted.
_TOLERANCE, _LEAST_TOLERANCE_S = 0.1, 0.5


class LruGenError(Exception):
    """The generations cannot be used; the text is the reason."""


class Generation(t.NamedTuple):
    """Pages that were last seen to be accessed at about the same time.

    Attributes:
        number: they are counted up.
        age: seconds since it became the youngest.
        pages: anonymous and shared memory, without files.
    """

    number: int
    age: float
    pages: int


class Group(t.NamedTuple):
    """A control group: the number with which it is written to, and its generations, oldest first, by NUMA node."""

    number: int
    nodes: dict[int, list[Generation]]


def parse(text: str) -> dict[str, Group]:
    """Return the control groups of the file by path."""
    found: dict[str, Group] = {}
    generations: list[Generation] = []
    group: Group | None = None
    for line in text.split("\n"):  # the name of a group may have other characters that Python takes for the end of one
        words = line.split()
        if words[:1] == ["memcg"]:
            # The root group of a kernel that has control groups is "/"; a kernel without them shows no path.
            path = line.split(None, 2)[2:] or ["/"]
            group = found[path[0]] = Group(int(words[1]), {})
        elif words[:1] == ["node"] and group is not None:
            generations = group.nodes[int(words[1])] = []
        elif len(words) == 4 and group is not None:
            number, age, anonymous = (int(word.rstrip("x")) for word in words[:3])
            generations.append(Generation(number, age / 1000, anonymous))
    return found


def objection(files: HostFiles, probe: bool) -> str | None:
    """Return why the generations cannot be used on this host; None if nothing speaks against it. It only reads."""
    switch = files.text(SWITCH)
    if switch is None:
        return "this kernel has no MGLRU (CONFIG_LRU_GEN)"
    if int(switch, 16) & _NEEDED != _NEEDED and not probe:
        return f"MGLRU is off ({SWITCH} is {switch}), and only headroom_probe switches it on"
    try:
        with open(files.path(GENERATIONS), "rb"):
            return None
    except FileNotFoundError:
        return f"there is no {GENERATIONS}: debugfs is not mounted"
    except OSError as error:
        return f"{GENERATIONS} cannot be read: {error.strerror}"


class LruGen:
    """The generations of the control groups of some units. Use it as a context manager.

    Args:
        probe: whether MGLRU may be switched on for the look.

    Raises:
        LruGenError: they cannot be used; whatever was set is as before.
    """

    def __init__(self, files: HostFiles, units: t.Sequence[Unit], probe: bool) -> None:
        self._files, self._units = files, units
        reason = objection(files, probe) or _under_kvm(files, units)
        if reason:
            raise LruGenError(reason)
        self._before = files.text(SWITCH) or "0"
        self._switched = int(self._before, 16) & _NEEDED != _NEEDED
        self._guard: Guard | None = None
        self._paths: list[list[str]] = []

    def __enter__(self) -> LruGen:
        try:
            if self._switched:
                self._guard = Guard(self._switch_back)
                set_kernel_file(self._files.path(SWITCH), f"{_ALL:#x}")
            known = self._read()
            self._paths = groups.of_units(self._files, self._units, known.__contains__)
        except (OSError, groups.NoGroup) as error:
            self.__exit__()
            raise LruGenError(str(error)) from error
        return self

    def __exit__(self, *_error: t.Any) -> None:
        if self._switched:
            self._switch_back()
        if self._guard:
            self._guard.dismiss()

    def watch(self, ages: t.Sequence[int]) -> list[dict[int, tuple[float, int]]]:
        """Return for each unit and age how long it was really watched, and the bytes that were accessed meanwhile.

        An age is missing if the kernel made generations of its own at that time, so that none is as old.

        Args:
            ages: in seconds, increasing.
        """
        found: list[dict[int, tuple[float, int]]] = [{} for _unit in self._units]
        self._age()
        for pair in pairs(ages):
            waits = [pair[-1] - pair[0], pair[0]] if len(pair) == 2 else [pair[0]]
            for wait in waits:
                time.sleep(wait)
                self._age()
            now = self._read()
            for of_unit, paths in zip(found, self._paths):
                for age in pair:
                    borders = [(each, border(each, age)) for path in paths for each in _nodes(now, path)]
                    known = [(each, first) for each, first in borders if first]
                    if known and len(known) == len(borders):
                        pages = sum(active(each, first) for each, first in known)
                        of_unit[age] = (
                            sum(first.age for _each, first in known) / len(known),
                            pages * os.sysconf("SC_PAGE_SIZE"),
                        )
        return found

    def _age(self) -> None:
        """Make a new generation in all groups of the units."""
        now = self._read()
        for path in {path for paths in self._paths for path in paths}:
            group = now.get(path)
            for node, generations in (group.nodes if group else {}).items():
                # 1, 1: of anonymous memory too, and even though there are four already.
                command = f"+ {group.number if group else 0} {node} {generations[-1].number} 1 1"
                try:
                    set_kernel_file(self._files.path(GENERATIONS), command)
                except OSError as error:
                    if path not in self._read():
                        continue  # the unit has just stopped
                    raise LruGenError(f"the kernel refused a new generation ({command}): {error.strerror}") from error

    def _read(self) -> dict[str, Group]:
        return parse(self._files.text(GENERATIONS, _MOST_BYTES) or "")

    def _switch_back(self) -> None:
        set_kernel_file(self._files.path(SWITCH), self._before)


def pairs(ages: t.Sequence[int]) -> list[list[int]]:
    """Return the ages two by two; if their number is odd, the shortest is alone."""
    odd = len(ages) % 2
    return [list(ages[:odd])] * odd + [list(ages[start : start + 2]) for start in range(odd, len(ages), 2)]


def border(generations: t.Sequence[Generation], age: float) -> Generation | None:
    """Return the generation that is as old as an age; None if there is none.

    It is not the oldest one, which also has everything that is older.
    """
    nearest = min(generations[1:], key=lambda each: abs(each.age - age), default=None)
    near = nearest is not None and abs(nearest.age - age) <= max(_LEAST_TOLERANCE_S, _TOLERANCE * age)
    return nearest if near else None


def active(generations: t.Sequence[Generation], first: Generation) -> int:
    """Return the pages of a generation and of all that are younger."""
    return sum(each.pages for each in generations if each.number >= first.number)


def _nodes(groups_now: t.Mapping[str, Group], path: str) -> list[list[Generation]]:
    group = groups_now.get(path)
    # A node without memory, or of which a group has never used any, has generations without pages.
    return [each for each in group.nodes.values() if any(one.pages for one in each)] if group else []


def _under_kvm(files: HostFiles, units: t.Sequence[Unit]) -> str | None:
    """Return that a unit is a VM under KVM; None if none is."""
    for unit in units:
        for pid in unit.pids:
            for name in files.names(f"/proc/{pid}/fd"):
                if _target(files.path(f"/proc/{pid}/fd/{name}")) == "anon_inode:kvm-vm":
                    return f"MGLRU does not see what {unit.name} accesses, since it is under KVM"
    return None


def _target(link: str) -> str | None:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return None  # closed meanwhile
