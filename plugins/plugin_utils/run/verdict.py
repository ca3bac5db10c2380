# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a run, worked out from its files: summary.json, the contract that other tools rely on."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest import futility
from ansible_collections.memstretch.density.plugins.plugin_utils.run import (
    charged_dram,
    clocks,
    configuration,
    kernel_kills,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import (
    FAIL,
    INVALID,
    LOWER,
    PASS,
    UNDECIDED,
    UPPER,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import (
    Cell,
    CellDetails,
    of_interest,
    worst_host,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.configuration import cell_of
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cpu_time import CpuTime
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    RunDirectory,
    RunError,
    described_by,
    utc,
)

_Document = t.Mapping[str, t.Any]


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
    used_slo = {name: {**run["config"]["slo"], **(slo or {})}[name] for name in ("avg_us", "p99_us")}
    phases, cells, futile = _read(directories, runs, used_slo, also)
    evaluated = {
        configuration.cell_name({"influence": influence, "read_mix": read_mix}): cell.summary(futile is not None)
        for (influence, read_mix), cell in cells.items()
    }
    reported_cells = [cell for cell, _details in evaluated.values()]
    details = {name: details for name, (_cell, details) in evaluated.items()}
    verdict, reasons = _judge(phases, reported_cells, details, used_slo, futile, len(run["expected"]))
    summary = {
        **described_by("summary"),
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
            "killed": sum(kernel_kills.count(directory) for directory in directories) if phases.died else 0,
        },
        "placement": phases.placement(run["config"]),
        "slo": used_slo,
        "dram": phases.dram.document(),
        "cpu": phases.cpu.document(),
        "verdict": verdict,
        "reasons": reasons,
        "cells": reported_cells,
    }
    return summary, details


def _judge(
    phases: _Phases,
    cells: t.Sequence[_Document],
    details: t.Mapping[str, CellDetails],
    slo: _Document,
    futile: str | None,
    expected: int,
) -> tuple[str, list[str]]:
    """Return the verdict of a run of C(expected) hosts and the reasons for it.

    Phases that were not measured do not make it invalid if the run had ended because it could only fail.
    """
    if phases.dram.failures():  # whatever was measured of it, the fleet takes more DRAM than it may
        return FAIL, phases.dram.failures()
    has_ended = bool(futile or phases.died)
    invalid_because = phases.problems if has_ended else phases.invalid_because
    if invalid_because:
        return INVALID, invalid_because
    failures = [*phases.died, *([futile] if futile and phases.missing else [])]
    failures += _sentences(FAIL, cells, details, slo)
    if failures:
        return FAIL, failures
    doubts = _sentences(UNDECIDED, cells, details, slo)
    if doubts:
        return UNDECIDED, doubts
    # The tasks of an ad-hoc run may have measured different hosts.
    incomplete = [
        f"{configuration.cell_title(cell)}: only {sum(cell['hosts'].values())} of {expected} hosts were measured"
        for cell in cells
        if not cell["valid"]
    ]
    return (INVALID, incomplete) if incomplete else (PASS, [])


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
) -> tuple[_Phases, dict[tuple[float, float], Cell], str | None]:
    """Return the phases and the cells of runs, and why a run stopped early because it could not meet the SLO."""
    phases, futile = _Phases(), None
    cells: dict[tuple[float, float], Cell] = {}
    several = len(runs) > 1
    count = collections.Counter(cell_of(phase) for run in runs for phase in run["phases"] if phase["kind"] != "fill")
    for number, (directory, run) in enumerate(zip(directories, runs)):
        futility = Futility(run["config"], slo)
        for phase in run["phases"]:
            document = directory.read_phase(phase, of_interest)
            if document is not None:
                also(document)
                futility.add(document)
            phases.add(phase, document, f"{run['run_id']}: " if several else "")
            if phase["kind"] != "fill":
                place = cell_of(phase)
                if place not in cells:
                    cells[place] = Cell(phase, count[place], runs[0]["expected"], slo)
                cells[place].add(phase, document, number, number if several else phase["iteration"])
            del document  # two of a large fleet need much memory
        prefix = f"{run['run_id']}: " if several else ""
        phases.problems += [f"{prefix}{host}: {text}" for host, text in clocks.changes(run).items()]
        futile = futile or futility.reason
    return phases, cells, futile


class Futility:
    """Finds out when a run that stops early can no longer meet its SLO, whatever the remaining phases measure.

    All iterations of a cell count together. A host has failed for good once the sum of its lower bounds is too large
    for the average even if all remaining requests took no time, or once more than 1 % of all requests were above the
    p99.

    Args:
        config: the configuration of the run.
        slo: avg_us and p99_us.

    Attributes:
        reason: why the run cannot meet its SLO; None as long as it can.
    """

    def __init__(self, config: _Document, slo: _Document) -> None:
        self.reason: str | None = None
        self._config = config
        self._slo = slo
        self._watches: dict[str, futility.Watch] = {}

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
        total = self._config["matrix"]["iterations"] * self._config["load"]["requests"]
        for name, result in document["hosts"].items():
            watch = self._watches.setdefault(name, futility.Watch(self._slo, total, len(document["expected"])))
            if watch.add(cell_of(phase), result["latency"]):
                self.reason = (
                    f"stopped early: {name} can no longer meet the SLO after iteration {phase['iteration']} of "
                    f"{configuration.cell_title(phase)}"
                )
                return


class _Phases:
    """Collects from all phases what makes a run invalid.

    Attributes:
        failed: the hosts that failed in any phase.
        finished_at: when the last phase finished.
        problems: what is wrong with the measured phases.
        died: one sentence for each host whose Redis or machine died under the load.
        missing: the phases that were not measured.
    """

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.finished_at: float | None = None
        self.problems: list[str] = []
        self.died: list[str] = []
        self.missing: list[str] = []
        self._sharing: dict[str, set[str]] = {}
        self.dram = charged_dram.Summary()
        self.cpu = CpuTime()

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
        self.dram.add(document)
        self.cpu.add(document)
        if phase["kind"] == "iteration":
            for name, result in document["hosts"].items():
                shares_cpu = (result.get("placement") or {}).get("shares_cpu") or "unknown"
                self._sharing.setdefault(name, set()).add(shares_cpu)
        died = document.get("died", [])
        # Nothing is concluded from a warm-up, so only a lost host in it makes the run invalid.
        reasons = (
            [f"{host}: {text}" for host, text in document["failed"].items() if host not in died]
            if phase["kind"] == "warmup"
            else document["reasons"]
        )
        self.problems.extend(f"{where}: {reason}" for reason in reasons)
        self.died.extend(f"{where}: {host} died under the load: {document['failed'][host]}" for host in died)

    def placement(self, config: _Document) -> dict[str, t.Any]:
        """Return the requested placement of the clients, and on how many hosts they shared a CPU with their Redis.

        A host whose placement differed between phases counts as "possibly".
        """
        hosts = dict.fromkeys(("always", "possibly", "never", "unknown"), 0)
        for seen in self._sharing.values():
            hosts[next(iter(seen)) if len(seen) == 1 else "possibly"] += 1
        return {"requested": config.get("load", {}).get("cpu"), "shares_cpu": hosts}


def _sentences(
    answer: str, cells: t.Sequence[_Document], details: t.Mapping[str, CellDetails], slo: _Document
) -> list[str]:
    """Return one sentence for each cell that has hosts with this answer, or whose fleet as a whole has it."""
    limits = f"avg <= {slo['avg_us']:g} us, p99 <= {slo['p99_us']:g} us"
    sentences = []
    for cell in cells:
        hosts = [host for host in details[configuration.cell_name(cell)].hosts if host["answer"] == answer]
        worst = worst_host(hosts, slo)
        if not worst:
            if cell["fleet"] == answer:
                sentences.append(_of_fleet(cell, answer, limits))
            continue
        where = f"{configuration.cell_title(cell)}: {len(hosts)} of {sum(cell['hosts'].values())} hosts"
        lower, upper = worst["lower"], worst["upper"]
        if answer == FAIL:
            sentences.append(
                f"{where} miss the SLO ({limits}) whatever the client added; worst {worst['name']} with at least "
                f"avg {lower['avg_us']:,.1f} us, p99 {lower['p99_us']:,.1f} us"
            )
        else:
            sentences.append(
                f"{where} are undecided ({limits}): {worst['name']} has avg {lower['avg_us']:,.1f} to "
                f"{upper['avg_us']:,.1f} us, p99 {lower['p99_us']:,.1f} to {upper['p99_us']:,.1f} us; {worst['doubt']}"
            )
    return sentences


def _of_fleet(cell: _Document, answer: str, limits: str) -> str:
    """Say what is wrong with a fleet of which no host alone stands out."""
    lower, upper = cell[LOWER], cell[UPPER]
    start = f"{configuration.cell_title(cell)}: all hosts together"
    end = "no host stands out from the others"
    if answer == FAIL:
        return (
            f"{start} miss the SLO ({limits}) whatever the client added, with avg {lower['avg_us']:,.1f} us, "
            f"p99 {lower['p99_us']:,.1f} us; {end}"
        )
    return (
        f"{start} are undecided ({limits}): avg {lower['avg_us']:,.1f} to {upper['avg_us']:,.1f} us, "
        f"p99 {lower['p99_us']:,.1f} to {upper['p99_us']:,.1f} us; {end}"
    )
