# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two bounds of a host's latency, and the answer to whether it meets the SLO.

The upper bound, C(intended), holds every delay from the intended start of a request to its reply, those of the client
included. The lower bound, C(server), holds only what the server and its platform certainly caused. So a host whose
upper bound meets the SLO passes, one whose lower bound misses it fails, and between them it is undecided. The fleet as
a whole must meet the SLO, too. Where an
observer has made enough requests, they are the upper bound (docs/measurement.md).
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.futility import LOWER, UPPER, lower_bound
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram, microseconds
from ansible_collections.memstretch.density.plugins.module_utils.solotest.slow_requests import (
    LEVEL,
    certainly_slow,
    possibly_slow,
    too_many,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import host_test, student
from ansible_collections.memstretch.density.plugins.plugin_utils.run.host_test import Counts
from ansible_collections.memstretch.density.plugins.plugin_utils.run.observer import Observed

PASS, FAIL, UNDECIDED, INVALID = "pass", "fail", "undecided", "invalid"
VERDICTS = (PASS, FAIL, UNDECIDED, INVALID)

# The client whose requests are the upper bound of a host.
CLIENT, OBSERVER = "client", "observer"

_Document = t.Mapping[str, t.Any]


class HostBounds:
    """The bounds of one host in one cell, over all its iterations.

    Attributes:
        upper: of the client, from the intended start to the reply. A request that was never answered counts with its
            age.
        observed: what the host's observer saw, if it has one.
        lower: what server and platform certainly caused. A request for which that is unknown counts as 0, so results
            without time stamps of the kernel have a lower bound of 0 and cannot fail.
        upper_slow, lower_slow: for each iteration the requests that may have been, and certainly were, slower than the
            limit of the p99, and all of them.
        lost: requests that failed, were never answered, or were due and not sent, those of the observer included.
        lateness_p99_us: p99 of the client's own delays, the largest of all iterations.
        wakeup_p99_us: p99 of the time that replies waited for the client to read them, the largest of all iterations;
            None if unknown.
    """

    def __init__(self, p99_limit_us: float) -> None:
        self._limit_us = p99_limit_us
        self.upper_slow: list[Counts] = []
        self.lower_slow: list[Counts] = []
        self.upper = Histogram()
        self.lower = Histogram()
        self.observed = Observed()
        self.lost = 0
        self.lateness_p99_us = 0.0
        self.wakeup_p99_us: float | None = None

    def add(self, result: _Document, lowest: t.Mapping[str, int] | None = None) -> Histogram:
        """Add the result of an iteration and return the upper bound of the client.

        Args:
            result: of the iteration.
            lowest: by bound, the lowest slot that is needed: that of the limit of the p99, or one that holds the p99 of
                an iteration, if it is lower. All slots are decoded without it.
        """
        latency = result["latency"]
        upper = Histogram.top(latency[UPPER], (lowest or {}).get(UPPER, 0))
        self.upper.merge(upper)
        lower = lower_bound(latency, (lowest or {}).get(LOWER, 0))
        self.lower.merge(lower)
        self.upper_slow.append((possibly_slow(upper, self._limit_us), upper.count))
        self.lower_slow.append((certainly_slow(lower, self._limit_us), lower.count))
        self.observed.add(result.get("observed"))
        self.lost += lost_requests(result) + lost_requests(result.get("observed") or {})
        self.lateness_p99_us = max(self.lateness_p99_us, latency["lateness"]["p99_us"])
        wakeup = (latency.get("wakeup") or {}).get("p99_us")
        if wakeup is not None:
            self.wakeup_p99_us = max(self.wakeup_p99_us or 0.0, wakeup)
        return upper

    def figures(self) -> dict[str, t.Any]:
        """Return C(avg_us) and C(p99_us) of both bounds, each rounded away from the truth, and C(lost).

        C(upper_by) is whose requests are the upper bound.
        """
        upper = self.observed.upper if self.observed.counts else self.upper
        return {
            "upper": _average_and_p99(upper, upper.percentiles([99])[0]),
            "lower": _average_and_p99(self.lower, self.lower.lower_percentile(99)),
            "lost": self.lost,
            "upper_by": OBSERVER if self.observed.counts else CLIENT,
        }

    def slow(self) -> dict[str, t.Sequence[Counts]]:
        """Return the counts of slow requests for C(upper), those of the observer if it made the bound, and C(lower)."""
        seen = self.observed.upper
        upper = [(possibly_slow(seen, self._limit_us), seen.count)] if self.observed.counts else self.upper_slow
        return {"upper": upper, "lower": self.lower_slow}

    def seen(self) -> Seen:
        """Return what is judged of the host."""
        return Seen(self.figures(), self.slow())

    def doubt(self) -> str:
        """Return whose delay keeps the bounds apart, and what to do about it, as the end of a sentence."""
        if self.lost:
            requests = "1 request" if self.lost == 1 else f"{self.lost:,} requests"
            return (
                f"{requests} failed or got no reply in time; see requests.errors in the phase files for the "
                f"kinds, and the log of Redis for the reason"
            )
        if self.observed.counts:
            return self._doubt_of_observer()
        not_observed = self.observed.why_not()
        return f"{self._doubt_of_client()}; {not_observed}" if not_observed else self._doubt_of_client()

    def _doubt_of_observer(self) -> str:
        late, samples = self.observed.late, self.observed.samples
        if late > samples // 100:
            return (
                f"the observer sent {late:,} of its {samples:,} requests late, which count with all of their delay; "
                f"give it a CPU of its own (latency_benchmark_observer_cpu)"
            )
        return (
            "the observer waited longer than the guest's own clock accounts for; look at the network between them, at "
            "stolen time, and at pauses of the guest"
        )

    def _doubt_of_client(self) -> str:
        if self.wakeup_p99_us is None:
            return "the results have no time stamps, as with a Unix socket, so what the client itself added is unknown"
        if self.lateness_p99_us >= self.wakeup_p99_us:
            which = f"the client itself was up to {self.lateness_p99_us:,.0f} us late (p99)"
        else:
            which = f"replies waited up to {self.wakeup_p99_us:,.0f} us (p99) for the client to wake up"
        return (
            f"{which}; give it a CPU of its own (latency_benchmark_cpu), let it spin (latency_benchmark_pacing: spin), "
            f"leave the machine more idle CPU time, or use an observer (latency_benchmark_observer)"
        )


def lost_requests(result: _Document) -> int:
    """Return the number of requests of a result without a successful reply."""
    requests = result.get("requests") or {}
    lost = requests.get("lost")
    return sum((requests.get("errors") or {}).values()) if lost is None else lost


class Seen(t.NamedTuple):
    """What is judged of a host: what HostBounds.figures() and HostBounds.slow() returned."""

    figures: _Document
    slow: t.Mapping[str, t.Sequence[Counts]]


def answers(hosts: t.Sequence[Seen], slo: _Document) -> list[str]:
    """Return PASS, FAIL or UNDECIDED for each host of a fleet, and an SLO with avg_us and p99_us.

    The p99 of a single host is compared as it is. Of several hosts, one misses it only if significantly more than 1 %
    of its requests were slow (host_test).
    """
    misses = {bound: _misses_p99([host.slow[bound] for host in hosts]) for bound in ("upper", "lower")}
    found = []
    for (figures, _slow), upper, lower in zip(hosts, misses["upper"], misses["lower"]):
        fails = lower or figures["lower"]["avg_us"] > slo["avg_us"]
        passes = not (figures["lost"] or upper or figures["upper"]["avg_us"] > slo["avg_us"])
        found.append(FAIL if fails else PASS if passes else UNDECIDED)
    return found


def _misses_p99(of_hosts: t.Sequence[t.Sequence[Counts]]) -> list[bool]:
    if len(of_hosts) == 1:
        return [fleet_misses_p99(of_hosts)]
    clustering = host_test.clustering(of_hosts)
    corrected = student.holm([host_test.p_value(counts, clustering) for counts in of_hosts])
    return [value <= LEVEL for value in corrected]


def fleet_misses_p99(of_hosts: t.Iterable[t.Sequence[Counts]]) -> bool:
    """Decide whether the p99 of all requests of some hosts is above the limit."""
    every = [each for counts in of_hosts for each in counts]
    return too_many(sum(slow for slow, _requests in every), sum(requests for _slow, requests in every))


def slo_ratio(figures: _Document, slo: _Document) -> float:
    """Return an average or p99 as a multiple of the SLO, whichever is larger; above 1 it misses the SLO."""
    return max(figures["avg_us"] / slo["avg_us"], figures["p99_us"] / slo["p99_us"])


def _average_and_p99(histogram: Histogram, p99: int | None) -> dict[str, float]:
    return {
        "avg_us": microseconds(histogram.sum_ns / histogram.count if histogram.count else 0) or 0.0,
        "p99_us": microseconds(p99) or 0.0,
    }
