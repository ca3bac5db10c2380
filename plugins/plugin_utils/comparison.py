# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several runs side by side: what stretched memory costs, as ratios to the first run."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils import run_plan
from ansible_collections.memstretch.density.plugins.plugin_utils.run_directory import SCHEMA, RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.summary import summarise

FIGURES = ("avg_us", "p99_us", "max_us")


def compare(runs: t.Sequence[RunDirectory]) -> dict[str, t.Any]:
    """Return the comparison of runs with the first of them; docs/results.md explains it.

    Raises:
        RunError: fewer than two runs, a run twice, or a file that is missing or damaged.
    """
    if len(runs) < 2 or len({run.path for run in runs}) < len(runs):
        raise RunError(f"runs: {', '.join(run.run_id for run in runs) or 'none'}; a comparison takes two or more different runs")
    documents = [run.read_json("run.json") for run in runs]
    summaries = [summarise(run) for run in runs]
    page_ins = [_page_ins(run, document) for run, document in zip(runs, documents)]
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
            _row(cell, _cell_of(first, cell), summary, rates.get(_key(cell)))
            for cell_of_first in first["cells"]
            for summary, rates in zip(summaries, page_ins)
            for cell in summary["cells"] if _key(cell) == _key(cell_of_first)
        ],
    }


def _row(
    cell: t.Mapping[str, t.Any], baseline: t.Mapping[str, t.Any], summary: t.Mapping[str, t.Any], page_ins: float | None
) -> dict[str, t.Any]:
    figures = {name: cell["response"][name] for name in FIGURES}
    return {
        **{key: cell[key] for key in ("influence", "read_mix", "valid", "iterations", "hosts_within_slo", "worst_host")},
        "run_id": summary["run_id"],
        "profile": summary["profile"],
        "response": figures,
        "ratio": {name: _ratio(value, baseline["response"][name]) for name, value in figures.items()},
        "page_ins_per_second": page_ins,
    }


def _ratio(value: float | None, baseline: float | None) -> float | None:
    return None if value is None or not baseline else round(value / baseline, 3)


def _key(cell: t.Mapping[str, t.Any]) -> tuple[float, float]:
    return cell["influence"], cell["read_mix"]


def _cell_of(summary: t.Mapping[str, t.Any], cell: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    return next(each for each in summary["cells"] if _key(each) == _key(cell))


def _page_ins(run: RunDirectory, document: t.Mapping[str, t.Any]) -> dict[tuple[float, float], float]:
    """Return by cell how many pages per second came back from swap or zswap, on all machines together."""
    rates: dict[tuple[float, float], list[float]] = {}
    for phase in document["phases"]:
        measured = run.read_phase(phase) if phase["kind"] == "iteration" else None
        if measured is not None:
            counters = [pressure["counters"] for pressure in measured["pressure"].values()]
            rates.setdefault(_key(phase), []).append(
                sum((each.get("pswpin", 0) + each.get("zswpin", 0)) / each["clock_s"] for each in counters)
            )
    return {key: round(sum(each) / len(each), 1) for key, each in rates.items()}


def _differences(old: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any]) -> list[str]:
    """Return what differs between two runs beside the profile: such a comparison is of more than the profiles."""
    found = [line for line in run_plan.differences(old["config"], new["config"]) if not line.startswith("profile:")]
    if old["expected"] != new["expected"]:
        found.append(f"fleet: {len(old['expected'])} hosts -> {len(new['expected'])} hosts" if len(old["expected"]) != len(new["expected"])
                     else "fleet: other hosts")
    return found
