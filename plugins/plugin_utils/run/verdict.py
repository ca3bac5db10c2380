# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the files of a run to its verdict: summary.json, the contract that other tools rely on."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import (
    Histogram,
    highest_of,
    microseconds,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, fleet_phase, time_series
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import CellSample, Spread
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEMA,
    RunDirectory,
    RunError,
    utc,
)


@dataclasses.dataclass
class CellDetails:
    """What a report shows of a cell and summary.json does not hold.

    Attributes:
        hosts: name, avg_us, p99_us, max_us and iterations of each host.
        merged: the histograms of the whole fleet and all iterations, by latency.
        spread: how the figures vary with hosts and iterations; None if that cannot be told.
    """

    hosts: list[dict[str, t.Any]]
    merged: dict[str, Histogram]
    spread: Spread | None


def summarise(
    directory: RunDirectory,
    slo: t.Mapping[str, t.Any] | None = None,
    also: t.Callable[[dict[str, t.Any]], None] = lambda document: None,
) -> dict[str, t.Any]:
    """Return the summary of a run, complete or not; see evaluate()."""
    return evaluate(directory, slo, also)[0]


def evaluate(
    directory: RunDirectory,
    slo: t.Mapping[str, t.Any] | None = None,
    also: t.Callable[[dict[str, t.Any]], None] = lambda document: None,
) -> tuple[dict[str, t.Any], dict[str, CellDetails]]:
    """Return the summary of a run, complete or not, and by the name of the cell what else a report shows.

    Args:
        directory: the run.
        slo: avg_us and p99_us to judge by in place of the run's own.
        also: takes the document of each phase that was measured. Those of a large fleet take long to read; this saves
            another reading.

    Raises:
        RunError: a file of it is missing or damaged.
    """
    return evaluate_together([directory], slo, also)


def evaluate_together(
    directories: t.Sequence[RunDirectory],
    slo: t.Mapping[str, t.Any] | None = None,
    also: t.Callable[[dict[str, t.Any]], None] = lambda document: None,
) -> tuple[dict[str, t.Any], dict[str, CellDetails]]:
    """Return the same as evaluate() of several runs of one configuration, as if they were one.

    Iterations of one run have more in common than those of two: the fill, the state of swap, the place of each page. So where there are
    several runs, it is they that the intervals vary, and not their iterations.

    Raises:
        RunError: they are of different configurations, besides what evaluate() raises.
    """
    runs = [directory.read_json("run.json") for directory in directories]
    run = runs[0]
    for each in runs[1:]:
        changes = configuration.differences(
            {name: run[name] for name in ("config", "expected")}, {name: each[name] for name in ("config", "expected")}
        )
        if changes:
            raise RunError(
                f"runs {run['run_id']} and {each['run_id']} cannot be taken together, their settings differ: {'; '.join(changes[:6])}"
            )
    slo = {**run["config"]["slo"], **(slo or {})}
    run_of_phases = _Phases()
    cells: dict[tuple[float, float], _Cell] = {}
    futile: str | None = None
    for number, (directory, one) in enumerate(zip(directories, runs)):
        futility = Futility(one["config"], slo)
        for phase in one["phases"]:
            document = directory.read_phase(phase)
            if document is not None:
                also(document)
                futility.add(document)
            run_of_phases.add(phase, document, f"{one['run_id']}: " if len(runs) > 1 else "")
            if phase["kind"] == "fill":
                continue
            cell = cells.setdefault((phase["influence"], phase["read_mix"]), _Cell(phase, slo["basis"]))
            cell.add(phase, document, number if len(runs) > 1 else phase["iteration"])
        futile = futile or futility.reason
    evaluated = {
        configuration.cell_name({"influence": influence, "read_mix": read_mix}): cell.summary(
            slo, run["expected"], futile is not None
        )
        for (influence, read_mix), cell in cells.items()
    }
    reported_cells = [cell for cell, dummy in evaluated.values()]
    doubts = run_of_phases.doubts if futile else run_of_phases.reasons
    failures = ([futile] if futile and run_of_phases.missing else []) + _failures(
        reported_cells, slo, len(run["expected"])
    )
    verdict = "invalid" if doubts else "fail" if failures else "pass"
    return {
        "schema": SCHEMA,
        "run_id": run["run_id"],
        "profile": run["config"]["profile"],
        "labels": list(dict.fromkeys(label for each in runs for label in each["labels"])),
        "config_hash": run["config_hash"],
        "started_at": utc(run["started_at"]),
        "finished_at": run_of_phases.finished_at and utc(run_of_phases.finished_at),
        "fleet": {
            "expected": len(run["expected"]),
            "reported": len(set(run["expected"]) - run_of_phases.failed),
            "failed": sorted(run_of_phases.failed),
        },
        "placement": run_of_phases.placement(run["config"]),
        "slo": slo,
        "verdict": verdict,
        "reasons": doubts or failures,
        "cells": reported_cells,
    }, {name: details for name, (dummy, details) in evaluated.items()}


class Futility:
    """Tells when a run cannot meet its SLO any more, whatever is still to come: only of a run that is to stop then.

    A host is judged by all iterations of a cell together. It has failed for good once the time that its requests took would be too long
    on average even if all that are left took none, or more of them were too slow than the 99th percentile lets pass.

    Args:
        config: of the run.
        slo: avg_us, p99_us and basis.

    Attributes:
        reason: why it cannot; None as long as it can.
    """

    def __init__(self, config: t.Mapping[str, t.Any], slo: t.Mapping[str, t.Any]) -> None:
        self.reason: str | None = None
        self._config = config
        self._slo = slo
        self._seen: dict[tuple[float, float, str], Histogram] = {}

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        """Take a phase. One that is not valid proves nothing."""
        phase = document["phase"]
        if (
            not self._config.get("stop_when_failed")
            or self.reason
            or phase["kind"] != "iteration"
            or not document["valid"]
        ):
            return
        slo = self._slo
        total = self._config["matrix"]["iterations"] * self._config["load"]["requests"]
        for name, result in document["hosts"].items():
            seen = self._seen.setdefault((phase["influence"], phase["read_mix"], name), Histogram())
            seen.merge(Histogram.from_figures(result["latency"][slo["basis"]]))
            slow = sum(
                count
                for slot, count in seen.counts.items()
                if min(highest_of(slot), seen.max_ns) / 1000 > slo["p99_us"]
            )
            if seen.sum_ns / 1000 / total > slo["avg_us"] or slow > total // 100:
                cell = f"influence {phase['influence']:g}, {phase['read_mix']:g} % GET"
                self.reason = (
                    f"stopped early: {name} cannot meet the SLO any more after iteration {phase['iteration']} of {cell}"
                )
                return


class _Phases:
    """What all phases of a run say together about its validity."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.finished_at: float | None = None
        self.doubts: list[str] = []
        self.missing: list[str] = []
        self._sharing: dict[str, set[str]] = {}

    @property
    def reasons(self) -> list[str]:
        """Why the run is not valid; nothing if it is."""
        if not self.missing:
            return self.doubts
        first = self.missing[0]
        others = f", nor were {len(self.missing) - 1} others" if len(self.missing) > 1 else ""
        return [*self.doubts, f"{first} was not measured{others}"]

    def add(self, phase: t.Mapping[str, t.Any], document: t.Mapping[str, t.Any] | None, run: str) -> None:
        """Take a phase of a run, whose name goes before what is said of it."""
        where = f"{run}phase {phase['index']} of {phase['of']} ({configuration.describe(phase)})"
        if document is None:
            self.missing.append(where)
            return
        self.failed |= set(document["failed"])
        if document["finished_at"]:
            self.finished_at = max(self.finished_at or 0, document["finished_at"])
        if phase["kind"] == "iteration":
            for name, result in document["hosts"].items():
                self._sharing.setdefault(name, set()).add(
                    (result.get("placement") or {}).get("shares_cpu") or "unknown"
                )
        # A warm-up is thrown away, so its doubts are no doubts of the run; a lost host is one all the same.
        reasons = (
            document["reasons"]
            if phase["kind"] != "warmup"
            else [f"{host}: {text}" for host, text in document["failed"].items()]
        )
        self.doubts.extend(f"{where}: {reason}" for reason in reasons)

    def placement(self, config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Where the clients were asked to run, and on how many hosts they shared a CPU with their Redis.

        A host that was placed differently from phase to phase shared it possibly.
        """
        hosts = dict.fromkeys(("always", "possibly", "never", "unknown"), 0)
        for seen in self._sharing.values():
            hosts[next(iter(seen)) if len(seen) == 1 else "possibly"] += 1
        return {"requested": config.get("load", {}).get("cpu"), "shares_cpu": hosts}


class _Cell:
    """The measured iterations of one cell.

    Of a phase's document, which is large for a large fleet, it keeps no more than the summary needs.
    """

    def __init__(self, phase: t.Mapping[str, t.Any], basis: str) -> None:
        self.influence = phase["influence"]
        self.read_mix = phase["read_mix"]
        self.basis = basis
        self.planned = 0
        self.valid = True
        self.warm_up: dict[str, t.Any] | None = None
        self.overlaps: list[float] = []
        self.rate_ratios: list[float | None] = []
        self.hosts_reported: list[int] = []
        self.service: list[t.Mapping[str, t.Any]] = []
        self.by_host: dict[str, list[tuple[int, t.Mapping[str, t.Any]]]] = {}
        self.merged: dict[str, list[t.Mapping[str, t.Any]]] = {name: [] for name in fleet_phase.LATENCIES}

    def add(self, phase: t.Mapping[str, t.Any], document: t.Mapping[str, t.Any] | None, unit: int) -> None:
        """Take a phase. Phases of one unit are what the intervals keep together."""
        if phase["kind"] != "iteration":
            return
        self.planned += 1
        if document is None or not document["hosts"]:
            return
        if not self.overlaps:
            self.warm_up = time_series.trend(time_series.merged(document["hosts"].values()))
        self.valid &= document["valid"]
        self.overlaps.append(document["overlap"])
        self.rate_ratios.append(document["achieved_rate_ratio"])
        self.hosts_reported.append(len(document["hosts"]))
        for name, result in document["hosts"].items():
            self.by_host.setdefault(name, []).append((unit, result["latency"][self.basis]))
            self.service.append({figure: result["latency"]["service"][figure] for figure in fleet_phase.BRIEF_FIGURES})
        for name, figures in document["merged"].items():
            self.merged[name].append(figures)

    def summary(
        self, slo: t.Mapping[str, t.Any], names: t.Sequence[str], stopped: bool
    ) -> tuple[dict[str, t.Any], CellDetails]:
        """Return the cell's figures. Args: stopped is whether iterations are missing because they could not change the verdict."""
        expected = len(names)
        sample = CellSample(expected)
        hosts = [
            _host(name, number, self.by_host[name], sample)
            for number, name in enumerate(sorted(names))
            if name in self.by_host
        ]
        merged = {name: Histogram.from_figures(*each) for name, each in self.merged.items()}
        within = [host for host in hosts if host["avg_us"] <= slo["avg_us"] and host["p99_us"] <= slo["p99_us"]]
        worst = max(
            hosts, key=lambda host: max(host["avg_us"] / slo["avg_us"], host["p99_us"] / slo["p99_us"]), default=None
        )
        iterations = len(self.overlaps)
        valid = self.valid and (iterations == self.planned or stopped)
        spread = sample.spread()
        response = merged[self.basis].figures()
        summary = {
            "influence": self.influence,
            "read_mix": self.read_mix,
            "valid": valid,
            "overlap": min(self.overlaps, default=None),
            "achieved_rate_ratio": fleet_phase.least(self.rate_ratios),
            "iterations": iterations,
            # fewer than ten iterations are no ground for a claim (docs/results.md)
            "indicative": iterations < 10,
            "hosts_within_slo": len(within),
            "within_slo": valid and len(within) == expected,
            "worst_host": worst and {name: worst[name] for name in ("name", "avg_us", "p99_us")},
            "warm_up": self.warm_up,
            "interval": spread and spread.interval(response),
            "brief": {**fleet_phase.brief(self.service), "hosts": min(self.hosts_reported, default=0)},
            **{name: _without_counts(each.figures()) for name, each in merged.items()},
        }
        return summary, CellDetails(hosts, merged, spread)


def _host(
    name: str, number: int, figures: t.Sequence[tuple[int, t.Mapping[str, t.Any]]], sample: CellSample
) -> dict[str, t.Any]:
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


def _without_counts(figures: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the figures that a person or another tool reads."""
    return {name: value for name, value in figures.items() if name == "count" or name.endswith("_us")}


def _failures(cells: t.Sequence[t.Mapping[str, t.Any]], slo: t.Mapping[str, t.Any], expected: int) -> list[str]:
    """Return one sentence for each cell that does not meet the SLO."""
    return [
        f"influence {cell['influence']:g}, {cell['read_mix']:g} % GET: {expected - cell['hosts_within_slo']} of {expected} hosts miss the SLO "
        f"(avg <= {slo['avg_us']:g} us, p99 <= {slo['p99_us']:g} us); worst {cell['worst_host']['name']} "
        f"with avg {cell['worst_host']['avg_us']:,.1f} us, p99 {cell['worst_host']['p99_us']:,.1f} us"
        for cell in cells
        if cell["hosts_within_slo"] < expected and cell["worst_host"]
    ]
