# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The observer of a host: a client outside of its guest, whose samples are the upper bound where there are enough.

A client in a guest waits for its own CPU, and its clock stops when the guest is paused. An observer has its own CPU and
clock. It sends to the same Redis at random times, so its requests meet whatever any user's would. What counts is the
time from sending to the kernel's receive stamp, with the wait behind the observer's own earlier requests (C(server) of
its result). A request that the observer itself sent late is no longer a random sample: it may have missed a stall that
it was due in. Had it been sent in time, its reply would not have come later, since a Redis serves requests in the order
in which they arrive. So it counts with all of its delay (C(intended)). So does one that took longer than a period of
the observer's schedule, of which C(server) may count a period only, and one without a receive stamp. Histograms do not
show which requests these are; their delays are at most the largest ones. The delays of all
requests, late or not, are an upper bound, too. Rank by rank, the smaller of the two bounds counts.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import (
    Histogram,
    highest_of,
    slot_of,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement

# Fewer samples of a cell are too few for a p99: of 5,000 samples, 50 are above it.
SAMPLES = 5000
# A request that the observer sent later than this was late.
LATE_US = 50

# What is kept of an observer's result.
_LATENCIES = ("server", "intended", "lateness")

_Document = t.Mapping[str, t.Any]


def excerpt(accepted: _Document) -> dict[str, t.Any]:
    """Select what is kept of an observer's result, or the C(error) why there is none.

    Args:
        accepted: what measurement.result() returned.
    """
    measured = accepted.get("solotest") or {"mode": None}
    if accepted.get("failed") and not measurement.is_complete(measured):
        return {"error": accepted["msg"]}
    if measured["mode"] != "test" or not measured["rate"]["target"]:
        return {"error": "it did not send requests at a fixed rate"}
    latency = measured["latency"]
    if "server" not in latency:
        return {"error": "its requests have no time stamps of the kernel"}
    return {
        "latency": {name: latency[name] for name in _LATENCIES},
        "requests": measured["requests"],
        "rate": measured["rate"],
        "machine": measured["machine"],
    }


class Observed:
    """The samples of a host's observer in one cell.

    Attributes:
        upper: the upper bound of what a user waits.
        samples: the number of requests.
        late: how many of them the observer sent late, or have no time stamp.
        errors: why iterations have no samples.
        missing: the number of iterations without an observer.
    """

    def __init__(self) -> None:
        self.upper = Histogram()
        self.samples = self.late = self.missing = 0
        self.errors: list[str] = []

    def add(self, observed: _Document | None) -> None:
        """Add what excerpt() returned for an iteration; None if it had no observer."""
        if observed is None:
            self.missing += 1
            return
        if "error" in observed:
            self.errors.append(observed["error"])
            return
        latency = observed["latency"]
        server, intended, lateness = (Histogram.from_figures(latency[name]) for name in _LATENCIES)
        late = intended.count - server.count + _above(lateness, 1000 * LATE_US)
        whole = min(intended.count, late + _above(intended, round(1e9 / observed["rate"]["target"])))
        mixed = _largest(server, intended.count - whole)
        mixed.merge(_largest(intended, whole))
        self.upper.merge(_lesser(mixed, intended))
        self.samples += intended.count
        self.late += late

    @property
    def counts(self) -> bool:
        """Whether the samples are the upper bound."""
        return self.samples >= SAMPLES and not self.missing and not self.errors

    def why_not(self) -> str | None:
        """Explain why the samples of an observer are not the upper bound; None if they are or there is no observer."""
        if self.counts or not (self.samples or self.errors):
            return None
        if self.errors:
            return f"the observer measured nothing in {len(self.errors)} iterations: {self.errors[0]}"
        if self.missing:
            return f"{self.missing} iterations were measured without the observer"
        return (
            f"the observer made {self.samples:,} requests and {SAMPLES:,} are needed; raise "
            f"latency_benchmark_observer_rate or latency_benchmark_duration"
        )


def _largest(histogram: Histogram, count: int) -> Histogram:
    """Return this many of the largest values, each the highest one of its slot."""
    found = Histogram()
    for value, samples in reversed(_values(histogram)):
        found.add(value, min(count, samples))
        count -= min(count, samples)
    return found


def _lesser(one: Histogram, other: Histogram) -> Histogram:
    """Return the smaller value of each rank; both have the same number of samples."""
    found = Histogram()
    rest, others = _values(one), _values(other)
    while rest and others:
        (value, samples), (limit, several) = rest.pop(), others.pop()
        both = min(samples, several)
        found.add(min(value, limit), both)
        rest += [(value, samples - both)] if samples > both else []
        others += [(limit, several - both)] if several > both else []
    return found


def _values(histogram: Histogram) -> list[tuple[int, int]]:
    """Return the highest value of each slot and its number of samples, in ascending order."""
    highest = histogram.max_ns or 0
    return [(min(highest_of(slot), highest), count) for slot, count in sorted(histogram.counts.items()) if count]


def _above(histogram: Histogram, nanoseconds: int) -> int:
    """Count how many values may be above a limit: those of the limit's slot count."""
    slot = slot_of(nanoseconds)
    return sum(count for each, count in histogram.counts.items() if each >= slot)
