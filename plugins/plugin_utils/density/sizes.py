# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sizes of a ramp.

The first round goes in coarse steps: in DRAM from half of what fits, with a tier from where it begins to matter. The
next ones come near to where the earlier ones ended in coarse steps, and look closely from there on. On a flat curve
rounds differ much, and a ramp must not begin beyond its end: so it begins below the smallest that was found. A ramp
that still meets its objective at the end of its grid goes on in coarse steps. The grid of each ramp is offset by a
random part of a step, so that rounds which agree do not agree because of their grid.
"""

from __future__ import annotations

import math
import random
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import CAPACITY

_Document = t.Mapping[str, t.Any]

COARSE, FINE = 0.10, 0.04
# How a hold ends whose size is too large.
FAILED = ("missed", "died")
# Later rounds go from and to these multiples of the least and the most that earlier ones found, and in fine steps from
# the one between.
FROM, CLOSE, TO = 0.7, 0.85, 1.2
# Where the fleet did not fit before it was slow, smaller ones say little.
_FROM_AT_CAPACITY = 0.85
# A fleet that fits into DRAM never meets its tier. So the first ramp with one begins at this share of what fits.
_TIER_FROM = 1.0
# Each ramp with a tier first looks at a fleet of this share of what fits into DRAM: so fast is idle DRAM at that time.
IDLE = 0.8
# A hold that fails is followed by one of this share of its size, up to so many times.
_LESS, _HOLDS = 0.93, 4


class Planned(t.NamedTuple):
    """The sizes of a ramp, and the share by which it grows beyond them. Without sizes, the machine begins at half of
    what fits.
    """

    sizes: list[int]
    growth: float


def planned(
    found: t.Sequence[int], fits: int | None, maximum: int, growth: float, seed: str, capacity: bool = False
) -> Planned:
    """Return the sizes of a ramp from what earlier ones have shown.

    Args:
        found: what the arm's earlier ramps found; nothing before the first.
        fits: how many hosts fit into DRAM; None if it is unknown.
        maximum: the most hosts.
        growth: of the first round.
        seed: of the offset of the grid; one for each ramp.
        capacity: whether capacity decided the arm's first ramp.
    """
    if found:
        close = next_round(found, maximum, seed, _FROM_AT_CAPACITY if capacity else FROM)
        return Planned(after_idle(close, fits), growth)
    return Planned(after_idle(first_round(fits, maximum, seed, growth), fits) if fits else [], growth)


def after_idle(planned_sizes: list[int], fits: int | None) -> list[int]:
    """Return sizes that begin while DRAM carries the fleet, so that the ramp itself says how fast idle DRAM is.

    Args:
        planned_sizes: ascending.
        fits: how many hosts fit into DRAM; None if it is unknown.
    """
    idle = max(1, round(IDLE * fits)) if fits else None
    # A ramp that begins close to it shows idle DRAM anyway.
    if not idle or idle * (1 + COARSE) >= planned_sizes[0]:
        return planned_sizes
    return [idle, *planned_sizes]


def fitting(ramps: t.Iterable[_Document], arm: str) -> int | None:
    """Return the largest fleet that a first ramp of an arm has held; None before it."""
    return max((each["n"] for ramp in ramps if _is_first(ramp, arm) for each in ramp["windows"]), default=None)


def found(answer: _Document, ramps: t.Iterable[_Document], arm: str) -> list[int]:
    """Return the densities of an arm's ramps, the largest fleet that its first one held if they have none."""
    of_arm = [each for each in answer.get("arms", ()) if each["name"] == arm]
    densities = [ramp["density"] for each in of_arm for ramp in each["rounds"] if ramp["density"]]
    held = fitting(ramps, arm)
    return densities or ([held] if held else [])


def is_capacity(answer: _Document, arm: str) -> bool:
    """Return whether capacity decided the first ramp of an arm."""
    of_arm = [each for each in answer.get("arms", ()) if each["name"] == arm]
    return any(ramp["round"] == 1 and ramp["decided_by"] == CAPACITY for each in of_arm for ramp in each["rounds"])


def _is_first(ramp: _Document, arm: str) -> bool:
    return ramp["arm"] == arm and ramp["round"] == 1 and ramp.get("kind") != "hold"


def to_hold(arm: _Document) -> int | None:
    """Return the size to hold next: the lower end of what was found, less if that did not hold; None if that is all.

    Args:
        arm: its entry in density.json.
    """
    if arm["density"] is None:
        return None
    holds = arm["hold"]
    if not holds:
        return max(1, (arm["interval"] or arm["span"])[0])
    failed = all(each["state"] in FAILED for each in holds)
    smallest = min(each["size"] for each in holds)
    less = min(smallest - 1, math.floor(_LESS * smallest))
    return less if failed and less >= 1 and len(holds) < _HOLDS else None


def first_round(fits: float, maximum: int, seed: str, growth: float = COARSE) -> list[int]:
    """Return the sizes of the first ramp of an arm with a tier.

    Args:
        fits: how many hosts fit into DRAM.
        maximum: the most hosts.
        seed: of the offset of the grid; one for each ramp.
        growth: from step to step.
    """
    return grid(_TIER_FROM * fits, maximum, growth, seed)


def next_round(found: t.Sequence[int], maximum: int, seed: str, share: float = FROM) -> list[int]:
    """Return the sizes of a later ramp, from a share of the smallest density that earlier ones found."""
    least, most = min(found), max(found)
    return grid(share * least, min(maximum, round(TO * most) + 1), FINE, seed, CLOSE * least)


def grid(start: float, maximum: int, step: float, seed: str, close: float = 0.0) -> list[int]:
    """Return ascending sizes that grow by a share, at least by one host, up to the maximum.

    Args:
        start: the first size, before the grid is offset.
        maximum: the last size.
        step: the share by which they grow.
        seed: of the offset.
        close: sizes below it grow in coarse steps.
    """
    size = max(1.0, start * (1 + step) ** (random.Random(seed).random() - 0.5))
    found: list[int] = []
    while round(size) < maximum:
        found.append(round(size))
        size = max(round(size) + 1, size * (1 + (COARSE if size * (1 + COARSE) < close else step)))
    return [*found, maximum]
