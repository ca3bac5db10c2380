# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a host can no longer meet its SLO, whatever the rest of its requests measure."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.module_utils.solotest.slow_requests import (
    ALLOWED,
    LEVEL,
    binomial_tail,
    certainly_slow,
    too_many,
)

UPPER, LOWER = "intended", "server"

# Slow requests come in clusters, such as those that met one stall. How large these are is known only at the end.
CLUSTERING = 10

_Document = t.Mapping[str, t.Any]


def lower_bound(latency: _Document, lowest: int = 0) -> Histogram:
    """Return the lower bound of one result, with 0 for each request for which it is unknown.

    Args:
        latency: of the result.
        lowest: the lowest slot to decode, if it is known for all requests.
    """
    known = latency.get(LOWER)
    if known and known["count"] == latency[UPPER]["count"]:
        return Histogram.top(known, lowest)
    lower = Histogram.from_figures(known) if known else Histogram()
    lower.add(0, latency[UPPER]["count"] - lower.count)
    return lower


def cannot_pass(lower: Histogram, total: int, slo: _Document, hosts: int) -> bool:
    """Decide whether a host misses the SLO whatever its remaining requests measure.

    Args:
        lower: the lower bound of its requests so far.
        total: the number of all its requests.
        slo: avg_us and p99_us.
        hosts: how many the fleet has. The p99 of a single host is its fleet's. One of several must have significantly
            more slow requests than 1 %, also if they cluster by CLUSTERING.
    """
    if lower.sum_ns / 1000 / total > slo["avg_us"]:
        return True
    slow = certainly_slow(lower, slo["p99_us"])
    if hosts == 1:
        return too_many(slow, total)
    return binomial_tail(slow // CLUSTERING, total // CLUSTERING, ALLOWED) <= LEVEL / hosts


class Watch:
    """Adds up the iterations of each cell of one host, as they end.

    Args:
        slo: avg_us and p99_us.
        total: the number of requests of all iterations of a cell.
        hosts: how many the fleet has.
    """

    def __init__(self, slo: _Document, total: int, hosts: int) -> None:
        self._slo, self._total, self._hosts = slo, total, hosts
        self._seen: dict[t.Any, Histogram] = {}

    def add(self, cell: t.Any, latency: _Document) -> bool:
        """Add an iteration of a cell; return whether the host can no longer pass."""
        seen = self._seen.setdefault(cell, Histogram())
        seen.merge(lower_bound(latency))
        return cannot_pass(seen, self._total, self._slo, self._hosts)
