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
    """

    name: str
    label: str
    x: str
    y: str
    series: t.Sequence[t.Mapping[str, t.Any]]
    log_x: bool = False


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
