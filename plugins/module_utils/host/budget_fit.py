# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a control group to its DRAM budget, although compressed memory is outside of the group.

If the limit L of the group is lowered by dL, its pages go to zram or zswap, which grow by dL / r; r is the compression
of the pages that move, measured at each step. So the sum falls by dL * (1 - 1/r), and the step to take is
excess / (1 - 1/r). Each step is damped. With r below 1.1 nothing worth its CPU time is gained by compression. The steps
go on only where zram is in front of a drive: once zram is full, pages go to the drive.
"""

from __future__ import annotations

import typing as t

# What the sum should be, as shares of the budget: from LOW to HIGH is good, AIM is where the steps lead.
LOW, AIM, HIGH = 0.98, 0.99, 1.0
# The lowest compression at which it is worth continuing.
LEAST_RATIO = 1.1
# One step is this share of Newton's, and at most this share of the limit.
_DAMPING, _LONGEST_STEP = 0.8, 0.25
_MOST_STEPS = 40
# The first step is made without a measurement of r. Compressed memory so far may have stored other pages.
_FIRST_RATIO = 2.0
# The kernel rounds limits down to whole pages; the largest page has this size.
_PAGE = 64 * 1024
# A smaller movement measures nothing.
_LEAST_MOVED = 256 * 1024


class State(t.NamedTuple):
    """What a control group holds, and what is outside of it but charged with it, in bytes."""

    group: int
    outside: int


class Fit(t.NamedTuple):
    """How a control group was brought to its budget.

    Attributes:
        fits: whether the sum is within the budget.
        limit: the group's memory limit now, in bytes.
        steps: how often the limit was changed.
        ratio: the compression of the pages that moved last; None if nothing was measured.
        why: why it does not fit.
    """

    fits: bool
    limit: int
    steps: int
    ratio: float | None
    why: str


def fit(
    budget: int,
    limit: int,
    floor: int,
    read: t.Callable[[], State],
    set_limit: t.Callable[[int], bool],
    overflows: bool = False,
) -> Fit:
    """Change the limit of a group until what it holds and what is charged with it are within the budget.

    A limit that was lowered too far is raised once. Its pages come back only when they are used, so nothing can be
    measured then.

    Args:
        budget: in bytes.
        limit: the present limit of the group, at most the budget.
        floor: the least limit, whole pages.
        read: measures the present state.
        set_limit: sets the limit and returns when the group is below it; False if the kernel cannot do it.
        overflows: whether pages go to a drive once compressed memory is full.
    """
    ratio = None
    state = read()
    for steps in range(_MOST_STEPS):
        excess = state.group + state.outside - AIM * budget
        if state.group + state.outside <= HIGH * budget:
            if state.group + state.outside >= LOW * budget or limit >= budget or state.group < LOW * limit:
                return Fit(True, limit, steps, ratio, "")
            limit = min(budget, rounded(limit - excess * _DAMPING))
            set_limit(limit)
            return Fit(True, limit, steps + 1, ratio, "")
        if ratio is not None and ratio < LEAST_RATIO and not overflows:
            return Fit(
                False, limit, steps, ratio, f"its pages compress {ratio:.2f}:1, at least {LEAST_RATIO}:1 is needed"
            )
        if limit <= floor:
            return Fit(False, limit, steps, ratio, "the limit of the group cannot be lowered further")
        present = min(limit, state.group)
        limit = max(floor, rounded(present - _step(excess, ratio or _FIRST_RATIO, _LONGEST_STEP * present)))
        if not set_limit(limit):
            return Fit(False, limit, steps, ratio, "the kernel cannot move more of its pages to swap; is swap full?")
        before, state = state, read()
        moved = before.group - state.group
        if moved >= _LEAST_MOVED:
            ratio = round(min(moved / max(1, state.outside - before.outside), 1000.0), 3)
            if state.outside <= before.outside:
                ratio = 1000.0  # to a drive
    return Fit(False, limit, _MOST_STEPS, ratio, f"it was not within the budget after {_MOST_STEPS} steps")


def _step(excess: float, ratio: float, longest: float) -> float:
    """Return by how much to lower the limit."""
    return longest if ratio < LEAST_RATIO else min(_DAMPING * excess / (1 - 1 / ratio), longest)


def rounded(limit: float) -> int:
    """Return a limit in whole pages."""
    return int(limit) // _PAGE * _PAGE
