# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a curve that only rises crosses its limit: isotonic regression of one ramp.

The figure of a fleet rises with its size, so the best curve through noisy points is the closest one that never falls
(pool adjacent violators: Barlow et al., Statistical Inference under Order Restrictions, 1972). It needs no shape, so a
curve that is flat up to a wall is fitted as well as a gentle one. A straight line through a wall is not: its intervals
held the truth in 80 % of simulated studies only. tests/bench/density.py simulates what is decided here.

All figures are natural logarithms of figure / limit, called excess: 0 is the limit, 0.1 is 10 % above it.
"""

from __future__ import annotations

import math
import random
import statistics
import typing as t

# An excess farther from the limit than this counts as this much: how badly a disturbed window or a fleet beyond a wall
# misses the limit says nothing about where the curve crosses it.
CLIP = 0.2
# The crossing is the mean of those of the limit and of the limit this much lower and higher. That smooths the steps of
# the fitted curve: the crossings of single ramps scatter by a quarter less.
AROUND = (-0.05, 0.0, 0.05)
# Ramps drawn again from the fitted curve and its noise, for the scatter of a crossing.
_DRAWS = 40
# With fewer windows than this, their noise is not estimated; this is what measured ramps had (fleet / references).
_FEW, USUAL_NOISE = 5, 0.09

Point = t.Tuple[float, float]


class Crossing(t.NamedTuple):
    """Where a ramp crosses its limit.

    Attributes:
        size: hosts, with a fraction; for a ramp that met the limit to its end, the last size.
        low: the largest size whose fitted value is within the limit; 0 if there is none.
        high: the smallest size that was tried and is beyond it; infinite if there is none. Where the fitted curve lies
            flat near the limit, the size may be elsewhere; these two then reach to the sizes around it.
        scatter: standard deviation of ln(size) by the noise of single windows.
    """

    size: float
    low: float
    high: float
    scatter: float

    @property
    def is_open(self) -> bool:
        """Return whether the ramp never crossed its limit, so that it only says "at least"."""
        return self.high == math.inf

    def as_document(self) -> dict[str, float | None]:
        """Return it for JSON, which has no infinite number."""
        return {**self._asdict(), "high": None if self.is_open else self.high}

    @classmethod
    def of_document(cls, found: t.Mapping[str, t.Any]) -> Crossing:
        """Return the crossing that as_document() returned."""
        return cls(found["size"], found["low"], math.inf if found["high"] is None else found["high"], found["scatter"])


def fitted(values: t.Sequence[float], weights: t.Sequence[float]) -> list[float]:
    """Return the values that never fall and are closest to the given ones (weighted least squares)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (low, low_weight, low_count), (high, high_weight, high_count) = blocks[-2:]
            total = low_weight + high_weight
            blocks[-2:] = [((low * low_weight + high * high_weight) / total, total, low_count + high_count)]
    return [value for value, _weight, count in blocks for _each in range(count)]


def crossing(points: t.Iterable[Point], wall: float = math.inf) -> Crossing | None:
    """Return where a ramp crosses its limit; None without points.

    Args:
        points: the size of the fleet and its excess in each clean window, in any order; a size may occur several times.
        wall: the size at which the ramp ended because the fleet does not fit; infinite if it fits.
    """
    sizes, values, weights = _by_size(points)
    if not sizes:
        return None
    fit = fitted(values, weights)
    last = _last_within(fit, 0.0)
    noise = _noise(values) / math.sqrt(statistics.fmean(weights))
    logs = [_mean_crossing(sizes, fit, wall)]
    chance = random.Random(0)
    for _draw in range(_DRAWS):
        # What is too far from the limit to matter stays there.
        again = [_clipped(value + chance.gauss(0, noise)) if abs(value) < 0.999 * CLIP else value for value in fit]
        logs.append(_mean_crossing(sizes, fitted(again, weights), wall))
    size = math.exp(logs[0])
    low, high = sizes[last] if last >= 0 else 0, sizes[last + 1] if last + 1 < len(sizes) else wall
    return Crossing(
        size=size,
        low=min(low, max((each for each in sizes if each <= size), default=0)),
        high=max(high, min((each for each in sizes if each > size), default=wall)),
        scatter=statistics.pstdev(logs[1:], logs[0]),
    )


def _by_size(points: t.Iterable[Point]) -> tuple[list[float], list[float], list[float]]:
    """Return ascending sizes, the mean excess of each, and the number of its windows."""
    of_size: dict[float, list[float]] = {}
    for size, excess in points:
        of_size.setdefault(size, []).append(_clipped(excess))
    sizes = sorted(of_size)
    return sizes, [statistics.fmean(of_size[size]) for size in sizes], [float(len(of_size[size])) for size in sizes]


def _clipped(excess: float) -> float:
    return max(-CLIP, min(CLIP, excess))


def _noise(values: t.Sequence[float]) -> float:
    """Return the standard deviation of windows around their curve, from second differences, which a slope leaves
    alone."""
    inner = [value for value in values if abs(value) < CLIP]
    if len(inner) < _FEW:
        return USUAL_NOISE
    second = [a - 2 * b + c for a, b, c in zip(inner, inner[1:], inner[2:])]
    return max(0.01, math.sqrt(statistics.fmean(value * value for value in second) / 6))


def _last_within(fit: t.Sequence[float], limit: float) -> int:
    """Return the last place at which a curve that never falls is within a limit; -1 if it nowhere is."""
    return max((place for place, value in enumerate(fit) if value <= limit), default=-1)


def _mean_crossing(sizes: t.Sequence[float], fit: t.Sequence[float], wall: float) -> float:
    return statistics.fmean(_log_crossing(sizes, fit, wall, limit) for limit in AROUND)


def _log_crossing(sizes: t.Sequence[float], fit: t.Sequence[float], wall: float, limit: float) -> float:
    """Return ln(size) at which a fitted curve crosses a limit, interpolated between two sizes."""
    place = _last_within(fit, limit)
    if place < 0:
        # Somewhere below the first size: by half the distance to the next one.
        gap = math.log(sizes[1] / sizes[0]) if len(sizes) > 1 else 0.0
        return math.log(sizes[0]) - gap / 2
    if place + 1 < len(sizes):
        low, high = math.log(sizes[place]), math.log(sizes[place + 1])
        return low + (high - low) * (limit - fit[place]) / (fit[place + 1] - fit[place])
    return math.log(sizes[place]) if wall == math.inf else math.log(sizes[place] * wall) / 2
