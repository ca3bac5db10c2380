# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cell of a run: what is collected from its iterations, and its entry in summary.json."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import (
    SLOTS,
    Histogram,
    microseconds,
    p99_slot,
    slot_of,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import fleet_phase
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import (
    FAIL,
    INVALID,
    LOWER,
    PASS,
    UNDECIDED,
    UPPER,
    HostBounds,
    Seen,
    answers,
    fleet_misses_p99,
    slo_ratio,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import FIGURES, CellSample, Spread
from ansible_collections.memstretch.density.plugins.plugin_utils.run.steady_state import SteadyState

# Fewer iterations of a cell are too few for a claim (docs/results.md).
ITERATIONS_FOR_A_CLAIM = 10

# What summary.json records of the worst host.
_WORST_HOST = ("name", "answer", "avg_us", "p99_us", "lower", "upper", "upper_by", "lost")

_Document = t.Mapping[str, t.Any]


@dataclasses.dataclass
class CellDetails:
    """What a report shows of a cell in addition to its entry in summary.json.

    Attributes:
        hosts: name, answer (PASS, FAIL or UNDECIDED), upper and lower bound (avg_us and p99_us), upper_by (CLIENT or
            OBSERVER), lost requests, max_us and iterations of each host. C(avg_us) and C(p99_us) are those of the upper
            bound.
        merged: the histograms of the whole fleet and all iterations, by latency.
        spread: how the figures vary with hosts and iterations; None if there are too few iterations.
        runs: C(avg_us), C(p99_us) and C(max_us) of the fleet in each run, by the number of the run.
    """

    hosts: list[dict[str, t.Any]]
    merged: dict[str, Histogram]
    spread: Spread | None
    runs: dict[int, dict[str, float]]


class Cell:
    """Collects the measured iterations of one cell.

    The document of a phase is large for a large fleet, so only what the summary needs is kept, and that of each host
    only until the last phase of the cell was added.

    Args:
        phase: one of the cell.
        phases: the number of phases of the cell, in all runs.
        names: the expected hosts.
        slo: avg_us and p99_us.
    """

    def __init__(self, phase: _Document, phases: int, names: t.Sequence[str], slo: _Document) -> None:
        self._phases_left = phases
        self._names = sorted(names)
        self._slo = slo
        self.influence = phase["influence"]
        self.read_mix = phase["read_mix"]
        self.arrivals: str | None = None
        self.expected_iterations = 0
        self.all_valid = True
        self.steady = SteadyState()
        self.overlaps: list[float] = []
        self.rate_ratios: list[float | None] = []
        self.hosts_reported: list[int] = []
        self.hosts: list[dict[str, t.Any]] = []
        self.fleet = PASS
        self.brief = fleet_phase.brief([])
        self.spread: Spread | None = None
        self._service: list[_Document] = []
        self._by_host: dict[str, list[tuple[int, _Document]]] = {}
        self.died: set[str] = set()
        self.merged: dict[str, list[_Document]] = {name: [] for name in fleet_phase.LATENCIES}
        self.by_run: dict[int, list[_Document]] = {}

    def add(self, phase: _Document, document: _Document | None, run: int, unit: int) -> None:
        """Add a phase of a run; the intervals resample units, each with all its phases."""
        if phase["kind"] == "iteration":
            self.expected_iterations += 1
            if document is not None:
                self._add_iteration(document, run, unit)
        self._phases_left -= 1
        if not self._phases_left:
            self._close()

    def _add_iteration(self, document: _Document, run: int, unit: int) -> None:
        self.died |= set(document.get("died", []))
        if not document["hosts"]:
            return
        self.steady.add(document, run)
        self.all_valid &= document["valid"]
        self.overlaps.append(document["overlap"])
        self.rate_ratios.append(document["achieved_rate_ratio"])
        self.hosts_reported.append(len(document["hosts"]))
        for name, result in document["hosts"].items():
            self.arrivals = result["settings"].get("arrivals")
            self._by_host.setdefault(name, []).append((unit, _for_bounds(result)))
            self._service.append({figure: result["latency"]["service"][figure] for figure in fleet_phase.BRIEF_FIGURES})
        for name, figures in document["merged"].items():
            self.merged[name].append(figures)
        self.by_run.setdefault(run, []).append(document["merged"][UPPER])

    def _close(self) -> None:
        """Compute the figures of each host from all its iterations, and forget these."""
        sample = CellSample(len(self._names))
        # The resampled fleets have no p99 below the lowest of a host.
        lowest = min((_lowest(results, UPPER) for results in self._by_host.values()), default=0)
        bounds: dict[str, HostBounds] = {}
        for number, name in enumerate(self._names):
            if name in self._by_host:
                bounds[name] = _bounds(number, self._by_host.pop(name), sample, self._slo, lowest)
        seen = [host.seen() for host in bounds.values()]
        found = zip(bounds.items(), seen, answers(seen, self._slo))
        self.hosts = [_host(name, each, host, of_host.figures) for (name, host), of_host, each in found]
        self.fleet = fleet_answer(seen, self._slo)
        self.spread = sample.spread()
        self.brief = {**fleet_phase.brief(self._service), "hosts": min(self.hosts_reported, default=0)}
        self._service = []

    def summary(self, stopped: bool) -> tuple[dict[str, t.Any], CellDetails]:
        """Return the entry of the cell in summary.json and its details, after all its phases were added.

        Args:
            stopped: iterations may be missing because they could not change the verdict.
        """
        hosts, spread, names = self.hosts, self.spread, self._names
        merged = {name: Histogram.from_figures(*each) for name, each in self.merged.items()}
        answers = [host["answer"] for host in hosts if host["name"] not in self.died]
        counts = {
            PASS: answers.count(PASS),
            FAIL: answers.count(FAIL) + len(self.died),
            UNDECIDED: answers.count(UNDECIDED),
        }
        worst = worst_host(hosts, self._slo)
        iterations = len(self.overlaps)
        complete = iterations == self.expected_iterations and sum(counts.values()) == len(names)
        valid = self.all_valid and (complete or stopped or bool(self.died))
        summary = {
            "influence": self.influence,
            "read_mix": self.read_mix,
            "arrivals": self.arrivals,
            "valid": valid,
            "verdict": _verdict(valid, counts, self.fleet),
            "fleet": self.fleet,
            "overlap": min(self.overlaps, default=None),
            "achieved_rate_ratio": fleet_phase.least(self.rate_ratios),
            "iterations": iterations,
            "indicative": iterations < ITERATIONS_FOR_A_CLAIM,
            "hosts_within_slo": counts[PASS],
            "hosts": counts,
            "within_slo": valid and counts[PASS] == len(names) and self.fleet == PASS,
            "worst_host": worst and {name: worst[name] for name in _WORST_HOST},
            "steady": self.steady.summary(),
            "interval": spread and spread.interval(merged[UPPER].figures()),
            "brief": self.brief,
            **{name: _without_counts(each.figures()) for name, each in merged.items()},
        }
        runs = {run: Histogram.from_figures(*each).figures() for run, each in sorted(self.by_run.items())}
        by_run = {run: {name: figures[name] for name in FIGURES} for run, figures in runs.items()}
        return summary, CellDetails(hosts, merged, spread, by_run)


def _verdict(valid: bool, hosts: t.Mapping[str, int], fleet: str) -> str:
    """Return the verdict of a cell from the numbers of its hosts by answer, and the answer of the fleet."""
    if not valid:
        return INVALID
    return next((each for each in (FAIL, UNDECIDED) if hosts[each] or fleet == each), PASS)


def fleet_answer(hosts: t.Sequence[Seen], slo: _Document) -> str:
    """Return PASS, FAIL or UNDECIDED for all hosts together, by their bounds."""

    def misses(bound: str) -> bool:
        slow = [host.slow[bound] for host in hosts]
        requests = [sum(count for _slow, count in each) for each in slow]
        total_us = sum(host.figures[bound]["avg_us"] * count for host, count in zip(hosts, requests))
        return fleet_misses_p99(slow) or total_us > slo["avg_us"] * sum(requests)

    return FAIL if misses("lower") else UNDECIDED if misses("upper") else PASS


# What an evaluation and its report read of a host's result, except its latencies: the results of a large fleet do not
# fit into memory.
_OF_INTEREST = ("client", "observed", "placement", "requests", "series", "server")
_OF_HEALTH = ("steal_ticks", "user_s", "system_s")


def of_interest(result: _Document) -> dict[str, t.Any]:
    """Select what an evaluation and its report read of the result of a host."""
    latency = result.get("latency")
    return {
        **{name: result.get(name) for name in _OF_INTEREST},
        "settings": {"arrivals": result["settings"].get("arrivals")},
        "health": {name: (result.get("health") or {}).get(name) for name in _OF_HEALTH},
        "latency": latency
        and {
            name: figures if name in (UPPER, LOWER) else {**figures, "histogram": None}
            for name, figures in latency.items()
        },
    }


def _for_bounds(result: _Document) -> dict[str, t.Any]:
    """Select what HostBounds needs of a result, which is kept until the last phase of the cell."""
    latency = result["latency"]
    return {
        "latency": {
            **{name: latency[name] for name in (UPPER, LOWER) if name in latency},
            **{name: {"p99_us": latency[name]["p99_us"]} for name in ("lateness", "wakeup") if name in latency},
        },
        "requests": result.get("requests"),
        "observed": result.get("observed"),
    }


def _lowest(results: t.Sequence[tuple[int, _Document]], bound: str) -> int:
    """Return the lowest slot that holds the p99 of a bound in an iteration of a host.

    It is 0 if the bound of a request is unknown: that counts as 0, so it moves the p99.
    """
    lowest = SLOTS
    for _unit, result in results:
        known = result["latency"].get(bound)
        if not known or known["count"] != result["latency"][UPPER]["count"]:
            return 0
        lowest = min(lowest, p99_slot(known))
    return lowest


def _bounds(
    number: int,
    results: t.Sequence[tuple[int, _Document]],
    sample: CellSample,
    slo: _Document,
    lowest_upper: int,
) -> HostBounds:
    """Return the bounds of a host over all iterations of a cell, and add its upper bound to sample."""
    bounds = HostBounds(slo["p99_us"])
    limit = slot_of(math.floor(1000 * slo["p99_us"]))
    lowest = {UPPER: min(lowest_upper, limit), LOWER: min(_lowest(results, LOWER), limit)}
    for unit, each in results:
        sample.add(number, unit, bounds.add(each, lowest))
    return bounds


def _host(name: str, found: str, bounds: HostBounds, figures: _Document) -> dict[str, t.Any]:
    """Return the figures of a host over all iterations of a cell, with its answer."""
    return {
        "name": name,
        "answer": found,
        **figures,
        **figures["upper"],
        "max_us": microseconds(bounds.upper.max_ns),
        "iterations": len(bounds.lower_slow),
        "doubt": bounds.doubt() if found == UNDECIDED else None,
    }


def worst_host(hosts: t.Sequence[dict[str, t.Any]], slo: _Document) -> dict[str, t.Any] | None:
    """Return the host that is furthest from the SLO, of those that fail if any does, then of the undecided ones."""
    return max(
        hosts,
        key=lambda host: (
            (PASS, UNDECIDED, FAIL).index(host["answer"]),
            slo_ratio(host["lower" if host["answer"] == FAIL else "upper"], slo),
        ),
        default=None,
    )


def _without_counts(figures: _Document) -> dict[str, t.Any]:
    """Return the figures that people and other tools read."""
    return {name: value for name, value in figures.items() if name == "count" or name.endswith("_us")}
