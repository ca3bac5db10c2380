# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One phase of the whole fleet: merge the results of its hosts and decide whether the phase is valid."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.clocks import HostClocks
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_sum import LATENCIES, FleetSum
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import LOAD_NUMBERS

# The figures of a host's service time from which the brief's six figures are computed.
BRIEF_FIGURES = ("avg_us", "min_us", "p95_us", "p99_us", "max_us")

# Settings that every host of a phase must have measured with.
_COMMON_SETTINGS = (*LOAD_NUMBERS, "requests", "pattern", "arrivals")


class PhaseResults:
    """Collects the results of one phase.

    Attributes:
        phase: the phase as configuration.phases() returned it.
        expected: the names of the hosts that must report.
        results: what C(solotest) returned, by host.
        failed: the error message of each host that failed.
        partial: what hosts measured before they failed.
        budgets: the boot id of each host whose DRAM budget was watched.
        charged: the charged DRAM of these machines, by boot id.
        over_time: what happened on machines second by second, by boot id.
        died: the hosts among those that failed whose Redis or machine died, or stopped answering, in the run.
    """

    def __init__(
        self,
        config: t.Mapping[str, t.Any],
        phase: t.Mapping[str, t.Any],
        expected: t.Iterable[str],
        clocks: HostClocks,
        begun_at: float,
        start_at: float | None,
        answered: t.Collection[str] = (),
    ) -> None:
        """Begin a phase.

        Args:
            config: the configuration of the run.
            phase: see the attribute.
            expected: see the attribute.
            clocks: of the fleet.
            begun_at: when the launch began.
            start_at: the common start of all hosts; None for a fill.
            answered: the hosts whose Redis answered earlier in this session. One that can no longer be reached has
                died since.
        """
        self.config = config
        self.phase = phase
        self.expected = sorted(expected)
        self.clocks = clocks
        self.begun_at = begun_at
        self.start_at = start_at
        self.results: dict[str, dict[str, t.Any]] = {}
        self.failed: dict[str, str] = {}
        self.partial: dict[str, dict[str, t.Any]] = {}
        self.budgets: t.Mapping[str, str] = {}
        self.charged: dict[str, dict[str, t.Any]] = {}
        self.over_time: dict[str, t.Mapping[str, t.Any]] = {}
        self.died: set[str] = set()
        self._answered = frozenset(answered)
        self._awaited = set(self.expected)
        self._sum = FleetSum()

    def add(self, host: str, result: dict[str, t.Any], packed: str | None = None) -> None:
        """Add the result of host, and what fleet_sum.pack() returned for its latencies, if it is there."""
        self.results[host] = result
        if packed and result["latency"]:
            self._sum.add(host, result["latency"], packed)
        self._awaited.discard(host)

    def fail(self, host: str, message: str, partial: dict[str, t.Any] | None = None, died: bool = False) -> None:
        """Record that host failed, what it had measured by then, and whether it died under the load."""
        self.failed[host] = message
        self._awaited.discard(host)
        if died or _died_under_load(partial) or (host in self._answered and is_gone(partial)):
            self.died.add(host)
        if partial:
            self.partial[host] = partial

    @property
    def complete(self) -> bool:
        """Whether every expected host has reported or failed."""
        return not self._awaited

    def document(self) -> dict[str, t.Any]:
        """Return the contents of the phase's file; see docs/results.md."""
        for host in self.expected:
            if host not in self.results:
                self.failed.setdefault(host, "no result")
        results = {host: result for host, result in self.results.items() if host not in self.failed}
        document: dict[str, t.Any] = {
            "schema": SCHEMA,
            "phase": dict(self.phase),
            "begun_at": self.begun_at,
            "start_at": self.start_at,
            "launch_seconds": self._launch_seconds(results),
            "expected": self.expected,
            "failed": dict(sorted(self.failed.items())),
            "died": sorted(self.died),
            "partial": dict(sorted(self.partial.items())),
            "hosts": dict(sorted(results.items())),
            "pressure": {each["machine"]: each["pressure"] for _host, each in sorted(results.items())},
            "charged_dram": dict(sorted(self.charged.items())),
            "over_time": dict(sorted(self.over_time.items())),
            "warnings": charged_dram.warnings(self.charged),
            **self._timing(results),
        }
        if self.phase["kind"] != "fill":
            document["achieved_rate_ratio"] = least(_rate_ratio(each) for each in results.values())
            document["merged"] = self._merged(results)
            document["brief"] = brief(each["latency"]["service"] for each in results.values())
        document["reasons"] = self._invalid_because(document)
        document["valid"] = not document["reasons"]
        return document

    def _merged(self, results: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the figures of the whole fleet by latency."""
        # A host may also have failed after it had reported.
        counts = self._sum.counts() if self._sum.hosts == results.keys() else {}
        return {
            name: Histogram.from_figures(
                *(each["latency"][name] for each in results.values() if name in each["latency"]),
                counts=counts.get(name),
            ).figures()
            for name in LATENCIES
        }

    def _launch_seconds(self, results: t.Mapping[str, t.Any]) -> float | None:
        """Return the time from the beginning of the launch until the last host was ready to start."""
        ready = [
            (each["ready_at"] or each["started_at"]) - self.clocks.corrections.get(host, 0)
            for host, each in results.items()
        ]
        return round(max(ready) - self.begun_at, 3) if ready else None

    def _timing(self, results: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return when the hosts were under load, by the controller's clock."""
        if not results:
            return {"started_at": None, "finished_at": None, "overlap": None, "start_skew_ms": None}
        starts = {host: each["started_at"] - self.clocks.corrections.get(host, 0) for host, each in results.items()}
        ends = {host: each["finished_at"] - self.clocks.corrections.get(host, 0) for host, each in results.items()}
        # An overloaded host ends late. That does not shorten the time during which all hosts were under load.
        planned = [min(ends[host], starts[host] + _planned_seconds(each)) for host, each in results.items()]
        due = {host: self.start_at + _stagger_seconds(each) for host, each in results.items()} if self.start_at else {}
        skew = [1000 * (starts[host] - at) for host, at in due.items()]
        return {
            "started_at": min(starts.values()),
            "finished_at": max(ends.values()),
            "overlap": round(overlap(list(starts.values()), planned), 5),
            "start_skew_ms": {"min": round(min(skew), 3), "max": round(max(skew), 3)} if skew else None,
        }

    def _invalid_because(self, document: t.Mapping[str, t.Any]) -> list[str]:
        """Return the reasons why the phase is not valid; none if it is."""
        reasons = [f"{host}: {message}" for host, message in document["failed"].items() if host not in self.died]
        reasons += charged_dram.reasons(self.charged, self.budgets)
        if self.phase["kind"] == "fill" or not document["hosts"]:
            return reasons
        least_overlap = self.config["validity"]["min_overlap"]
        if document["overlap"] < least_overlap:
            reasons.append(
                f"all hosts were under load for {document['overlap']:.3f} of the phase, "
                f"at least {least_overlap} is required"
            )
        for host, result in document["hosts"].items():
            clock_problems = self.clocks.problems(host, result, self.begun_at)
            found = (*_cut_short(result), *_other_values(result), *self._other_settings(result), *clock_problems)
            reasons += [f"{host}: {text}" for text in found]
        return reasons

    def _other_settings(self, result: t.Mapping[str, t.Any]) -> list[str]:
        """List the settings of a host that were not those of the run."""
        measured = result["settings"]
        wanted = {**self.config["load"], "influence": self.phase["influence"], "read_mix": self.phase["read_mix"]}
        return [
            f"measured with {name} {measured.get(name)} instead of {wanted.get(name)}"
            for name in (*_COMMON_SETTINGS, "influence", "read_mix")
            if measured.get(name) != wanted.get(name)
        ]


def _died_under_load(partial: t.Mapping[str, t.Any] | None) -> bool:
    """Decide whether the server of a failed client died or stopped answering after the load had begun."""
    partial = partial or {}
    written = (partial.get("fill") or {}).get("keys") or (partial.get("requests") or {}).get("sent")
    return _error_kind(partial) in ("lost", "timeout") and bool(written)


def is_gone(partial: t.Mapping[str, t.Any] | None) -> bool:
    """Decide whether a client could not connect, or its server closed the connection or hung before the load."""
    return _error_kind(partial or {}) in ("connect", "not_ready")


def _error_kind(partial: t.Mapping[str, t.Any]) -> str | None:
    return (partial.get("error") or {}).get("kind")


def _cut_short(result: t.Mapping[str, t.Any]) -> list[str]:
    """Report a host that ended before all requests of its schedule were due. Those that were due count as lost."""
    requests = result.get("requests") or {}
    left = (requests.get("planned") or 0) - (requests.get("sent") or 0) - (requests.get("not_sent") or 0)
    if not result.get("cut_off") or left <= 0:
        return []
    return [f"cut off when {left:,} of its {requests['planned']:,} requests were not due yet"]


def _other_values(result: t.Mapping[str, t.Any]) -> list[str]:
    """Report values of another size than the run's, which make it another load."""
    count = (result.get("requests") or {}).get("other_size")
    return [f"{count:,} GETs returned a value whose size is not value_size"] if count else []


def _planned_seconds(result: t.Mapping[str, t.Any]) -> float:
    """Return the length of a host's schedule; infinite if it had none."""
    planned, target = (result.get("requests") or {}).get("planned"), (result.get("rate") or {}).get("target")
    return planned / target if planned and target else math.inf


def _stagger_seconds(result: t.Mapping[str, t.Any]) -> float:
    """Return the delay of a host's first request after the common start."""
    return result["settings"]["stagger"] / result["settings"]["rate"]


def _rate_ratio(result: t.Mapping[str, t.Any]) -> float | None:
    """Return the achieved rate over the target; None for a single request and for a closed loop (no target)."""
    rate = result["rate"]
    if rate["target"] is None or result["settings"].get("requests") == 1:
        return None
    # The achieved rate is None if only one of several requests was sent.
    return round((rate["achieved"] or 0) / rate["target"], 5)


def least(values: t.Iterable[float | None]) -> float | None:
    """Return the smallest of the known values; None if none is known."""
    return min((value for value in values if value is not None), default=None)


def overlap(starts: t.Sequence[float], ends: t.Sequence[float]) -> float:
    """Return the share of the phase in which all hosts were under load, from 0 to 1.

    It is (earliest end - latest start) / (latest end - earliest start).
    """
    whole = max(ends) - min(starts)
    return max(0.0, (min(ends) - max(starts)) / whole) if whole > 0 else 1.0


def brief(figures: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the six figures of the 2018 technology brief over hosts, in milliseconds with three decimals.

    A mean of percentiles is not a percentile; these figures are only for comparison with the brief's.
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
