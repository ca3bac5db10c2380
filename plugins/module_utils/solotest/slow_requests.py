# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host has significantly more slow requests than the p99 of its objective allows."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import (
    Histogram,
    highest_of,
    lowest_of,
)

# The share of requests that may be slower than the p99's limit, and the level of the test for all hosts together.
ALLOWED = 0.01
LEVEL = 0.05


def certainly_slow(histogram: Histogram, limit_us: float) -> int:
    """Count the requests that certainly took longer than a limit: those of slots that are wholly above it."""
    least = histogram.min_ns or 0
    return sum(count for slot, count in histogram.counts.items() if max(lowest_of(slot), least) > 1000 * limit_us)


def possibly_slow(histogram: Histogram, limit_us: float) -> int:
    """Count the requests that may have taken longer than a limit: those of slots that reach above it."""
    most = histogram.max_ns or 0
    return sum(count for slot, count in histogram.counts.items() if min(highest_of(slot), most) > 1000 * limit_us)


def too_many(slow: int, requests: int) -> bool:
    """Decide whether the p99 of these requests is above the limit."""
    return slow > requests // 100


def binomial_tail(successes: int, trials: int, share: float) -> float:
    """Return the probability of at least so many successes in independent trials."""
    if successes <= 0:
        return 1.0
    if successes > trials * share:  # terms become smaller from here on
        return min(1.0, _sum(range(successes, trials + 1), trials, share))
    return 1.0 - _sum(range(successes - 1, -1, -1), trials, share)


def _sum(numbers: t.Iterable[int], trials: int, share: float) -> float:
    """Add up probabilities, the largest first, until more of them change nothing."""
    total = 0.0
    for number in numbers:
        term = _binomial(number, trials, share)
        total += term
        if term < 1e-17 * total or term == 0.0:
            break
    return total


def _binomial(number: int, trials: int, share: float) -> float:
    return (
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(number + 1)
            - math.lgamma(trials - number + 1)
            + number * math.log(share)
            + (trials - number) * math.log1p(-share)
        )
        if 0 <= number <= trials and 0 < share < 1
        else float(share >= 1 and number == trials)
    )
