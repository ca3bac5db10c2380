# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a comparison of runs."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import headline, html, pressure_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.charts import curve
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import aa_sentence, noise_sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import UPPER
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import CellDetails
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import PAIRS_FOR_AN_INTERVAL
from ansible_collections.memstretch.density.plugins.plugin_utils.run.configuration import cell_name, cell_title

_SECTIONS = (
    ("ratios", "Ratios"),
    ("figures", "Figures"),
    ("certainty", "Certainty"),
    ("percentiles", "Percentiles"),
    ("runs", "Runs"),
    ("settings", "Settings"),
)
# Pixels of the chart of ratios without its rows, and of each row.
_HEIGHT, _ROW_HEIGHT = 170, 24
_FIGURES = {"avg_us": "average", "p99_us": "p99", "max_us": "maximum"}


def comparison_page(document: t.Mapping[str, t.Any], curves: t.Sequence[t.Mapping[str, CellDetails]]) -> str:
    """Return the page of a comparison.

    Args:
        document: comparison.json.
        curves: the details of each of its runs, as evaluate() returned them.
    """
    names = _chart_names(document["runs"])
    by_cell: dict[str, list[dict[str, t.Any]]] = {}
    for row in document["cells"]:
        by_cell.setdefault(cell_title(row), []).append(row)
    others = [run for run in document["runs"] if run["run_id"] != document["baseline"]]
    data = {
        "kind": "comparison",
        "slo": document["slo"],
        "baseline": names[document["baseline"]],
        "profiles": [{"name": names[run["run_id"]]} for run in others],
        "ratios": [_bars(title, rows, figure, others) for title, rows in by_cell.items() for figure in _FIGURES],
        "cells": [
            {"curves": _percentile_curves(cell_name(rows[0]), names, document["runs"], curves)}
            for rows in by_cell.values()
        ],
    }
    return html.render(
        "comparison.html.j2",
        data,
        html.with_cost(_SECTIONS, document.get("cost"), "runs"),
        comparison=document,
        names=names,
        by_cell=by_cell,
        pressure_headings=pressure_text.headings(),
        pressure_rows=pressure_text.rows(document["cells"]),
        site_lines=site_check.lines(document["site_checks"]),
        headline=headline.comparison(document),
        sentences={run["run_id"]: headline.arm(document, run) for run in document["runs"]},
        ranges=_ranges(document, names),
        chart_height=_ratios_height(len(by_cell), len(others)),
        pairs_for_an_interval=PAIRS_FOR_AN_INTERVAL,
        survivors=_survivors(document, names),
        aa_sentences=[aa_sentence(test) for test in document["aa_tests"]],
        noise_sentence=document["noise"] and noise_sentence(document["noise"]),
    )


def _ratios_height(cells: int, profiles: int) -> int:
    """Return the height of the chart of ratios: a heading and its profiles for each cell, and for all cells if there
    are several."""
    groups = cells + 1 if cells > 1 else cells
    return _HEIGHT + _ROW_HEIGHT * groups * (1 + profiles)


def _survivors(document: t.Mapping[str, t.Any], names: t.Mapping[str, str]) -> list[str] | None:
    """Return the ratios that are significant after Holm's correction; None if there is no ratio to correct."""
    rows = [row for row in document["cells"] if row["significant"]["avg_us"] is not None]
    found = [
        f"{names[row['run_id']]}, {cell_title(row)}: {name} {row['ratio'][figure]:.2f}×"
        for row in rows
        for figure, name in _FIGURES.items()
        if row["significant"][figure]
    ]
    return found if rows else None


def _chart_names(runs: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Return the name of each run in charts: its name, with its run_id if several runs have the same name."""
    names = [run["name"] for run in runs]
    return {
        run["run_id"]: run["name"] if names.count(run["name"]) == 1 else f"{run['name']} ({run['run_id']})"
        for run in runs
    }


def _percentile_curves(
    cell: str,
    names: t.Mapping[str, str],
    runs: t.Sequence[t.Mapping[str, t.Any]],
    curves: t.Sequence[t.Mapping[str, CellDetails]],
) -> list[dict[str, t.Any]]:
    """Return the percentile curve of each run in a cell."""
    return [
        {"name": names[run["run_id"]], "points": curve(details[cell].merged[UPPER])}
        for run, details in zip(runs, curves)
        if cell in details
    ]


def _bars(
    title: str, rows: t.Sequence[t.Mapping[str, t.Any]], figure: str, others: t.Sequence[t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return the bars of one figure in one cell: the ratio of each run except the baseline."""
    by_run = {row["run_id"]: row for row in rows}
    found = [by_run.get(run["run_id"]) for run in others]
    return {
        "title": title,
        "figure": figure,
        "values": [row and row["ratio"][figure] for row in found],
        "intervals": [row and (row.get("ratio_interval") or {}).get(figure) for row in found],
    }


def _ranges(document: t.Mapping[str, t.Any], names: t.Mapping[str, str]) -> list[str]:
    """Return a sentence for each run: its lowest and its highest ratio of all cells."""
    sentences = []
    for run in document["runs"]:
        rows = [row for row in document["cells"] if row["run_id"] == run["run_id"]]
        if run["run_id"] == document["baseline"] or len(rows) < 2:
            continue
        ranges = []
        for figure, name in _FIGURES.items():
            values = [row["ratio"][figure] for row in rows if row["ratio"][figure] is not None]
            if values:
                ranges.append(f"{name} lowest {min(values):.2f}×, highest {max(values):.2f}×")
        sentences.append(f"{names[run['run_id']]} over its {len(rows)} cells: {'; '.join(ranges)}.")
    return sentences
