# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the active memory of a unit grows with the age: a smooth curve through what was measured."""

from __future__ import annotations

import bisect
import math
import typing as t


class Curve:
    """The active memory of a unit in bytes, as a function of the age in seconds.

    Between two ages it is a power law with a smooth exponent: a monotone cubic of the logarithms (Fritsch and Carlson,
    SIAM J. Numer. Anal. 17, 1980). It never decreases: what was accessed within an age was so within a longer one.

    Args:
        points: age and active bytes, by increasing age. An estimate below that of a shorter age is raised to it.
        most: the memory that can be active at all.
    """

    def __init__(self, points: t.Sequence[tuple[float, float]], most: float) -> None:
        self.most = most
        highest = 0.0
        self._x: list[float] = []
        self._y: list[float] = []
        for age, active in points:
            highest = min(most, max(highest, active))
            self._x.append(math.log(age))
            self._y.append(math.log(max(highest, 1.0)))
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
        """Return the bytes that are accessed within an age, which must be one between the shortest and the longest."""
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
        x = min(max(math.log(age), self._x[0]), self._x[-1])
        if len(self._x) == 1:
            return self._y[0], 0.0
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


def _monotone_slopes(x: t.Sequence[float], y: t.Sequence[float]) -> list[float]:
    """Return the slope at each point with which the cubics between them are monotone."""
    if len(x) == 1:
        return [0.0]
    steps = [later - earlier for earlier, later in zip(x, x[1:])]
    secants = [(later - earlier) / step for earlier, later, step in zip(y, y[1:], steps)]
    slopes = [secants[0]]
    for left, right, before, after in zip(secants, secants[1:], steps, steps[1:]):
        if left <= 0 or right <= 0:
            slopes.append(0.0)
        else:
            weight, other = 2 * after + before, after + 2 * before
            slopes.append((weight + other) / (weight / left + other / right))
    return [*slopes, secants[-1]]
