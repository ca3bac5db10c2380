# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An experiment as it is shown to people: its answer, sentences, tables whose cells are text, and line charts."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text below headings; the first column is the name of the row."""

    title: str
    headings: t.Sequence[str]
    rows: t.Sequence[t.Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Chart:
    """A line chart.

    Attributes:
        name: part of the id of its HTML element.
        label: a description for screen readers.
        x: the name of the x axis.
        y: the name of the y axis.
        series: the C(name) of each line and its C(points), pairs of numbers.
        log_x: the x axis is logarithmic.
        log_y: the y axis is logarithmic.
    """

    name: str
    label: str
    x: str
    y: str
    series: t.Sequence[t.Mapping[str, t.Any]]
    log_x: bool = False
    log_y: bool = False


@dataclasses.dataclass(frozen=True)
class Section:
    """One experiment as it is shown to people.

    Attributes:
        name: of the experiment.
        title: the heading.
        sentences: the conclusions.
        doubts: what makes the figures doubtful.
        tables: the figures.
        charts: on the page only.
        answer: the answer to the experiment's question, in one sentence; empty if there is none.
    """

    name: str
    title: str
    sentences: t.Sequence[str]
    doubts: t.Sequence[str]
    tables: t.Sequence[Table]
    charts: t.Sequence[Chart]
    answer: str = ""


def hosts(document: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, dict[str, t.Any], str]]:
    """Yield each host, its result, and a prefix for texts about it, which is empty if it is the only host."""
    for host, result in document["hosts"].items():
        yield host, result, f"{host}: " if len(document["hosts"]) > 1 else ""


def median(figures: t.Mapping[str, float] | None, unit: float = 1, digits: int = 2) -> str:
    """Return the median with the range of the repetitions as text."""
    if figures is None:
        return "-"
    middle, low, high = (f"{figures[name] / unit:,.{digits}f}" for name in ("median", "min", "max"))
    return middle if low == high else f"{middle}, range {low} to {high}"


def origin(result: t.Mapping[str, t.Any], programs: str) -> list[str]:
    """Return a sentence with the place and time of a measurement.

    Args:
        result: with C(origin), as host.cpu_time.Origin returned it.
        programs: those that measured, and were measured, with their versions.
    """
    found = result["origin"]
    where = ", ".join(filter(None, (found["cpu_model"], found["kernel"] and f"Linux {found['kernel']}", programs)))
    stolen = "an unknown share" if found["stolen"] is None else f"{100 * found['stolen']:.2g} %"
    took = f" in {_duration(found['seconds'])}" if "seconds" in found else ""
    return [f"Measured on {found['date']}{took}: {where}; {stolen} of the CPU time was stolen."]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def ratio(value: float | None) -> str:
    """Return a ratio with two digits as text."""
    return "-" if value is None else f"{value:.2f}"


def series(lines: t.Mapping[str, t.Sequence[t.Sequence[float | None]]]) -> list[dict[str, t.Any]]:
    """Return named lines as a chart takes them."""
    return [{"name": name, "points": points} for name, points in lines.items()]
