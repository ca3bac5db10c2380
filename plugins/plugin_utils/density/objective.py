# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objective: how far a window is from its limits.

Relative: the fleet at most so many times as slow as the references next to it at that moment, and these at most so many
times as slow as idle DRAM, which is the plateau of the DRAM ramps. Absolute: limits in microseconds.
"""

from __future__ import annotations

import math
import statistics
import typing as t

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
# Clean windows that a plateau needs, and the factor within which half of a ramp's windows, and the ramps, must agree.
_ENOUGH, _AGREE = 3, 1.5
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
    """How fast idle DRAM is.

    Attributes:
        typical: the median over the windows.
        fastest, slowest: the medians of the ramps that are farthest from it. The machine is faster at some times
            than at others, so ramps in idle DRAM differ by some ten per cent.
        slow: rounds whose ramp in DRAM does not count, since the machine was much slower at the time.
        unsure: why it is that of the faster half of the windows, in words; empty if the windows agree.
    """

    typical: Figures
    fastest: Figures
    slowest: Figures
    slow: list[int]
    unsure: str = ""


def plateau(dram: t.Mapping[int, t.Sequence[Window]]) -> Plateau:
    """Return how fast idle DRAM is: medians over the clean windows between half and all of what fits.

    There the references wait as the fleet does, so both count together: twice the requests give half the noise. What
    disturbs a machine makes it slower, so a ramp that is much slower than the fastest one says nothing about idle DRAM.
    Where the windows of every ramp disagree, the faster half of all windows does: no later figure can pass because of
    it, since a lower plateau is a stricter limit.

    Args:
        dram: the windows of the ramp in DRAM of each round.

    Raises:
        PlateauError: there are too few such windows, or they disagree by far.
    """
    looked = {number: _idle(windows) for number, windows in dram.items()}
    total = sum(map(len, looked.values()))
    if total < _ENOUGH:
        raise PlateauError(
            f"the ramps in DRAM have {total} clean windows between half and all of the hosts that fit; "
            f"{_ENOUGH} are needed to say how fast idle DRAM is"
        )
    scattered = {number: _scattered(each) for number, each in looked.items()}
    agreed = {number: each for number, each in looked.items() if len(each) > 1 and not scattered[number]}
    if not agreed:
        return _of_the_faster_half([each for ramp in looked.values() for each in ramp], list(scattered.values()))
    medians = {number: _medians(each) for number, each in agreed.items()}
    fastest = _extreme(min, medians.values())
    near = {
        number: each
        for number, each in medians.items()
        if all(getattr(each, figure) <= _AGREE * getattr(fastest, figure) for figure in FIGURES)
    }
    if not near:  # one ramp has the best average and another one the best p99
        near = dict([min(medians.items(), key=lambda each: each[1].p99_us)])
    return Plateau(
        _medians([window for number in near for window in agreed[number]]),
        _extreme(min, near.values()),
        _extreme(max, near.values()),
        sorted(set(dram) - set(near)),
    )


def _of_the_faster_half(found: t.Sequence[Figures], scattered: t.Iterable[str]) -> Plateau:
    """Return the plateau of windows that disagree.

    Raises:
        PlateauError: the machine was so slow that the CPUs would seem to end what was its mood.
    """
    faster = _medians(sorted(found, key=lambda each: each.avg_us)[: math.ceil(len(found) / 2)])
    whole, why = _medians(found), "; ".join(filter(None, scattered)) or "there are single windows"
    if any(getattr(whole, figure) > _AGREE * getattr(faster, figure) for figure in FIGURES):
        raise PlateauError(
            f"the windows of each ramp in DRAM disagree: {why}. The machine is not quiet enough to say how fast idle "
            "DRAM is"
        )
    return Plateau(faster, _extreme(min, [whole, faster]), _extreme(max, [whole, faster]), [], why)


def _idle(ramp: t.Sequence[Window]) -> list[Figures]:
    """Return the figures of fleet and references together in the clean windows of a ramp in DRAM."""
    clean = [each for each in ramp if not each.disturbed]
    most = max((each.size for each in clean), default=0)
    return [_best(each.everybody(), "upper") for each in clean if 2 * each.size >= most]


def _scattered(found: t.Sequence[Figures]) -> str:
    """Return how the windows of a ramp disagree; empty if they agree."""
    for figure in FIGURES if len(found) > 1 else ():
        low, _median, high = statistics.quantiles((getattr(each, figure) for each in found), n=4)
        if high > _AGREE * low:
            return f"half of them have a {figure[:-3]} outside of {low:,.0f} to {high:,.0f} us"
    return ""


def _medians(found: t.Sequence[Figures]) -> Figures:
    average, p99 = (statistics.median(getattr(each, figure) for each in found) for figure in FIGURES)
    return Figures(average, p99, sum(each.requests for each in found))


def _extreme(choose: t.Callable[[t.Iterable[float]], float], found: t.Collection[Figures]) -> Figures:
    average, p99 = (choose(getattr(each, figure) for each in found) for figure in FIGURES)
    return Figures(average, p99, sum(each.requests for each in found))


def excess(window: Window, objective: Objective, idle: Figures | None, bound: str) -> Excess:
    """Return how far a window is from its limits.

    Ratios compare the same bound of fleet and references. Their upper bound is the punctual one, since a late wake-up
    of the client on both sides says nothing about memory.

    Args:
        idle: the plateau; None for an absolute objective.
        bound: C(upper), from which a fleet passes, or C(lower), from which it does not fail.
    """
    of: dict[Criterion, float] = {}
    for figure in FIGURES:
        limit = objective.limit(figure)
        if objective.kind == ABSOLUTE:
            of[FLEET, figure] = _ln(getattr(window.fleet[bound], figure), limit)
            continue
        fleet = getattr(_best(window.fleet, bound), figure)
        if idle is None:
            raise PlateauError("a relative objective needs ramps in DRAM, to say how fast idle DRAM is")
        if not window.references:
            of[FLEET, figure] = _ln(fleet, limit * getattr(idle, figure))
            continue
        reference = getattr(_best(window.references, bound), figure)
        of[FLEET, figure] = _ln(fleet, limit * reference)
        of[REFERENCES, figure] = _ln(reference, limit * getattr(idle, figure))
    return Excess(window.size, of)


def excesses(looked: t.Sequence[Window], objective: Objective, idle: Figures | None, bound: str) -> list[Excess]:
    """Return how far the windows of a ramp are from their limits.

    An absolute limit feels each mood of the machine, which the references next to the fleet show. So there the noisy
    figure of the fleet is replaced by its precise ratio to the references, times the curve of the references over the
    whole ramp (a control variate): the crossings of simulated ramps scatter by 10 to 30 % less.
    """
    raw = [excess(each, objective, idle, bound) for each in looked]
    if objective.kind != ABSOLUTE or not all(each.references for each in looked):
        return raw
    steadied: list[dict[Criterion, float]] = [{} for _each in raw]
    for figure in FIGURES:
        levels = [_ln(getattr(each.references[bound], figure), 1.0) for each in looked]
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


def _best(figures: t.Mapping[str, Figures], bound: str) -> Figures:
    """Return the figures of a bound for a ratio."""
    if bound == "upper" and "punctual" in figures:
        return figures["punctual"]
    return figures[bound]


def _ln(value: float, limit: float) -> float:
    return math.log(max(value, 1e-3) / limit)
