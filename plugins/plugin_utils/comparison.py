# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several runs side by side: what stretched memory costs, as ratios to the first run."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils import run_plan
from ansible_collections.memstretch.density.plugins.plugin_utils.run_directory import SCHEMA, RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.summary import CellDetails, evaluate

FIGURES = ("avg_us", "p99_us", "max_us")


def compare(runs: t.Sequence[RunDirectory]) -> tuple[dict[str, t.Any], list[dict[str, CellDetails]]]:
    """Return the comparison of runs with the first of them, which docs/results.md explains, and for each run what its charts take.

    Raises:
        RunError: fewer than two runs, a run twice, or a file that is missing or damaged.
    """
    if len(runs) < 2 or len({run.path for run in runs}) < len(runs):
        raise RunError(f"runs: {', '.join(run.run_id for run in runs) or 'none'}; a comparison takes two or more different runs")
    documents = [run.read_json("run.json") for run in runs]
    page_ins = [_PageIns() for dummy in runs]
    evaluated = [evaluate(run, also=paging.add) for run, paging in zip(runs, page_ins)]
    summaries = [summary for summary, dummy in evaluated]
    first = summaries[0]
    return {
        "schema": SCHEMA,
        "baseline": first["run_id"],
        "slo": first["slo"],
        "runs": [
            {**{key: summary[key] for key in ("run_id", "profile", "labels", "verdict", "config_hash")}, "fleet": summary["fleet"]["expected"]}
            for summary in summaries
        ],
        "differences": {
            summary["run_id"]: _differences(documents[0], document) for summary, document in zip(summaries[1:], documents[1:])
        },
        "cells": [
            {
                **_row(cell, cell_of_first, summary, rates.get(_key(cell))),
                "ratio_interval": None if number == 0 else _ratio_interval(
                    cell, cell_of_first, details, evaluated[0][1], documents[number]["expected"] == documents[0]["expected"]
                ),
            }
            for cell_of_first in first["cells"]
            for number, ((summary, details), rates) in enumerate(zip(evaluated, [paging.rates() for paging in page_ins]))
            for cell in summary["cells"] if _key(cell) == _key(cell_of_first)
        ],
    }, [details for dummy, details in evaluated]


def _row(
    cell: t.Mapping[str, t.Any], baseline: t.Mapping[str, t.Any], summary: t.Mapping[str, t.Any], page_ins: float | None
) -> dict[str, t.Any]:
    figures = {name: cell["response"][name] for name in FIGURES}
    return {
        **{key: cell[key] for key in ("influence", "read_mix", "valid", "iterations", "indicative", "hosts_within_slo", "worst_host")},
        "run_id": summary["run_id"],
        "profile": summary["profile"],
        "response": figures,
        "ratio": {name: _ratio(value, baseline["response"][name]) for name, value in figures.items()},
        "page_ins_per_second": page_ins,
    }


def _ratio(value: float | None, baseline: float | None) -> float | None:
    return None if value is None or not baseline else round(value / baseline, 3)


def _ratio_interval(
    cell: t.Mapping[str, t.Any], of_baseline: t.Mapping[str, t.Any], details: t.Mapping[str, CellDetails],
    baseline: t.Mapping[str, CellDetails], same_hosts: bool,
) -> dict[str, list[float]] | None:
    """Return the intervals of the ratios; None if one of the runs has too few iterations to tell."""
    name = run_plan.cell_name(cell)
    mine, other = details[name].spread, baseline[name].spread
    if mine is None or other is None:
        return None
    return mine.ratios(other, {name: cell["response"][name] / of_baseline["response"][name] for name in FIGURES}, same_hosts)


def _key(cell: t.Mapping[str, t.Any]) -> tuple[float, float]:
    return cell["influence"], cell["read_mix"]


class _PageIns:
    """How many pages per second came back from swap or zswap, on all machines together."""

    def __init__(self) -> None:
        self._rates: dict[tuple[float, float], list[float]] = {}

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        if document["phase"]["kind"] == "iteration":
            counters = [pressure["counters"] for pressure in document["pressure"].values()]
            self._rates.setdefault(_key(document["phase"]), []).append(
                sum((each.get("pswpin", 0) + each.get("zswpin", 0)) / each["clock_s"] for each in counters)
            )

    def rates(self) -> dict[tuple[float, float], float]:
        """Return the mean of the iterations of each cell."""
        return {key: round(sum(each) / len(each), 1) for key, each in self._rates.items()}


def _differences(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> list[str]:
    """Return what differs between two runs beside the profile: such a comparison is of more than the profiles."""
    found = [line for line in run_plan.differences(old["config"], new["config"]) if not line.startswith("profile:")]
    if old["expected"] != new["expected"]:
        found.append(f"fleet: {len(old['expected'])} hosts -> {len(new['expected'])} hosts" if len(old["expected"]) != len(new["expected"])
                     else "fleet: other hosts")
    return found
