# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare runs: their figures as multiples of the first one's, and what else differs between them."""

from __future__ import annotations

import json
import os
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report import cost_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.comparison_page import comparison_page
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import UPPER
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import CellDetails
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import FIGURES, paired_ratio
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA, RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate_together
from ansible_collections.memstretch.density.plugins.plugin_utils.study import attempts


class ArmRuns(t.NamedTuple):
    """The runs of one arm: one run, or several of one configuration that are evaluated together.

    Attributes:
        name: of the arm; None to use the profile's name.
        runs: directories of the runs.
    """

    name: str | None
    runs: t.Sequence[RunDirectory]


def publish(
    directory: RunDirectory,
    arms: t.Sequence[ArmRuns],
    say: t.Callable[[str], None],
    prices: t.Mapping[str, t.Any] | None = None,
    write: bool = True,
    ledger: t.Mapping[str, t.Any] | None = None,
) -> tuple[dict[str, t.Any], bool]:
    """Compare arms with the first one; show the result and write comparison.json, .txt and .html.

    Args:
        directory: for the files.
        arms: the arms to compare.
        say: receives lines for the terminal.
        prices: from cost.prices().
        write: whether to write files.
        ledger: the attempts at the runs, from attempts.summary().

    Returns:
        The comparison, and whether a file changed.

    Raises:
        RunError: see compare().
    """
    document, details = compare(arms, prices)
    document["attempts"] = ledger
    lines = report_text.comparison(document) + (attempts.lines(ledger) if ledger else [])
    lines += cost_text.lines(document["cost"])
    page = comparison_page(document, details)
    changed = False
    if write:
        os.makedirs(directory.path, exist_ok=True)
        changed = directory.write_text("comparison.json", json.dumps(document, indent=1) + "\n")
        changed |= directory.write_text("comparison.html", page)
        changed |= directory.write_text("comparison.txt", "\n".join(lines).strip() + "\n")
    for line in lines:
        say(line)
    return document, changed


def compare(
    arms: t.Sequence[ArmRuns], prices: t.Mapping[str, t.Any] | None = None
) -> tuple[dict[str, t.Any], list[dict[str, CellDetails]]]:
    """Return the comparison of arms with the first one (docs/results.md), and the data of each arm's charts.

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
    page_ins = [_PageIns() for _arm in arms]
    writes = [cost.SwapWrites(document) for document in documents]
    evaluated = [
        evaluate_together(arm.runs, also=_each(paging.add, written.add))
        for arm, paging, written in zip(arms, page_ins, writes)
    ]
    summaries = [summary for summary, _details in evaluated]
    first = summaries[0]
    return {
        "schema": SCHEMA,
        "baseline": first["run_id"],
        "slo": first["slo"],
        "runs": [
            {
                **{key: summary[key] for key in ("run_id", "profile", "labels", "verdict", "config_hash")},
                "name": arm.name or summary["profile"],
                "parts": [run.run_id for run in arm.runs],
                "fleet": summary["fleet"]["expected"],
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
                    arm.name or summary["profile"], document, summary["verdict"], summary["fleet"]["expected"], written
                )
                for arm, summary, document, written in zip(arms, summaries, documents, writes)
            ],
            arms[0].name or first["profile"],
        ),
        "cells": [
            {
                **_row(cell, summary, arms[number].name, paging.rate(cell)),
                **_ratios(cell, cell_of_first, details, evaluated[0][1], number == 0),
                "page_ins_ratio": None if number == 0 else paging.ratio(page_ins[0], cell),
            }
            for cell_of_first in first["cells"]
            for number, ((summary, details), paging) in enumerate(zip(evaluated, page_ins))
            for cell in summary["cells"]
            if _key(cell) == _key(cell_of_first)
        ],
    }, [details for _summary, details in evaluated]


def _each(*takers: t.Callable[[dict[str, t.Any]], None]) -> t.Callable[[dict[str, t.Any]], None]:
    """Return a function that passes a phase to all takers."""

    def take(document: dict[str, t.Any]) -> None:
        for taker in takers:
            taker(document)

    return take


def _row(
    cell: t.Mapping[str, t.Any], summary: t.Mapping[str, t.Any], name: str | None, page_ins: float | None
) -> dict[str, t.Any]:
    return {
        **{
            key: cell[key] for key in ("influence", "read_mix", "valid", "iterations", "hosts_within_slo", "worst_host")
        },
        "run_id": summary["run_id"],
        "profile": summary["profile"],
        "name": name or summary["profile"],
        "verdict": cell["verdict"],
        UPPER: {name: cell[UPPER][name] for name in FIGURES},
        "page_ins_per_second": page_ins,
    }


def _ratios(
    cell: t.Mapping[str, t.Any],
    of_baseline: t.Mapping[str, t.Any],
    details: t.Mapping[str, CellDetails],
    baseline: t.Mapping[str, CellDetails],
    is_baseline: bool,
) -> dict[str, t.Any]:
    """Return the ratios of a cell to the baseline's, their intervals, and whether there are too few runs for these.

    With several runs of both arms, a ratio is the geometric mean of those of the rounds. Otherwise it is the ratio of
    the figures that are shown.
    """
    name = configuration.cell_name(cell)
    mine, other = details[name].runs, baseline[name].runs
    ratios, intervals = {}, {}
    for figure in FIGURES:
        pairs = _paired(mine, other, figure) if len(mine) > 1 else None
        ratio = pairs[0] if pairs else _quotient(cell[UPPER][figure], of_baseline[UPPER][figure])
        ratios[figure] = None if ratio is None else round(ratio, 3)
        intervals[figure] = pairs and pairs[1]
    known = all(intervals.values())
    return {
        "runs": len(mine),
        "indicative": not is_baseline and not known,
        "ratio": ratios,
        "ratio_interval": intervals if known and not is_baseline else None,
    }


def _paired(
    mine: t.Sequence[t.Mapping[str, float]], other: t.Sequence[t.Mapping[str, float]], figure: str
) -> tuple[float, list[float] | None] | None:
    values, others = [run[figure] for run in mine], [run[figure] for run in other]
    return paired_ratio(values, others) if all(values) and all(others) else None


def _quotient(value: float | None, baseline: float | None) -> float | None:
    return None if value is None or not baseline else value / baseline


def _key(cell: t.Mapping[str, t.Any]) -> tuple[float, float]:
    return cell["influence"], cell["read_mix"]


class _PageIns:
    """Pages read back from swap or zswap per second, summed over all machines, by cell and run."""

    def __init__(self) -> None:
        self._runs = 0
        self._rates: dict[tuple[float, float], dict[int, list[float]]] = {}

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        """Add a phase."""
        phase = document["phase"]
        self._runs += phase["index"] == 1
        if phase["kind"] == "iteration":
            counters = [pressure["counters"] for pressure in document["pressure"].values()]
            self._rates.setdefault(_key(phase), {}).setdefault(self._runs, []).append(
                sum((each.get("pswpin", 0) + each.get("zswpin", 0)) / each["clock_s"] for each in counters)
            )

    def _by_run(self, cell: t.Mapping[str, t.Any]) -> list[float]:
        return [statistics.fmean(rates) for _run, rates in sorted(self._rates.get(_key(cell), {}).items())]

    def rate(self, cell: t.Mapping[str, t.Any]) -> float | None:
        """Return the mean of a cell's runs."""
        rates = self._by_run(cell)
        return round(statistics.fmean(rates), 1) if rates else None

    def ratio(self, baseline: _PageIns, cell: t.Mapping[str, t.Any]) -> dict[str, t.Any] | None:
        """Return the ratio to the baseline's rate, with its interval; None if one of the rates is zero or unknown."""
        mine, theirs = self._by_run(cell), baseline._by_run(cell)
        if not mine or not theirs or not all(mine) or not all(theirs):
            return None
        pairs = paired_ratio(mine, theirs)
        value = pairs[0] if pairs else statistics.fmean(mine) / statistics.fmean(theirs)
        return {"value": round(value, 3), "interval": pairs and pairs[1]}


def _differences(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> list[str]:
    """Return all differences between two runs besides the profile; they make the comparison one of more than
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


# Circumstances that no profile sets.
_CIRCUMSTANCES: tuple[tuple[str, t.Callable[[t.Mapping[str, t.Any]], str]], ...] = (
    ("kernel", _of_hosts("kernel", "release")),
    ("memory of the hosts", _of_hosts("memory", "total_bytes")),
    ("processors of the hosts", _of_hosts("cpu", "model")),
    ("processors online", _of_hosts("cpu", "online")),
    ("hosts", lambda run: ", ".join(sorted(run.get("hosts", {})))),
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
