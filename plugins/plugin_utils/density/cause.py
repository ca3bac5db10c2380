# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ended a ramp: capacity, memory, the drive, the CPUs, or the tier's CPU work."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import CAPACITY, FLEET, Curve
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Window, over_budget

MEMORY, DRIVE, CPUS, TIER_CPU, NO_HOSTS = "memory", "drive", "cpus", "tier_cpu", "no_hosts"
# Ends of a ramp at which the fleet did not fit.
DOES_NOT_FIT = ("killed", "does_not_fit")
# A drive ends the ramp if at least this share of the page-ins near the crossing comes from one. The tier's own work
# fills the CPUs if it takes at least this share of the CPU time that is used there.
_MOST, _TIER_SHARE = 0.5, 0.25
# Compressed memory is at its wall if it holds at least this share of the charged DRAM, and the page-ins rise at least
# with this power of the servers, over at least this share of them: they double with 8 % more. At the end of measured
# ramps it was 9 to 26 in 15 of 16 at 50 requests/s, and 4 to 8 in three at 100 requests/s, which the CPUs ended.
_LEAST_COMPRESSED, _STEEP, _APART = 0.5, 9.0, 0.05
# A fleet that is less than this many times as slow as its references next to it is not slow because of memory.
_MEMORY_FACTOR = 1.15


def wall(ramp: t.Mapping[str, t.Any]) -> float:
    """Return the size at which a ramp ended because the fleet did not fit; infinite if that did not happen.

    A fleet that had not settled within its budget when it was looked at does not fit either.
    """
    end = ramp.get("end") or {}
    over = (
        each["n"] for each in ramp["windows"] if not each["settled"] and over_budget(each, ramp.get("budget_bytes"))
    )
    return min([*over, *([end["n"]] if end.get("kind") in DOES_NOT_FIT else [])], default=math.inf)


def cause(found: Curve, looked: t.Sequence[Window]) -> str:
    """Return what ended a ramp.

    Args:
        found: where it crossed its objective.
        looked: its clean windows.
    """
    if found.decided_by is None:
        return NO_HOSTS
    if isinstance(found.decided_by, str):
        return CAPACITY
    near = min(looked, key=lambda each: abs(math.log(each.size / found.crossing.high)))
    whose, figure = found.decided_by
    is_by_memory = whose == FLEET and not _is_as_fast_as_references(near, figure)
    reads, page_ins = near.sum("drive_reads"), near.sum("page_ins")
    if is_by_memory and reads and page_ins and reads >= _MOST * page_ins:
        return DRIVE
    if _is_at_wall(near, looked):
        return CAPACITY
    if is_by_memory:
        return MEMORY
    tier, busy = near.sum("tier_cpu_seconds"), _busy_seconds(near)
    return TIER_CPU if tier and busy and tier >= _TIER_SHARE * busy else CPUS


def _is_at_wall(window: Window, looked: t.Iterable[Window]) -> bool:
    """Decide whether hardly anything is left that compressed memory could still take, in a window of a ramp.

    Args:
        looked: the clean windows of the ramp.
    """
    compressed, charged = window.sum("tier_bytes"), window.sum("charged_bytes")
    before = max(
        (each for each in looked if each.size <= (1 - _APART) * window.size), key=lambda each: each.size, default=None
    )
    if not compressed or not charged or compressed < _LEAST_COMPRESSED * charged or not before:
        return False
    now, then = window.rate("page_ins"), before.rate("page_ins")
    if not now or not then:
        return False
    return math.log(now / then) >= _STEEP * math.log(window.size / before.size)


def _is_as_fast_as_references(window: Window, figure: str) -> bool:
    """Decide whether a fleet misses an absolute limit although memory hardly makes it slower."""
    if not window.references:
        return False
    return getattr(window.fleet["upper"], figure) < _MEMORY_FACTOR * getattr(window.references["upper"], figure)


def _busy_seconds(window: Window) -> float:
    return sum(
        (each.get("busy") or 0) * (each.get("cpus") or 0) * window.document["seconds"]
        for each in window.document["machines"].values()
    )
