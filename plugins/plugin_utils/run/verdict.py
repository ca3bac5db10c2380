# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a run, worked out from its files: summary.json, the contract that other tools rely on."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import (
    Histogram,
    highest_of,
    microseconds,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, fleet_phase
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import FIGURES, CellSample, Spread
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEMA,
    RunDirectory,
    RunError,
    utc,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.steady_state import SteadyState

# Fewer iterations of a cell are too few for a claim (docs/results.md).
ITERATIONS_FOR_A_CLAIM = 10

_Document = t.Mapping[str, t.Any]


@dataclasses.dataclass
class CellDetails:
    """What a report shows of a cell in addition to its entry in summary.json.

    Attributes:
        hosts: name, avg_us, p99_us, max_us and iterations of each host.
        merged: the histograms of the whole fleet and all iterations, by latency.
        spread: how the figures vary with hosts and iterations; None if there are too few iterations.
        runs: C(avg_us), C(p99_us) and C(max_us) of the fleet in each run, by the number of the run.
    """

    hosts: list[dict[str, t.Any]]
    merged: dict[str, Histogram]
    spread: Spread | None
    runs: dict[int, dict[str, float]]


def summarise(
    directory: RunDirectory,
    slo: _Document | None = None,
    also: t.Callable[[dict[str, t.Any]], None] = lambda document: None,
) -> dict[str, t.Any]:
    """Return the summary of a run, complete or not; see evaluate()."""
    return evaluate(directory, slo, also)[0]


def evaluate(
    directory: RunDirectory,
    slo: _Document | None = None,
    also: t.Callable[[dict[str, t.Any]], None] = lambda document: None,
) -> tuple[dict[str, t.Any], dict[str, CellDetails]]:
    """Return the summary of a run, complete or not, and the details of each cell by its name.

    Args:
        directory: the run.
        slo: avg_us and p99_us to use instead of the run's own.
        also: called with the document of each measured phase. The documents of a large fleet take long to read, so
            this avoids reading them again.

    Raises:
        RunError: a file of the run is missing or damaged.
    """
    return evaluate_together([directory], slo, also)


def evaluate_together(
    directories: t.Sequence[RunDirectory],
    slo: _Document | None = None,
    also: t.Callable[[dict[str, t.Any]], None] = lambda document: None,
) -> tuple[dict[str, t.Any], dict[str, CellDetails]]:
    """Return the same as evaluate() for several runs of one configuration, as if they were one run.

    Iterations of one run have more in common than those of two: the fill, the state of swap, the place of each page.
    So the intervals of several runs resample the runs, not their iterations.

    Raises:
        RunError: the runs have different configurations, or see evaluate().
    """
    runs = [directory.read_json("run.json") for directory in directories]
    _check_same_settings(runs)
    run = runs[0]
    used_slo = {**run["config"]["slo"], **(slo or {})}
    phases, cells, futile = _read(directories, runs, used_slo, also)
    evaluated = {
        configuration.cell_name({"influence": influence, "read_mix": read_mix}): cell.summary(
            used_slo, run["expected"], futile is not None
        )
        for (influence, read_mix), cell in cells.items()
    }
    reported_cells = [cell for cell, _details in evaluated.values()]
    invalid_because = phases.problems if futile else phases.invalid_because
    failures = ([futile] if futile and phases.missing else []) + _failures(
        reported_cells, used_slo, len(run["expected"])
    )
    summary = {
        "schema": SCHEMA,
        "run_id": run["run_id"],
        "profile": run["config"]["profile"],
        "labels": list(dict.fromkeys(label for each in runs for label in each["labels"])),
        "config_hash": run["config_hash"],
        "started_at": utc(run["started_at"]),
        "finished_at": phases.finished_at and utc(phases.finished_at),
        "fleet": {
            "expected": len(run["expected"]),
            "reported": len(set(run["expected"]) - phases.failed),
            "failed": sorted(phases.failed),
        },
        "placement": phases.placement(run["config"]),
        "slo": used_slo,
        "verdict": "invalid" if invalid_because else "fail" if failures else "pass",
        "reasons": invalid_because or failures,
        "cells": reported_cells,
    }
    return summary, {name: details for name, (_cell, details) in evaluated.items()}


def _check_same_settings(runs: t.Sequence[_Document]) -> None:
    """Raise a RunError unless all runs have the same configuration and fleet."""
    first, *others = [{name: run[name] for name in ("config", "expected")} for run in runs]
    for run, other in zip(runs[1:], others):
        changes = configuration.differences(first, other)
        if changes:
            raise RunError(
                f"runs {runs[0]['run_id']} and {run['run_id']} cannot be evaluated together, because their settings "
                f"differ: {'; '.join(changes[:6])}"
            )


def _read(
    directories: t.Sequence[RunDirectory],
    runs: t.Sequence[_Document],
    slo: _Document,
    also: t.Callable[[dict[str, t.Any]], None],
) -> tuple[_Phases, dict[tuple[float, float], _Cell], str | None]:
    """Return the phases and the cells of runs, and why a run stopped early because it could not meet the SLO."""
    phases, futile = _Phases(), None
    cells: dict[tuple[float, float], _Cell] = {}
    several = len(runs) > 1
    for number, (directory, run) in enumerate(zip(directories, runs)):
        futility = Futility(run["config"], slo)
        for phase in run["phases"]:
            document = directory.read_phase(phase)
            if document is not None:
                also(document)
                futility.add(document)
            phases.add(phase, document, f"{run['run_id']}: " if several else "")
            if phase["kind"] != "fill":
                cell = cells.setdefault((phase["influence"], phase["read_mix"]), _Cell(phase, slo["basis"]))
                cell.add(phase, document, number, number if several else phase["iteration"])
        futile = futile or futility.reason
    return phases, cells, futile


class Futility:
    """Finds out when a run that stops early can no longer meet its SLO, whatever the remaining phases measure.

    All iterations of a cell count together. A host has failed for good once the sum of its latencies is too large for
    the average even if all remaining requests took no time, or once more than 1 % of all requests were above the p99.

    Args:
        config: the configuration of the run.
        slo: avg_us, p99_us and basis.

    Attributes:
        reason: why the run cannot meet its SLO; None as long as it can.
    """

    def __init__(self, config: _Document, slo: _Document) -> None:
        self.reason: str | None = None
        self._config = config
        self._slo = slo
        self._seen: dict[tuple[float, float, str], Histogram] = {}

    def add(self, document: _Document) -> None:
        """Add a phase. An invalid phase proves nothing and is ignored."""
        phase = document["phase"]
        if (
            not self._config.get("stop_when_failed")
            or self.reason
            or phase["kind"] != "iteration"
            or not document["valid"]
        ):
            return
        for name, result in document["hosts"].items():
            seen = self._seen.setdefault((phase["influence"], phase["read_mix"], name), Histogram())
            seen.merge(Histogram.from_figures(result["latency"][self._slo["basis"]]))
            if self._has_failed(seen):
                self.reason = (
                    f"stopped early: {name} cannot meet the SLO any more after iteration {phase['iteration']} of "
                    f"{configuration.cell_title(phase)}"
                )
                return

    def _has_failed(self, seen: Histogram) -> bool:
        """Return whether a host with these latencies misses the SLO even if the remaining requests take no time."""
        total = self._config["matrix"]["iterations"] * self._config["load"]["requests"]
        highest, limit = seen.max_ns or 0, self._slo["p99_us"]
        above = [count for slot, count in seen.counts.items() if min(highest_of(slot), highest) / 1000 > limit]
        return seen.sum_ns / 1000 / total > self._slo["avg_us"] or sum(above) > total // 100


class _Phases:
    """Collects from all phases what makes a run invalid.

    Attributes:
        failed: the hosts that failed in any phase.
        finished_at: when the last phase finished.
        problems: what is wrong with the measured phases.
        missing: the phases that were not measured.
    """

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.finished_at: float | None = None
        self.problems: list[str] = []
        self.missing: list[str] = []
        self._sharing: dict[str, set[str]] = {}

    @property
    def invalid_because(self) -> list[str]:
        """The reasons why the run is not valid; none if it is."""
        if not self.missing:
            return self.problems
        first, others = self.missing[0], len(self.missing) - 1
        return [
            *self.problems,
            f"{first} and {others} more phases were not measured" if others else f"{first} was not measured",
        ]

    def add(self, phase: _Document, document: _Document | None, prefix: str) -> None:
        """Add a phase of a run.

        Args:
            phase: its entry in run.json.
            document: the contents of its file; None if it was not measured.
            prefix: the beginning of each text about it: the name of the run, if there are several.
        """
        where = f"{prefix}phase {phase['index']} of {phase['of']} ({configuration.describe(phase)})"
        if document is None:
            self.missing.append(where)
            return
        self.failed |= set(document["failed"])
        if document["finished_at"]:
            self.finished_at = max(self.finished_at or 0, document["finished_at"])
        if phase["kind"] == "iteration":
            for name, result in document["hosts"].items():
                shares_cpu = (result.get("placement") or {}).get("shares_cpu") or "unknown"
                self._sharing.setdefault(name, set()).add(shares_cpu)
        # Nothing is concluded from a warm-up, so only a lost host in it makes the run invalid.
        reasons = (
            [f"{host}: {text}" for host, text in document["failed"].items()]
            if phase["kind"] == "warmup"
            else document["reasons"]
        )
        self.problems.extend(f"{where}: {reason}" for reason in reasons)

    def placement(self, config: _Document) -> dict[str, t.Any]:
        """Return the requested placement of the clients, and on how many hosts they shared a CPU with their Redis.

        A host whose placement differed between phases counts as "possibly".
        """
        hosts = dict.fromkeys(("always", "possibly", "never", "unknown"), 0)
        for seen in self._sharing.values():
            hosts[next(iter(seen)) if len(seen) == 1 else "possibly"] += 1
        return {"requested": config.get("load", {}).get("cpu"), "shares_cpu": hosts}


class _Cell:
    """Collects the measured iterations of one cell.

    The document of a phase is large for a large fleet, so only what the summary needs is kept.
    """

    def __init__(self, phase: _Document, basis: str) -> None:
        self.influence = phase["influence"]
        self.read_mix = phase["read_mix"]
        self.basis = basis
        self.expected_iterations = 0
        self.all_valid = True
        self.steady = SteadyState()
        self.overlaps: list[float] = []
        self.rate_ratios: list[float | None] = []
        self.hosts_reported: list[int] = []
        self.service: list[_Document] = []
        self.by_host: dict[str, list[tuple[int, _Document]]] = {}
        self.merged: dict[str, list[_Document]] = {name: [] for name in fleet_phase.LATENCIES}
        self.by_run: dict[int, list[_Document]] = {}

    def add(self, phase: _Document, document: _Document | None, run: int, unit: int) -> None:
        """Add a phase of a run; the intervals resample units, each with all its phases."""
        if phase["kind"] != "iteration":
            return
        self.expected_iterations += 1
        if document is None or not document["hosts"]:
            return
        self.steady.add(document, run)
        self.all_valid &= document["valid"]
        self.overlaps.append(document["overlap"])
        self.rate_ratios.append(document["achieved_rate_ratio"])
        self.hosts_reported.append(len(document["hosts"]))
        for name, result in document["hosts"].items():
            self.by_host.setdefault(name, []).append((unit, result["latency"][self.basis]))
            self.service.append({figure: result["latency"]["service"][figure] for figure in fleet_phase.BRIEF_FIGURES})
        for name, figures in document["merged"].items():
            self.merged[name].append(figures)
        self.by_run.setdefault(run, []).append(document["merged"][self.basis])

    def summary(self, slo: _Document, names: t.Sequence[str], stopped: bool) -> tuple[dict[str, t.Any], CellDetails]:
        """Return the entry of the cell in summary.json and its details.

        Args:
            slo: avg_us and p99_us.
            names: the expected hosts.
            stopped: iterations may be missing because they could not change the verdict.
        """
        sample = CellSample(len(names))
        hosts = [
            _host(name, number, self.by_host[name], sample)
            for number, name in enumerate(sorted(names))
            if name in self.by_host
        ]
        merged = {name: Histogram.from_figures(*each) for name, each in self.merged.items()}
        within = sum(host["avg_us"] <= slo["avg_us"] and host["p99_us"] <= slo["p99_us"] for host in hosts)
        worst = max(hosts, key=lambda host: slo_ratio(host, slo), default=None)
        iterations = len(self.overlaps)
        valid = self.all_valid and (iterations == self.expected_iterations or stopped)
        spread = sample.spread()
        summary = {
            "influence": self.influence,
            "read_mix": self.read_mix,
            "valid": valid,
            "overlap": min(self.overlaps, default=None),
            "achieved_rate_ratio": fleet_phase.least(self.rate_ratios),
            "iterations": iterations,
            "indicative": iterations < ITERATIONS_FOR_A_CLAIM,
            "hosts_within_slo": within,
            "within_slo": valid and within == len(names),
            "worst_host": worst and {name: worst[name] for name in ("name", "avg_us", "p99_us")},
            "steady": self.steady.summary(),
            "interval": spread and spread.interval(merged[self.basis].figures()),
            "brief": {**fleet_phase.brief(self.service), "hosts": min(self.hosts_reported, default=0)},
            **{name: _without_counts(each.figures()) for name, each in merged.items()},
        }
        runs = {run: Histogram.from_figures(*each).figures() for run, each in sorted(self.by_run.items())}
        by_run = {run: {name: figures[name] for name in FIGURES} for run, figures in runs.items()}
        return summary, CellDetails(hosts, merged, spread, by_run)


def slo_ratio(host: _Document, slo: _Document) -> float:
    """Return a host's average or p99 as a multiple of the SLO, whichever is larger; above 1 it misses the SLO."""
    return max(host["avg_us"] / slo["avg_us"], host["p99_us"] / slo["p99_us"])


def _host(name: str, number: int, figures: t.Sequence[tuple[int, _Document]], sample: CellSample) -> dict[str, t.Any]:
    """Return the figures of a host over all iterations of a cell, from its merged histogram, and add it to sample."""
    merged = Histogram()
    for unit, each in figures:
        histogram = Histogram.from_figures(each)
        sample.add(number, unit, histogram)
        merged.merge(histogram)
    (p99,) = merged.percentiles([99])
    return {
        "name": name,
        "avg_us": microseconds(merged.sum_ns / merged.count),
        "p99_us": microseconds(p99),
        "max_us": microseconds(merged.max_ns),
        "iterations": len(figures),
    }


def _without_counts(figures: _Document) -> dict[str, t.Any]:
    """Return the figures that people and other tools read."""
    return {name: value for name, value in figures.items() if name == "count" or name.endswith("_us")}


def _failures(cells: t.Sequence[_Document], slo: _Document, expected: int) -> list[str]:
    """Return one sentence for each cell that does not meet the SLO."""
    return [
        f"{configuration.cell_title(cell)}: {expected - cell['hosts_within_slo']} of {expected} hosts miss the SLO "
        f"(avg <= {slo['avg_us']:g} us, p99 <= {slo['p99_us']:g} us); worst {cell['worst_host']['name']} "
        f"with avg {cell['worst_host']['avg_us']:,.1f} us, p99 {cell['worst_host']['p99_us']:,.1f} us"
        for cell in cells
        if cell["hosts_within_slo"] < expected and cell["worst_host"]
    ]
