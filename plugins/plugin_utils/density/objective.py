# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objective: how far a window is from its limits.

Relative: the fleet at most so many times as slow as the references next to it at that moment, and these at most so many
times as slow as idle DRAM in the same ramp. Absolute: limits in microseconds.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.ramp.decisions import (
    IDLE_LOOKS,
    idle_dram,
    is_carried,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import (
    FIGURES,
    FLEET,
    REFERENCES,
    Criterion,
    Excess,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import fitted
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Figures, Window

RELATIVE, ABSOLUTE = "relative", "absolute"
# Clean windows that a plateau needs.
_ENOUGH = 3
# How far the references of a window may be from the median of their ramp, as a logarithm.
_MOODS = 0.5


class Objective(t.NamedTuple):
    """What the fleet must meet: factors for a relative objective, microseconds for an absolute one."""

    kind: str
    avg_us: float
    p99_us: float

    @classmethod
    def of(cls, definition: t.Mapping[str, t.Any]) -> Objective:
        """Return the objective of a density's definition."""
        if definition["kind"] == RELATIVE:
            return cls(RELATIVE, definition["factor"], definition["factor"])
        return cls(ABSOLUTE, definition["avg_us"], definition["p99_us"])

    def limit(self, figure: str) -> float:
        """Return the limit of a figure."""
        return self.avg_us if figure == "avg_us" else self.p99_us


class PlateauError(ValueError):
    """The ramps in DRAM have no plateau. The text says why."""


class Plateau(t.NamedTuple):
    """How fast idle DRAM is, and how many hosts it carries.

    Attributes:
        figures: medians over the ramps in DRAM.
        fits: the largest fleet of a clean window in DRAM.
    """

    figures: Figures
    fits: int


def plateau(dram: t.Sequence[t.Sequence[Window]]) -> Plateau:
    """Return how fast idle DRAM is in the ramps in DRAM.

    Args:
        dram: the windows of each of them.

    Raises:
        PlateauError: there are too few clean windows.
    """
    fits = max((each.size for looked in dram for each in looked if not each.disturbed), default=0)
    found = [_carried(looked, fits) for looked in dram]
    total = sum(map(len, found))
    if total < _ENOUGH:
        raise PlateauError(
            f"the ramps in DRAM have {total} clean windows between half and all of the hosts that fit; "
            f"{_ENOUGH} are needed to say how fast idle DRAM is"
        )
    return Plateau(_medians([_medians(each[:IDLE_LOOKS]) for each in found if each]), fits)


def beside_idle(looked: t.Sequence[Window], dram: Plateau | None) -> list[Window]:
    """Return the windows of a ramp next to idle DRAM as it was at that time.

    A machine is faster in some minutes than in others. So the ramp's own idle DRAM counts: medians over its first clean
    windows of fleets that DRAM carries. Later ones do not: what has become slower since then is what the objective is
    about. A single window is noisy, so the plateau counts like one more. In simulated studies that makes intervals
    narrower, and they hold the density as often.
    """
    idle = dram and _idle(_carried(looked, dram.fits)[:IDLE_LOOKS], dram.figures)
    return [each._replace(idle=idle) for each in looked]


def _idle(found: t.Sequence[Figures], usual: Figures) -> Figures:
    """Return idle DRAM of a ramp from windows of its own and from the plateau."""
    average, p99 = (idle_dram([getattr(each, name) for each in found], getattr(usual, name)) for name in FIGURES)
    return Figures(average, p99, usual.requests + sum(each.requests for each in found))


def _carried(looked: t.Sequence[Window], fits: int) -> list[Figures]:
    """Return the figures of the clean windows of fleets that DRAM carries: between half and all of what fits.

    There the references wait as the fleet does, so both count together: twice the requests give half the noise.
    """
    return [
        _best(each.everybody(), "upper")
        for each in looked
        if each.fleet and not each.disturbed and is_carried(each.size, fits)
    ]


def _medians(found: t.Sequence[Figures]) -> Figures:
    average, p99 = (statistics.median(getattr(each, figure) for each in found) for figure in FIGURES)
    return Figures(average, p99, sum(each.requests for each in found))


def excess(window: Window, objective: Objective, bound: str) -> Excess:
    """Return how far a window is from its limits.

    Ratios compare the same bound of fleet and references. Their upper bound is the punctual one, since a late wake-up
    of the client on both sides says nothing about memory.

    Args:
        bound: C(upper), from which a fleet passes, or C(lower), from which it does not fail.
    """
    of: dict[Criterion, float] = {}
    for figure in FIGURES:
        limit = objective.limit(figure)
        if objective.kind == ABSOLUTE:
            of[FLEET, figure] = _ln(getattr(window.fleet[bound], figure), limit)
            continue
        fleet = getattr(_best(window.fleet, bound), figure)
        if window.idle is None:
            raise PlateauError("a relative objective needs ramps in DRAM, to say how fast idle DRAM is")
        if not window.references:
            of[FLEET, figure] = _ln(fleet, limit * getattr(window.idle, figure))
            continue
        reference = getattr(_best(window.references, bound), figure)
        of[FLEET, figure] = _ln(fleet, limit * _reference(window, figure, reference))
        of[REFERENCES, figure] = _ln(reference, limit * getattr(window.idle, figure))
    return Excess(window.size, of)


def excesses(looked: t.Sequence[Window], objective: Objective, bound: str) -> list[Excess]:
    """Return how far the windows of a ramp are from their limits.

    An absolute limit feels each mood of the machine, which the references next to the fleet show. So there the noisy
    figure of the fleet is replaced by its precise ratio to the references, times the curve of the references over the
    whole ramp (a control variate): the crossings of simulated ramps scatter by 10 to 30 % less.
    """
    raw = [excess(each, objective, bound) for each in looked]
    if objective.kind != ABSOLUTE or not all(each.references for each in looked):
        return raw
    steadied: list[dict[Criterion, float]] = [{} for _each in raw]
    for figure in FIGURES:
        levels = [_ln(_reference(each, figure, getattr(each.references[bound], figure)), 1.0) for each in looked]
        for of, found, level, calm in zip(steadied, raw, levels, _steady([each.size for each in looked], levels)):
            of[FLEET, figure] = found.of[FLEET, figure] - level + calm
    return [Excess(each.size, of) for each, of in zip(raw, steadied)]


def _steady(sizes: t.Sequence[int], levels: t.Sequence[float]) -> list[float]:
    """Return the closest levels that never fall with the size; single ones far from the others do not count in full."""
    if not levels:
        return []
    middle = statistics.median(levels)
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    near = [max(middle - _MOODS, min(middle + _MOODS, levels[place])) for place in order]
    found = [0.0] * len(levels)
    for place, value in zip(order, fitted(near, [1.0] * len(near))):
        found[place] = value
    return found


def _reference(window: Window, figure: str, value: float) -> float:
    """Return a figure of the references that a fleet is compared with. A lower bound of 0 says nothing about them, and
    all the less that the fleet is slower: then it is the upper one.
    """
    return value or float(getattr(window.references["upper"], figure))


def _best(figures: t.Mapping[str, Figures], bound: str) -> Figures:
    """Return the figures of a bound for a ratio."""
    if bound == "upper" and "punctual" in figures:
        return figures["punctual"]
    return figures[bound]


def _ln(value: float, limit: float) -> float:
    return math.log(max(value, 1e-3) / limit)
