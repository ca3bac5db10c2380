# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory control groups of units. Two of the methods work on whole groups, so a unit must have its own."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import group_of_process
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles


class NoGroup(Exception):
    """A unit has no control group of its own; the text is the reason."""


def of_units(files: HostFiles, units: t.Sequence[Unit], known: t.Callable[[str], bool]) -> list[list[str]]:
    """Return the control groups of each unit, in which nothing else runs; none for a unit that has ended.

    Args:
        known: tells whether a path is a group that the method can use. A process in another one counts to the next
            group above that is.

    Raises:
        NoGroup: a unit shares its group with processes that are not of it.
    """
    owners = {pid: number for number, unit in enumerate(units) for pid in unit.pids}
    inside: dict[str, set[int | None]] = {}
    for name in files.names("/proc"):
        path = group_of_process(files, int(name)) if name.isdigit() else None
        if path is not None:
            inside.setdefault(_nearest(path, known), set()).add(owners.get(int(name)))
    found: list[list[str]] = [[] for _unit in units]
    for path, there in inside.items():
        mine = [owner for owner in there if owner is not None]
        if mine and (path == "/" or len(there) > 1):
            where = "has no memory control group of its own" if path == "/" else f"shares the control group {path}"
            raise NoGroup(f"{units[mine[0]].name} {where}")
        for owner in mine:
            found[owner].append(path)
    return found


def _nearest(path: str, known: t.Callable[[str], bool]) -> str:
    while path != "/" and not known(path):
        path = path.rpartition("/")[0] or "/"
    return path
