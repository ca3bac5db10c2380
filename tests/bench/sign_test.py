# SPDX-License-Identifier: GPL-3.0-or-later
"""The interval of a median, for the benches."""

from __future__ import annotations

import math
import statistics


def median_with_interval(values):
    """Return the median and its 95 % interval by the sign test, which assumes nothing about the distribution.

    Between the k-th smallest and the k-th largest value, the true median is missing with a probability of twice
    P(fewer than k of n fair coins show heads).
    """
    ordered = sorted(values)
    count = len(ordered)
    below, rank = 0.0, 0
    while 2 * (below + math.comb(count, rank) / 2**count) <= 0.05:
        below += math.comb(count, rank) / 2**count
        rank += 1
    if rank == 0:
        raise ValueError(f"{count} pairs give no interval; at least 6 do")
    return statistics.median(ordered), ordered[rank - 1], ordered[count - rank]
