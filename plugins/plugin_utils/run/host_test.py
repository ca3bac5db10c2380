# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts of a fleet have too many slow requests, without punishing large fleets for their size.

The worst of 40 equal hosts looks 40 % worse than their fleet. So a host has too many only if they are significantly
more than 1 % of its requests: an exact binomial test, in which slow requests that cluster count less, and Holm's
correction for all hosts.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.slow_requests import ALLOWED, binomial_tail

# The slow requests and all requests of a host in one window or iteration.
Counts = tuple[int, int]


def p_value(counts: t.Sequence[Counts], clustering: float) -> float:
    """Return the probability that chance gives a host with 1 % of slow requests so many of them.

    Args:
        counts: of the host.
        clustering: what clustering() returned for all hosts.
    """
    slow, requests = (sum(each[place] for each in counts) for place in (0, 1))
    return binomial_tail(math.floor(slow / clustering), math.ceil(requests / clustering), ALLOWED)


def clustering(of_hosts: t.Iterable[t.Sequence[Counts]]) -> float:
    """Return by what factor slow requests scatter more between the windows of a host than independent ones; at least 1.

    Quasi-likelihood: Pearson's chi-squared divided by its degrees of freedom, over all hosts.
    """
    squares, freedom = 0.0, 0
    for counts in of_hosts:
        slow, requests = (sum(each[place] for each in counts) for place in (0, 1))
        share = slow / requests if requests else 0.0
        if not 0 < share < 1 or len(counts) < 2:
            continue
        squares += sum((found - total * share) ** 2 / (total * share * (1 - share)) for found, total in counts if total)
        freedom += len(counts) - 1
    return max(1.0, squares / freedom) if freedom else 1.0
