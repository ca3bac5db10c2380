# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a result in one sentence: the first thing on its page, and its row in the index of all results."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted, listed
from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import (
    FAIL,
    INVALID,
    PASS,
    UNDECIDED,
    slo_ratio,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.configuration import cell_title

_Document = t.Mapping[str, t.Any]
_FIGURES = {"avg_us": "average", "p99_us": "p99"}
# Below this share of a limit, the limit says nothing about the figure.
_FAR_BELOW = 0.01
# A list in a headline has at most this many names.
_NAMES = 3


def run(summary: _Document) -> str:
    """Return the verdict of a run with the figure that decides it, next to the SLO."""
    verdict, expected, failed = summary["verdict"], summary["fleet"]["expected"], summary["fleet"]["failed"]
    if verdict == INVALID:
        first = summary["reasons"][0] if summary["reasons"] else "nothing was measured"
        return f"This run cannot be judged: {_first_sentence(first)}"
    if verdict == FAIL and charged_dram.is_too_large(summary):
        return f"The fleet does not fit into its DRAM budget: {summary['reasons'][0].partition(': ')[2]}"
    if verdict == FAIL and failed:
        return f"The SLO is missed: {dead(summary['fleet'], _NAMES)}"
    cell = _deciding_cell(summary["cells"], summary["slo"])
    if cell is None:
        return "No host was measured"
    if verdict != PASS and cell["worst_host"]["answer"] == PASS:
        return _first_sentence(summary["reasons"][0])
    host, meet = cell["worst_host"], f"{cell['hosts_within_slo']} of {counted(expected, 'host')}"
    others = f"; {meet} meet it in this cell" if expected > 1 else ""
    if verdict == PASS:
        which = (
            f"All {expected:,} hosts meet the SLO: the worst, {host['name']},"
            if expected > 1
            else "The host meets the SLO: it"
        )
        return f"{which} has {_figure(host, 'upper', summary['slo'])}"
    if verdict == FAIL:
        return f"{host['name']} misses the SLO: it has {_figure(host, 'lower', summary['slo'])}{others}"
    if host["lost"]:
        return f"Undecided for {host['name']}: {counted(host['lost'], 'request')} got no reply{others}"
    return (
        f"Undecided for {host['name']}: with every delay it has {_figure(host, 'upper', summary['slo'])}, without "
        f"those of the client it may meet the SLO{others}"
    )


def dead(fleet: _Document, most: int) -> str:
    """Say which hosts of a fleet died under the load, at most so many by name, and whom the kernel killed."""
    died, killed = fleet["failed"], fleet["killed"]
    names = listed(died, most)
    if killed >= len(died):
        fit = "does not fit" if len(died) == 1 else "do not fit"
        return f"{counted(len(died), 'host')} {fit}: the kernel killed {names} for lack of memory"
    if killed:
        return f"{names} died under the load: the kernel killed {killed} of them for lack of memory"
    return f"{names} died under the load"


def _first_sentence(text: str) -> str:
    """Return a text up to the first semicolon or the end of its first sentence."""
    return text.partition("; ")[0].partition(". ")[0].rstrip(".")


def _deciding_cell(cells: t.Sequence[_Document], slo: _Document) -> _Document | None:
    """Return the cell whose worst host is the furthest from the SLO, of those that fail if any does."""
    return max(
        (cell for cell in cells if cell["worst_host"]),
        key=lambda cell: (
            (PASS, UNDECIDED, FAIL).index(cell["worst_host"]["answer"]),
            slo_ratio(cell["worst_host"]["lower" if cell["worst_host"]["answer"] == FAIL else "upper"], slo),
        ),
        default=None,
    )


def _figure(host: _Document, bound: str, slo: _Document) -> str:
    """Return the figure of a host that is the furthest from the SLO, next to what is allowed."""
    figure = max(_FIGURES, key=lambda name: host[bound][name] / slo[name])
    value, limit = host[bound][figure], slo[figure]
    least = "at least " if bound == "lower" else ""
    article = "an" if figure == "avg_us" else "a"
    found = f"{article} {_FIGURES[figure]} of {least}{_us(value)}"
    if value < _FAR_BELOW * limit:
        return f"{found}, far below what is allowed"
    share = f"{_times(value / limit)} times" if value > limit else f"{value / limit:.0%} of".replace("%", "\u00a0%")
    return f"{found}, {share} the {_us(limit)} allowed"


def _us(value: float) -> str:
    return f"{value:,.0f}\u00a0µs" if value >= 100 else f"{value:,.1f}\u00a0µs"


def _times(value: float) -> str:
    return f"{value:,.1f}" if value >= 2 else f"{value:.2f}"


def comparison(document: _Document) -> str:
    """Describe the arm that differs most from the baseline, and by how much."""
    baseline = next(run for run in document["runs"] if run["run_id"] == document["baseline"])
    if baseline["verdict"] == INVALID:
        return f"Nothing can be compared: the runs of {baseline['name']} are not valid"
    arms = [run for run in document["runs"] if run is not baseline]
    found = [(abs(math.log(row["ratio"]["p99_us"])), run, row) for run in arms if (row := _furthest(document, run))]
    if not found:
        return "No other arm has a valid measurement in a cell of the baseline"
    dummy, run_, row = max(found, key=lambda each: each[0])
    return _sentence(document, run_, row)


def arm(document: _Document, of: _Document) -> str:
    """Describe the difference between an arm and the baseline; empty for the baseline, and if it is unknown."""
    row = None if of["run_id"] == document["baseline"] else _furthest(document, of)
    return _sentence(document, of, row) if row else ""


def _furthest(document: _Document, of: _Document) -> _Document | None:
    """Return the cell of an arm whose p99 is the furthest from the baseline's, of those that differ if any does."""
    rows = [row for row in _rows(document, of["run_id"]) if row["ratio"]["p99_us"]]
    return max(rows, key=lambda row: (_differs(row), abs(math.log(row["ratio"]["p99_us"]))), default=None)


def _rows(document: _Document, run_id: str) -> list[_Document]:
    """Return the cells of an arm that are valid, and valid in the baseline too."""
    valid = [row for row in document["cells"] if row["valid"]]
    of_baseline = {cell_title(row) for row in valid if row["run_id"] == document["baseline"]}
    return [row for row in valid if row["run_id"] == run_id and cell_title(row) in of_baseline]


def _interval(row: _Document) -> t.Sequence[float] | None:
    return row["ratio_interval"] and row["ratio_interval"]["p99_us"]


def _differs(row: _Document) -> bool:
    interval = _interval(row)
    return interval is not None and not interval[0] <= 1 <= interval[1]


def _sentence(document: _Document, of: _Document, row: _Document) -> str:
    ratio, interval = row["ratio"]["p99_us"], _interval(row)
    baseline = next(run["name"] for run in document["runs"] if run["run_id"] == document["baseline"])
    cells = {cell_title(each) for each in document["cells"]}
    where = f" in the cell where they differ most ({cell_title(row)})" if len(cells) > 1 else f" in {cell_title(row)}"
    sure = "indicative" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"
    if interval is not None and not _differs(row):
        return f"{of['name']} and {baseline} do not differ significantly: a p99 of {ratio:.2f} times ({sure}){where}"
    word = "slower" if ratio > 1 else "faster" if ratio < 1 else "as fast"
    than = "as" if word == "as fast" else "than"
    return f"{of['name']} is {word} {than} {baseline}: {ratio:.2f} times its p99 ({sure}){where}"


def experiments(sections: t.Sequence[t.Any]) -> str:
    """Return the answer of the first experiment that has one."""
    answers = [each.answer or f"{each.title}: measured" for each in sections]
    return answers[0] if answers else "Nothing was measured"
