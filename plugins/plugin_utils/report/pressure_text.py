# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory pressure of each machine as rows of text, for the terminal and the pages."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import grid
from ansible_collections.memstretch.density.plugins.plugin_utils.run.configuration import cell_title

TITLE = "Memory pressure, mean over the iterations"

# Heading, name of the figure, number of decimals. A latency is "-" if no disk was used.
_COLUMNS = (
    ("page-ins/s", "page_ins", 0),
    ("page-outs/s", "page_outs", 0),
    ("major faults/s", "major_faults", 0),
    ("memory stall %", "psi_memory", 2),
    ("I/O stall %", "psi_io", 2),
    ("read ms", "read_ms", 2),
    ("write ms", "write_ms", 2),
    ("swap used MB", "swap_used_mb", 0),
    ("compressed MB", "compressed_mb", 0),
    ("their pool MB", "pool_mb", 0),
    ("available MB", "available_mb", 0),
)
# These do not exist on many machines, and are only unknown where everything is.
_NOT_EVERYWHERE = ("read_ms", "write_ms", "compressed_mb", "pool_mb")


def headings() -> list[str]:
    """Return the headings of the figures."""
    return [heading for heading, _name, _decimals in _COLUMNS]


def rows(cells: t.Iterable[t.Mapping[str, t.Any]]) -> list[tuple[str, ...]]:
    """Return the cell, run, machine and figures of each row.

    Args:
        cells: of summary.json or comparison.json, with C(pressure).
    """
    return [
        (cell_title(cell), str(cell.get("name", "")), machine, *(_text(figures, *each) for each in _COLUMNS))
        for cell in cells
        for machine, figures in cell.get("pressure", {}).items()
    ]


def lines(cells: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the table for the terminal; nothing without cells."""
    found = rows(cells)
    if not found:
        return []
    names = ["cell", *(["profile"] if any(row[1] for row in found) else [])]
    table = [(row[0], *([row[1]] if len(names) > 1 else []), *row[2:]) for row in found]
    columns = [(name, _column(place)) for place, name in enumerate([*names, "machine", *headings()])]
    return ["", f"{TITLE}:", *grid(columns, table)]


def _column(place: int) -> t.Callable[[tuple[str, ...]], str]:
    return lambda row: row[place]


def _text(figures: t.Mapping[str, float | None], heading: str, name: str, decimals: int) -> str:
    value = figures.get(name)
    if value is not None:
        return f"{value:,.{decimals}f}"
    alive = any(each is not None for each in figures.values())
    return "-" if alive and name in _NOT_EVERYWHERE else "unknown"
