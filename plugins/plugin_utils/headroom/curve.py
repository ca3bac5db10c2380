# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the active memory of a unit grows with the age: a smooth curve through what was measured."""

from __future__ import annotations

import bisect
import math
import typing as t

# By how much the exponent of a curve usually changes from one age to the next. The smaller it is, the smoother are
# curves of inexact measurements; exact ones are followed anyway.
_USUAL_CHANGE = 0.15
# No measurement is taken to be more exact than this, relative to its value.
_LEAST_ERROR = 0.005
# Beyond the longest age the curve goes on as it ended, up to so many times that age.
BEYOND = 12


class Curve:
    """The active memory of a unit in bytes, as a function of the age in seconds.

    Each measurement has an error, and what counts is how the curve grows. So its points are smoothed on logarithmic
    scales as far as their errors allow: the sum of squared errors, in units of their standard deviation, and of squared
    changes of the exponent is least. Between two ages it is then a power law with a smooth exponent: the natural cubic
    spline of the logarithms, whose second derivative is continuous. Where that would decrease, its slopes are limited
    (F. Fritsch, R. Carlson, SIAM Journal on Numerical Analysis 17, 1980): what was accessed within an age was so within
    a longer one.

    Args:
        points: age, active bytes, and their standard deviation in bytes, by increasing age.
        most: the memory that can be active at all.
    """

    def __init__(self, points: t.Sequence[tuple[float, float, float]], most: float) -> None:
        self.most = most
        self._x = [math.log(age) for age, _active, _deviation in points]
        # Nothing seen of a sample is not nothing: what a standard deviation allows is assumed.
        values = [max(1.0, active, deviation) for _age, active, deviation in points]
        errors = [max(_LEAST_ERROR, deviation / value) for value, (_age, _active, deviation) in zip(values, points)]
        smoothed = _smoothed(self._x, [math.log(value) for value in values], errors)
        self._y: list[float] = []
        for value in smoothed:
            highest = max([value, *self._y[-1:]])
            self._y.append(min(highest, math.log(max(1.0, most))))
        self._slopes = _monotone_slopes(self._x, self._y)
        # A forecast asks all curves for the same ages again and again.
        self._known: dict[float, float] = {}

    @property
    def shortest(self) -> float:
        return math.exp(self._x[0])

    @property
    def longest(self) -> float:
        return math.exp(self._x[-1])

    def active(self, age: float) -> float:
        """Return the bytes that are accessed within an age, which must not be below the shortest one."""
        known = self._known.get(age)
        if known is None:
            known = self._known[age] = math.exp(self._at(age)[0])
        return known

    def growth(self, age: float) -> float:
        """Return the bytes by which active memory grows each second at an age."""
        value, exponent = self._at(age)
        return math.exp(value) * exponent / age

    def _at(self, age: float) -> tuple[float, float]:
        """Return the logarithm of the curve, and its exponent."""
        x = max(math.log(age), self._x[0])
        if len(self._x) == 1:
            return self._y[0], 0.0
        if x >= self._x[-1]:
            value = self._y[-1] + self._slopes[-1] * (x - self._x[-1])
            return (value, self._slopes[-1]) if value < math.log(max(1.0, self.most)) else (math.log(self.most), 0.0)
        number = min(bisect.bisect_right(self._x, x), len(self._x) - 1) - 1
        step = self._x[number + 1] - self._x[number]
        place = (x - self._x[number]) / step
        low, high = self._y[number], self._y[number + 1]
        first, last = self._slopes[number] * step, self._slopes[number + 1] * step
        value = (
            low * (1 + 2 * place) * (1 - place) ** 2
            + first * place * (1 - place) ** 2
            + high * place**2 * (3 - 2 * place)
            + last * place**2 * (place - 1)
        )
        exponent = (
            (high - low) * 6 * place * (1 - place)
            + first * (1 - place) * (1 - 3 * place)
            + last * place * (3 * place - 2)
        ) / step
        return value, max(0.0, exponent)


class Together:
    """The active memory of all units of a host together, of which more is known than of each.

    Smoothing pulls each curve towards a power law, the more so the less exact its points are. Over many units the
    errors of the points cancel each other out, but that pull does not. So the sums of the points have a curve of their
    own, and the units' curves are scaled to add up to it.

    Args:
        units: the points of each unit at the same ages, and the memory of it that can be active at all.
    """

    def __init__(self, units: t.Sequence[tuple[t.Sequence[tuple[float, float, float]], float]]) -> None:
        self._each = [Curve(points, most) for points, most in units]
        sums = []
        for of_age in zip(*(points for points, _most in units)):
            ages, active, deviations = zip(*of_age)
            sums.append((math.fsum(ages) / len(ages), math.fsum(active), math.hypot(*deviations)))
        self.whole = Curve(sums, math.fsum(most for _points, most in units))
        self.parts = [Part(curve, self) for curve in self._each]
        # A forecast asks all parts for the active memory at many ages, and for its growth at one.
        self._active: dict[float, float] = {}
        self._growth: dict[float, float] = {}

    def active(self, age: float) -> float:
        """Return what the units' own curves add up to at an age."""
        if age not in self._active:
            self._active[age] = math.fsum(each.active(age) for each in self._each)
        return self._active[age]

    def growth(self, age: float) -> float:
        """Return how fast what the units' own curves add up to grows at an age."""
        if age not in self._growth:
            self._growth[age] = math.fsum(each.growth(age) for each in self._each)
        return self._growth[age]


class Part:
    """The curve of a unit, scaled as those of all units of its host."""

    def __init__(self, own: Curve, together: Together) -> None:
        self._own, self._together = own, together
        self.shortest, self.longest = own.shortest, own.longest

    def active(self, age: float) -> float:
        """Return the bytes that are accessed within an age, which must not be below the shortest one."""
        return self._own.active(age) * self._together.whole.active(age) / self._together.active(age)

    def growth(self, age: float) -> float:
        """Return the bytes by which active memory grows each second at an age."""
        growth = self._together.growth(age)
        share = self._own.growth(age) / growth if growth else self._own.active(age) / self._together.active(age)
        return share * self._together.whole.growth(age)


def _smoothed(x: t.Sequence[float], y: t.Sequence[float], errors: t.Sequence[float]) -> list[float]:
    """Return the values with the least sum of squared errors and of squared changes of the slope."""
    count = len(x)
    matrix = [[0.0] * count for _row in range(count)]
    right = [0.0] * count
    for place, (value, error) in enumerate(zip(y, errors)):
        matrix[place][place] += error**-2
        right[place] += value * error**-2
    for place in range(1, count - 1):
        before, after = 1 / (x[place] - x[place - 1]), 1 / (x[place + 1] - x[place])
        change = {place - 1: before, place: -before - after, place + 1: after}
        for row, factor in change.items():
            for column, other in change.items():
                matrix[row][column] += factor * other / _USUAL_CHANGE**2
    return _solved(matrix, right)


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return the solution of linear equations whose matrix is positive definite."""
    count = len(right)
    for place in range(count):
        for row in range(place + 1, count):
            factor = matrix[row][place] / matrix[place][place]
            right[row] -= factor * right[place]
            matrix[row] = [below - factor * above for below, above in zip(matrix[row], matrix[place])]
    found = [0.0] * count
    for place in reversed(range(count)):
        known = sum(matrix[place][column] * found[column] for column in range(place + 1, count))
        found[place] = (right[place] - known) / matrix[place][place]
    return found


def _monotone_slopes(x: t.Sequence[float], y: t.Sequence[float]) -> list[float]:
    """Return the slopes of the natural cubic spline, limited so that the cubics between the points are monotone."""
    if len(x) == 1:
        return [0.0]
    steps = [later - earlier for earlier, later in zip(x, x[1:])]
    secants = [(later - earlier) / step for earlier, later, step in zip(y, y[1:], steps)]
    # The second derivative is 0 at both ends, and the same on both sides of each other point.
    matrix = [[0.0] * len(x) for _row in x]
    right = [0.0] * len(x)
    for place, (step, secant) in enumerate(zip(steps, secants)):
        for row, other in ((place, place + 1), (place + 1, place)):
            matrix[row][row] += 2 / step
            matrix[row][other] += 1 / step
            right[row] += 3 * secant / step
    return [
        max(0.0, min(slope, 3 * before, 3 * after))
        for slope, before, after in zip(_solved(matrix, right), secants[:1] + secants, secants + secants[-1:])
    ]
