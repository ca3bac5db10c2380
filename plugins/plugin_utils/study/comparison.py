# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare runs: their figures as multiples of the first one's, and what else differs between them."""

from __future__ import annotations

import json
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report import cost_text, headline, index, pressure_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.comparison_page import comparison_page
from ansible_collections.memstretch.density.plugins.plugin_utils.run import (
    configuration,
    guests,
    pressure,
    site_check,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import UPPER
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import CellDetails
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    FIGURES,
    paired_ratio,
    spread_of_runs,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    RunDirectory,
    RunError,
    described_by,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate_together
from ansible_collections.memstretch.density.plugins.plugin_utils.study import attempts, significance

_Figures = t.TypeVar("_Figures")


class ArmRuns(t.NamedTuple):
    """The runs of one arm: one run, or several of one configuration that are evaluated together.

    Attributes:
        name: of the arm; None to use the profile's name.
        runs: directories of the runs.
        repeats: the name of the arm that it repeats for an A/A test; None otherwise.
        rounds: the round of each run; None if they are in the order of the rounds and none is missing. Only runs of the
            same round are a pair.
    """

    name: str | None
    runs: t.Sequence[RunDirectory]
    repeats: str | None = None
    rounds: t.Sequence[int] | None = None

    def by_round(self, runs: t.Mapping[int, _Figures]) -> dict[int, _Figures]:
        """Return the facts about runs, by their round instead of their number."""
        return {self.rounds[number] if self.rounds else number: each for number, each in runs.items()}


def publish(
    directory: RunDirectory,
    arms: t.Sequence[ArmRuns],
    say: t.Callable[[str], None],
    prices: t.Mapping[str, t.Any] | None = None,
    write: bool = True,
    ledger: t.Mapping[str, t.Any] | None = None,
    site: t.Sequence[t.Mapping[str, t.Any]] = (),
) -> tuple[dict[str, t.Any], bool]:
    """Compare arms with the first one; show the result and write comparison.json, .txt and .html.

    Args:
        directory: for the files.
        arms: the arms to compare.
        say: receives lines for the terminal.
        prices: from cost.prices().
        write: whether to write files.
        ledger: the attempts at the runs, from attempts.summary().
        site: the site checks before the runs.

    Returns:
        The comparison, and whether a file changed.

    Raises:
        RunError: see compare().
    """
    document, details = compare(arms, prices)
    document["attempts"] = ledger
    document["site_checks"] += site
    document["labels"] += site_check.labels(site)
    lines = report_text.comparison(document) + site_check.lines(site)
    lines += attempts.lines(ledger) if ledger else []
    lines += pressure_text.lines(document["cells"]) + cost_text.lines(document["cost"])
    page = comparison_page(document, details)
    changed = False
    if write:
        directory.make()
        changed = directory.write_text("comparison.json", json.dumps(document, indent=1) + "\n")
        changed |= directory.write_text("comparison.html", page)
        changed |= directory.write_text("comparison.txt", "\n".join(lines).strip() + "\n")
        begun = max(run.read_json("run.json")["started_at"] for arm in arms for run in arm.runs)
        verdicts = [(run["name"], run["verdict"]) for run in document["runs"]]
        changed |= index.enter(directory, "comparison.html", begun, headline.comparison(document), verdicts)
    for line in lines:
        say(line)
    return document, changed


def compare(
    arms: t.Sequence[ArmRuns], prices: t.Mapping[str, t.Any] | None = None
) -> tuple[dict[str, t.Any], list[dict[str, CellDetails]]]:
    """Return the comparison of arms with the first one (docs/result-formats.md), and the data of each arm's charts.

    Args:
        arms: the arms to compare.
        prices: from cost.prices().

    Raises:
        RunError: fewer than two arms, a run twice, or a file that is missing or damaged.
    """
    directories = [run for arm in arms for run in arm.runs]
    if len(arms) < 2 or len({run.path for run in directories}) < len(directories):
        raise RunError(
            f"runs: {', '.join(run.run_id for run in directories) or 'none'}; "
            "a comparison needs two or more different runs"
        )
    documents = [arm.runs[0].read_json("run.json") for arm in arms]
    page_ins = [_PageIns(arm) for arm in arms]
    machines = [pressure.PressureByMachine() for _arm in arms]
    writes = [cost.SwapWrites(document) for document in documents]
    evaluated = [
        evaluate_together(arm.runs, also=_each(paging.add, written.add, machine.add))
        for arm, paging, written, machine in zip(arms, page_ins, writes, machines)
    ]
    summaries = [summary for summary, _details in evaluated]
    first = summaries[0]
    measured = [
        significance.MeasuredArm(
            arm.name or summary["profile"],
            arm.repeats,
            {name: arm.by_round(each.runs) for name, each in details.items()},
        )
        for arm, (summary, details) in zip(arms, evaluated)
    ]
    aa_tests = significance.aa_tests(measured, first["cells"])
    rows = [
        (
            {
                **_row(cell, summary, arm.name, paging.rate(cell)),
                "page_ins_ratio": None if number == 0 else paging.ratio(page_ins[0], cell),
                "pressure": machines[number].of(cell),
            },
            _Ratios(cell, cell_of_first, arm.runs, measured[0].runs, number == 0),
        )
        for cell_of_first in first["cells"]
        for number, (summary, arm, paging) in enumerate(zip(summaries, measured, page_ins))
        for cell in summary["cells"]
        if _key(cell) == _key(cell_of_first)
    ]
    same = {arm.name for arm in measured if arm.repeats == measured[0].name}
    significant = significance.significant([ratios.p_values(row["name"] in same) for row, ratios in rows])
    return {
        **described_by("comparison"),
        "baseline": first["run_id"],
        "slo": first["slo"],
        "runs": [
            {
                **{key: summary[key] for key in ("run_id", "profile", "labels", "verdict", "config_hash")},
                "name": arm.name or summary["profile"],
                "parts": [run.run_id for run in arm.runs],
                "fleet": summary["fleet"]["expected"],
                "dram": summary["dram"],
            }
            for arm, summary in zip(arms, summaries)
        ],
        "differences": {
            summary["run_id"]: _differences(documents[0], document)
            for summary, document in zip(summaries[1:], documents[1:])
        },
        "settings": _settings(documents),
        "cost": prices
        and cost.document(
            prices,
            [
                cost.arm_of(
                    arm.name or summary["profile"],
                    document,
                    summary["verdict"],
                    summary["fleet"]["expected"],
                    written,
                    summary["dram"],
                )
                for arm, summary, document, written in zip(arms, summaries, documents, writes)
            ],
            arms[0].name or first["profile"],
        ),
        "site_checks": [],
        "labels": significance.labels(aa_tests),
        "aa_tests": aa_tests,
        "noise": significance.noise(measured, first["cells"]),
        "cells": [{**row, **ratios.document(), "significant": each} for (row, ratios), each in zip(rows, significant)],
    }, [details for _summary, details in evaluated]


def _each(*takers: t.Callable[[dict[str, t.Any]], None]) -> t.Callable[[dict[str, t.Any]], None]:
    """Return a function that passes a phase to all takers."""

    def take(document: dict[str, t.Any]) -> None:
        for taker in takers:
            taker(document)

    return take


def _row(
    cell: t.Mapping[str, t.Any], summary: t.Mapping[str, t.Any], name: str, page_ins: float | None
) -> dict[str, t.Any]:
    return {
        **{
            key: cell[key] for key in ("influence", "read_mix", "valid", "iterations", "hosts_within_slo", "worst_host")
        },
        "run_id": summary["run_id"],
        "profile": summary["profile"],
        "name": name,
        "verdict": cell["verdict"],
        UPPER: {name: cell[UPPER][name] for name in FIGURES},
        "page_ins_per_second": page_ins,
    }


class _Ratios:
    """The ratios of a cell to the baseline's, and how certain they are.

    With several runs of both arms, a ratio is the geometric mean of those of the rounds. Otherwise it is the ratio of
    the figures that are shown.
    """

    def __init__(
        self,
        cell: t.Mapping[str, t.Any],
        of_baseline: t.Mapping[str, t.Any],
        runs: t.Mapping[str, significance.Runs],
        baseline: t.Mapping[str, significance.Runs],
        is_baseline: bool,
    ) -> None:
        name = configuration.cell_name(cell)
        self._runs = runs[name]
        self._is_baseline = is_baseline
        self._shown = {figure: _quotient(cell[UPPER][figure], of_baseline[UPPER][figure]) for figure in FIGURES}
        several = len(self._runs) > 1
        self._pairs = significance.paired(self._runs, baseline[name]) if several else dict.fromkeys(FIGURES)

    @property
    def _intervals(self) -> dict[str, list[float]] | None:
        found = {figure: pairs.interval for figure, pairs in self._pairs.items() if pairs and pairs.interval}
        return found if len(found) == len(FIGURES) and not self._is_baseline else None

    def p_values(self, is_same: bool) -> dict[str, float | None]:
        """Return the p-value of each figure; None for the baseline, and for an arm that is the same."""
        if is_same or not self._intervals:
            return dict.fromkeys(FIGURES)
        return {figure: pairs and pairs.p_value for figure, pairs in self._pairs.items()}

    def document(self) -> dict[str, t.Any]:
        """Return the ratios, their intervals, the spread of the runs, and whether there are too few runs for these."""
        ratios = {figure: pairs.value if pairs else self._shown[figure] for figure, pairs in self._pairs.items()}
        spreads = {figure: spread_of_runs([run[figure] for run in self._runs.values()]) for figure in FIGURES}
        return {
            "runs": len(self._runs),
            "indicative": not self._is_baseline and not self._intervals,
            "ratio": {figure: None if ratio is None else round(ratio, 3) for figure, ratio in ratios.items()},
            "ratio_interval": self._intervals,
            "spread": {figure: None if spread is None else round(spread, 4) for figure, spread in spreads.items()},
        }


def _quotient(value: float | None, baseline: float | None) -> float | None:
    return None if value is None or not baseline else value / baseline


def _key(cell: t.Mapping[str, t.Any]) -> tuple[float, float]:
    return cell["influence"], cell["read_mix"]


class _PageIns:
    """Pages read back from swap or zswap per second, summed over the machines that hold the data, by cell and round."""

    def __init__(self, arm: ArmRuns) -> None:
        self._arm = arm
        self._runs = -1
        self._rates: dict[tuple[float, float], dict[int, list[float | None]]] = {}

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        """Add a phase."""
        phase = document["phase"]
        self._runs += phase["index"] == 1
        if phase["kind"] == "iteration":
            rate = pressure.figures(pressure.of_carrying_machines(document))["page_ins"]
            self._rates.setdefault(_key(phase), {}).setdefault(self._runs, []).append(rate)

    def _by_round(self, cell: t.Mapping[str, t.Any]) -> dict[int, float]:
        """Return the mean of each run; nothing if a phase of one of them has no known rate."""
        means = {}
        for run, rates in self._rates.get(_key(cell), {}).items():
            known = [rate for rate in rates if rate is not None]
            if len(known) < len(rates):
                return {}
            means[run] = statistics.fmean(known)
        return self._arm.by_round(means)

    def rate(self, cell: t.Mapping[str, t.Any]) -> float | None:
        """Return the mean of a cell's runs; None if it is unknown."""
        rates = self._by_round(cell)
        return round(statistics.fmean(rates.values()), 1) if rates else None

    def ratio(self, baseline: _PageIns, cell: t.Mapping[str, t.Any]) -> dict[str, t.Any] | None:
        """Return the ratio to the baseline's rate, with its interval; None if one of the rates is zero or unknown."""
        mine, theirs = self._by_round(cell), baseline._by_round(cell)
        if not mine or not theirs or not all(mine.values()) or not all(theirs.values()):
            return None
        both = sorted(mine.keys() & theirs.keys())
        pairs = paired_ratio([mine[number] for number in both], [theirs[number] for number in both])
        value = pairs.value if pairs else statistics.fmean(mine.values()) / statistics.fmean(theirs.values())
        return {"value": round(value, 3), "interval": pairs and pairs.interval}


def _differences(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> list[str]:
    """Return all differences between two runs except the profile; they make the comparison one of more than
    profiles."""
    found = [
        line for line in configuration.differences(old["config"], new["config"]) if not line.startswith("profile:")
    ]
    if old["expected"] != new["expected"]:
        found.append(
            f"fleet: {len(old['expected'])} hosts -> {len(new['expected'])} hosts"
            if len(old["expected"]) != len(new["expected"])
            else "fleet: different hosts"
        )
    for name, of in _CIRCUMSTANCES:
        before, after = of(old), of(new)
        if before != after:
            found.append(f"{name}: {before or 'unknown'} -> {after or 'unknown'}")
    return found


def _of_hosts(*keys: str) -> t.Callable[[t.Mapping[str, t.Any]], str]:
    """Return a function that collects one value from the records of a run's hosts."""

    def values(run: t.Mapping[str, t.Any]) -> str:
        found = set()
        for record in run.get("hosts", {}).values():
            value: t.Any = record
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            found.add(str(value))
        return ", ".join(sorted(found))

    return values


def _redis(run: t.Mapping[str, t.Any]) -> str:
    return ", ".join(
        sorted({str(each["redis_version"]) for each in run.get("fleet", {}).values() if each.get("redis_version")})
    )


def _idle_processors(run: t.Mapping[str, t.Any]) -> str:
    known = {(record.get("cpu") or {}).get("idle", {}).get("awake") for record in run.get("hosts", {}).values()}
    return ", ".join(text for awake, text in ((True, "awake"), (False, "sleep")) if awake in known)


# Circumstances that no profile of this collection sets.
_CIRCUMSTANCES: tuple[tuple[str, t.Callable[[t.Mapping[str, t.Any]], str]], ...] = (
    ("kernel", _of_hosts("kernel", "release")),
    ("memory of the hosts", _of_hosts("memory", "total_bytes")),
    ("processors of the hosts", _of_hosts("cpu", "model")),
    ("processors online", _of_hosts("cpu", "online")),
    ("processors when idle", _idle_processors),
    ("hosts", lambda run: ", ".join(sorted(run.get("hosts", {})))),
    ("kernel command lines of the guests", guests.command_lines),
    ("Redis", _redis),
)


def _settings(documents: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the tuned settings that differ between runs, with the values that were read back from the kernel."""
    tables: list[dict[str, str]] = []
    for document in documents:
        table: dict[str, set[str]] = {}
        for record in document.get("hosts", {}).values():
            for name, value in _tuned(record.get("tuning") or {}):
                table.setdefault(name, set()).add(value)
        tables.append({name: ", ".join(sorted(values)) for name, values in table.items()})
    names = list(dict.fromkeys(name for table in tables for name in table))
    return [
        {"name": name, "values": [table.get(name, "") for table in tables]}
        for name in names
        if len({table.get(name, "") for table in tables}) > 1
    ]


def _tuned(tuning: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str]]:
    for setting in tuning.get("settings", []):
        if not setting["absent"]:
            yield setting["name"], str(setting["effective"])
    for argument in tuning.get("kernel_arguments", []):
        yield "kernel command line", argument
    for area in tuning.get("swap_areas", []):
        yield "swap", f"{area['source']}, priority {area['priority']}"
    if tuning.get("dram_budget"):
        budget = tuning["dram_budget"]
        yield "DRAM budget", f"{size_text(budget['size_bytes'])} by {budget['mechanism']}"
