# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Student's t distribution, and Holm's correction for many tests."""

from __future__ import annotations

import functools
import math
import typing as t

# The terms of the continued fraction; with up to a million degrees of freedom it needs fewer than 200.
_TERMS = 1000
_ENOUGH = 1e-14


def p_value(score: float, freedom: float) -> float:
    """Return the probability that chance makes a t at least as far from 0 as score.

    Args:
        score: t.
        freedom: degrees of freedom, above 0.
    """
    if not score:
        return 1.0
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + score * score))


@functools.lru_cache(maxsize=4096)
def quantile(share: float, freedom: float) -> float:
    """Return the value that a share of Student's t, 0.5 to below 1, does not exceed."""
    low, high = 0.0, 1.0
    while 1 - p_value(high, freedom) / 2 < share:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - p_value(middle, freedom) / 2 < share else (low, middle)
    return high


def holm(p_values: t.Sequence[float]) -> list[float]:
    """Return p-values corrected for their number.

    If those up to a level count as significant, the probability that even one of them is a false alarm is at most that
    level, however the tests depend on each other (S. Holm, Scandinavian Journal of Statistics 6, 1979).
    """
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        corrected[number] = largest
    return corrected


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function (DLMF 8.17), by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for term in range(1, _TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for numerator in (even, odd):
            d = 1 / (1 + numerator * d)
            c = 1 + numerator / c
            fraction *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return math.exp(logarithm) * fraction / a
