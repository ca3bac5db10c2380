# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One phase of the whole fleet: merge the hosts' results and judge whether they can be trusted."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA

LATENCIES = ("service", "response", "intended", "lateness")

# The figures of a host's service time that the brief's six are made of.
BRIEF_FIGURES = ("avg_us", "min_us", "p95_us", "p99_us", "max_us")

# Settings that every host of a phase must have used as the run says.
_COMMON_SETTINGS = (
    "key_count",
    "value_size",
    "compressibility",
    "requests",
    "rate",
    "pattern",
    "connections",
    "pipeline",
)


class Phase:
    """Collects the results of one phase.

    Attributes:
        plan: the phase as configuration.phases() made it.
        expected: the names of the hosts that must report.
        results: what C(solotest) returned, by host.
        failed: text of what went wrong, by host.
    """

    def __init__(
        self,
        config: t.Mapping[str, t.Any],
        plan: t.Mapping[str, t.Any],
        expected: t.Iterable[str],
        clocks: t.Mapping[str, float],
        begun_at: float,
        start_at: float | None,
    ) -> None:
        self.config = config
        self.plan = plan
        self.expected = sorted(expected)
        self.clocks = clocks
        self.begun_at = begun_at
        self.start_at = start_at
        self.results: dict[str, dict[str, t.Any]] = {}
        self.failed: dict[str, str] = {}
        self.partial: dict[str, dict[str, t.Any]] = {}

    def add(self, host: str, result: dict[str, t.Any]) -> None:
        """Take the result of host."""
        self.results[host] = result

    def fail(self, host: str, message: str, partial: dict[str, t.Any] | None = None) -> None:
        """Take note that host failed, with what it measured until then."""
        self.failed[host] = message
        if partial:
            self.partial[host] = partial

    @property
    def complete(self) -> bool:
        """Whether every expected host has reported or failed."""
        return all(host in self.results or host in self.failed for host in self.expected)

    def document(self) -> dict[str, t.Any]:
        """Return the phase as its file holds it; see docs/results.md."""
        for host in self.expected:
            if host not in self.results:
                self.failed.setdefault(host, "no result")
        results = {host: result for host, result in self.results.items() if host not in self.failed}
        document: dict[str, t.Any] = {
            "schema": SCHEMA,
            "phase": dict(self.plan),
            "begun_at": self.begun_at,
            "start_at": self.start_at,
            "launch_seconds": self._launch_seconds(results),
            "expected": self.expected,
            "failed": dict(sorted(self.failed.items())),
            "partial": dict(sorted(self.partial.items())),
            "hosts": dict(sorted(results.items())),
            "pressure": {each["machine"]: each["pressure"] for dummy, each in sorted(results.items())},
            **self._timing(results),
        }
        if self.plan["kind"] != "fill":
            document["achieved_rate_ratio"] = least(_rate_ratio(each) for each in results.values())
            document["merged"] = {
                name: Histogram.from_figures(*(each["latency"][name] for each in results.values())).figures()
                for name in LATENCIES
            }
            document["brief"] = brief(each["latency"]["service"] for each in results.values())
        document["reasons"] = self._doubts(document)
        document["valid"] = not document["reasons"]
        return document

    def _launch_seconds(self, results: t.Mapping[str, t.Any]) -> float | None:
        """How long after the phase was begun the last host was ready to start."""
        ready = [(each["ready_at"] or each["started_at"]) - self.clocks.get(host, 0) for host, each in results.items()]
        return round(max(ready) - self.begun_at, 3) if ready else None

    def _timing(self, results: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """When the hosts loaded their Redis, by the controller's clock."""
        if not results:
            return {"started_at": None, "finished_at": None, "overlap": None, "start_skew_ms": None}
        starts = {host: each["started_at"] - self.clocks.get(host, 0) for host, each in results.items()}
        ends = [each["finished_at"] - self.clocks.get(host, 0) for host, each in results.items()]
        skew = [1000 * (start - self._due(results[host])) for host, start in starts.items()] if self.start_at else None
        return {
            "started_at": min(starts.values()),
            "finished_at": max(ends),
            "overlap": round(overlap(list(starts.values()), ends), 5),
            "start_skew_ms": skew and {"min": round(min(skew), 3), "max": round(max(skew), 3)},
        }

    def _due(self, result: t.Mapping[str, t.Any]) -> float:
        """When the first request of a host was due, by the controller's clock."""
        return self.start_at + result["settings"]["stagger"] / result["settings"]["rate"]

    def _doubts(self, document: t.Mapping[str, t.Any]) -> list[str]:
        """Return why the phase is not valid; nothing if it is."""
        reasons = [f"{host}: {message}" for host, message in document["failed"].items()]
        if self.plan["kind"] == "fill" or not document["hosts"]:
            return reasons
        limits, load = self.config["validity"], self.config["load"]
        if document["overlap"] < limits["min_overlap"]:
            reasons.append(
                f"the hosts overlapped for {document['overlap']:.3f} of the phase, at least {limits['min_overlap']} is needed"
            )
        for host, result in document["hosts"].items():
            ratio, late = _rate_ratio(result), result["latency"]["lateness"]["p99_us"]
            if ratio is not None and ratio < limits["min_rate_ratio"]:
                reasons.append(
                    f"{host}: achieved {ratio:.4f} of its rate, at least {limits['min_rate_ratio']} is needed"
                )
            if late > limits["max_lateness_p99_us"]:
                reasons.append(
                    f"{host}: the client was {late:,.0f} us late (p99), at most {limits['max_lateness_p99_us']:,.0f} us is allowed"
                )
            wanted = {**load, "influence": self.plan["influence"], "read_mix": self.plan["read_mix"]}
            for name in (*_COMMON_SETTINGS, "influence", "read_mix"):
                if result["settings"].get(name) != wanted.get(name):
                    reasons.append(
                        f"{host}: ran with {name} {result['settings'].get(name)}, the run says {wanted.get(name)}"
                    )
        return reasons


def _rate_ratio(result: t.Mapping[str, t.Any]) -> float | None:
    """Return the achieved rate over the target; None for a closed loop, which has no target, and for a single request."""
    rate = result["rate"]
    if rate["target"] is None or result["settings"]["requests"] == 1:
        return None
    return round((rate["achieved"] or 0) / rate["target"], 5)  # no rate: it sent one of many


def least(values: t.Iterable[float | None]) -> float | None:
    """Return the smallest of the values that are known, or None."""
    return min((value for value in values if value is not None), default=None)


def overlap(starts: t.Sequence[float], ends: t.Sequence[float]) -> float:
    """Return the share of the phase in which all hosts were at work: 1 at best, 0 if there was none.

    (earliest end - latest start) / (latest end - earliest start), DESIGN: synchronised phases.
    """
    whole = max(ends) - min(starts)
    return max(0.0, (min(ends) - max(starts)) / whole) if whole > 0 else 1.0


def brief(figures: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the six figures of the 2018 technology brief over hosts, in milliseconds with three decimals.

    The means of percentiles are no percentiles of anything; they are here to be compared with the brief's.
    """
    hosts = list(figures)
    if not hosts:
        return {"hosts": 0, "avg_ms": None, "min_ms": None, "p95_ms": None, "p99_ms": None, "max_ms": None}
    mean = {name: sum(each[name] for each in hosts) / len(hosts) for name in ("avg_us", "p95_us", "p99_us")}
    return {
        "hosts": len(hosts),
        "avg_ms": round(mean["avg_us"] / 1000, 3),
        "min_ms": round(min(each["min_us"] for each in hosts) / 1000, 3),
        "p95_ms": round(mean["p95_us"] / 1000, 3),
        "p99_ms": round(mean["p99_us"] / 1000, 3),
        "max_ms": round(max(each["max_us"] for each in hosts) / 1000, 3),
    }
