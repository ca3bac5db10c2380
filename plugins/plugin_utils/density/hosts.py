# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each host of a fleet: which ones miss the objective, without punishing large fleets for their size.

The worst of 40 equal hosts looks 40 % worse than their fleet. So a host misses the objective only if its requests above
the limit of the p99 are significantly more than 1 % (exact binomial test; where slow requests cluster, each counts
less), or if its average is above its limit (one-sided t test over seconds), after Holm's correction for all hosts.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import decode, lowest_of
from ansible_collections.memstretch.density.plugins.module_utils.solotest.slow_requests import (
    ALLOWED,
    LEVEL,
    binomial_tail,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import host_test, student

# A host with fewer requests is not judged alone: 4.5 % of 200 requests would have to be slow to be noticed.
ENOUGH_REQUESTS = 4000
_POWER = 0.8


class Judged(t.NamedTuple):
    """What is known about each host.

    Attributes:
        missed: hosts that miss the objective.
        judged: how many hosts have enough requests; the others are judged as a part of the fleet only.
        requests: the fewest requests of a host that was judged.
        smallest_miss: the smallest share of slow requests that would have been found in four of five cases.
    """

    missed: list[str]
    judged: int
    requests: int
    smallest_miss: float


class HostWindow(t.NamedTuple):
    """One window of a host, with the limits that held in it.

    Attributes:
        load: of the host in the record of the ramp.
        avg_us, p99_us: the limits.
    """

    load: t.Mapping[str, t.Any]
    avg_us: float
    p99_us: float


def judge(of_hosts: t.Mapping[str, t.Sequence[HostWindow]]) -> Judged:
    """Judge each host by its lower bound in several windows."""
    counts = {name: [_slow(each) for each in windows] for name, windows in of_hosts.items()}
    totals = {name: sum(requests for _slow_ones, requests in each) for name, each in counts.items()}
    names = [name for name in of_hosts if totals[name] >= ENOUGH_REQUESTS]
    if not names:
        return Judged([], 0, 0, 1.0)
    clustering = host_test.clustering(counts.values())
    values: list[float] = []
    for name in names:
        values += [host_test.p_value(counts[name], clustering), _average_p_value(of_hosts[name])]
    corrected = student.holm(values)
    missed = [name for place, name in enumerate(names) if min(corrected[2 * place : 2 * place + 2]) <= LEVEL]
    fewest = min(totals[name] for name in names)
    return Judged(missed, len(names), fewest, smallest_miss(math.floor(fewest / clustering), LEVEL / len(values)))


def smallest_miss(requests: int, level: float) -> float:
    """Return the smallest share of slow requests that a test at a level finds in four of five cases."""
    critical = next(number for number in range(requests + 2) if binomial_tail(number, requests, ALLOWED) <= level)
    low, high = ALLOWED, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if binomial_tail(critical, requests, middle) >= _POWER else (middle, high)
    return high


def slow_requests(figures: t.Mapping[str, t.Any], limit_us: float) -> int:
    """Count the requests of a histogram that certainly took longer than a limit."""
    if not figures["count"]:
        return 0
    return sum(count for slot, count in decode(figures["histogram"]).items() if lowest_of(slot) > 1000 * limit_us)


def _slow(window: HostWindow) -> tuple[int, int]:
    """Return the slow requests of a window, and all of them."""
    lower = window.load["lower"]
    return slow_requests(lower, window.p99_us), window.load["upper"]["count"]


def _average_p_value(windows: t.Sequence[HostWindow]) -> float:
    """Return the probability that chance lifts the average of a host that meets its limit so far above it."""
    ratios = [
        sum_ns / requests / 1000 / window.avg_us
        for window in windows
        for requests, _upper, sum_ns in window.load["seconds"]
        if requests
    ]
    if len(ratios) < 2:
        return 1.0
    over, scatter = statistics.fmean(ratios) - 1, statistics.stdev(ratios)
    if over <= 0:
        return 1.0
    if not scatter:
        return 0.0
    return student.p_value(over / (scatter / math.sqrt(len(ratios))), len(ratios) - 1) / 2
