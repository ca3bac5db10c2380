# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of all results: index.html in the results directory, the newest result first.

Each published result keeps its row in a small file, so that the index of a thousand results is read in a moment. The
index itself is always made from what the directory holds. Under a lock, the last writer sees all earlier results.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.locks import locked
from ansible_collections.memstretch.density.plugins.plugin_utils.report import html
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEMA,
    RunDirectory,
    RunError,
    open_regular,
    utc,
)

FILE = "index.html"
_ROW_FILE = "headline.json"
# Others may have written it, and all rows are read whenever a result is published.
_LONGEST_ROW = 2**20

# By kind, the file that only a result of this kind has.
_KINDS = {
    "density": "density.json",
    "search for better settings": "optimize.json",
    "study": "study.json",
    "comparison": "comparison.json",
    "look at headroom": "headroom.json",
    "run": "run.json",
}
_EXPERIMENTS = "experiment"
# Badges of results that have no verdict.
MEASURED, FASTER, NOTHING_FASTER, NO_ANSWER = "measured", "faster", "nothing faster", "no answer"
_UNFINISHED, _DAMAGED = "not finished", "damaged"
# The colour of a badge, as the class of its element; others have none.
COLOURS = {
    **{verdict: verdict for verdict in ("pass", "fail", "undecided", "invalid")},
    "safe": "pass",
    "near": "invalid",
    "over": "fail",
    "unknown": "undecided",
    FASTER: "pass",
    _UNFINISHED: "invalid",
    _DAMAGED: "fail",
    NO_ANSWER: "undecided",
}
# Results of these kinds have runs, whose names begin with theirs.
_WITH_RUNS = ("search for better settings", "study")
_PLURALS = {
    "density": "densities",
    "look at headroom": "looks at headroom",
    "study": "studies",
    "search for better settings": "searches for better settings",
}


@dataclasses.dataclass
class Row:
    """A result in the index.

    Attributes:
        name: of its directory.
        kind: what it is.
        page: its page, relative to its directory; None if there is none yet.
        at: when it was begun, as text such as 2026-01-31T12:00:00Z.
        headline: its answer.
        verdicts: pairs of a profile or host, which may be empty, and its verdict, or another answer of a word.
        runs: the rows of its own runs.
    """

    name: str
    kind: str
    page: str | None
    at: str
    headline: str
    verdicts: t.Sequence[t.Sequence[str]] = ()
    runs: list[Row] = dataclasses.field(default_factory=list)


def enter(
    directory: RunDirectory,
    page: str,
    at: float | str | None,
    headline: str,
    verdicts: t.Sequence[t.Sequence[str]] = (),
) -> bool:
    """Keep the row of a published result and write the index.

    Args:
        directory: of the result.
        page: its page, a file in this directory.
        at: when it was begun, in seconds since the epoch or as text; None if that is unknown.
        headline: its answer in a sentence.
        verdicts: pairs of a profile or host, which may be empty, and its verdict, or another answer of a word.

    Returns:
        Whether the row changed.
    """
    row = {
        "schema": SCHEMA,
        "page": page,
        "at": utc(at) if isinstance(at, (int, float)) else at or "",
        # What is written to a file has no character that a terminal might not print.
        "headline": headline.replace("\u00a0", " "),
        "verdicts": [list(each) for each in verdicts],
    }
    changed = directory.write_json(_ROW_FILE, row)
    write(directory.results_dir)
    return changed


def write(results_dir: str) -> None:
    """Write the index of a directory of results. A file of that name that is not an index is left alone.

    The directory may be a result itself, with those of its machines in it. Then its answer is the headline.
    """
    place = RunDirectory(*os.path.split(results_dir))
    with locked(f"the index of {os.path.realpath(results_dir)}"):
        if _may_write(place.file(FILE)):
            own = _row(place)
            place.write_text(FILE, page(rows(results_dir), own if own and own.page else None))


def _may_write(path: str) -> bool:
    if not os.path.lexists(path):
        return True
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    with open_regular(path, errors="replace") as stream:
        return html.GENERATOR in stream.read(4096)


def rows(results_dir: str) -> list[Row]:
    """Return the results in a directory, the newest first; runs of a study are below it."""
    found = {}
    with os.scandir(results_dir) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                row = _row(RunDirectory(results_dir, entry.name))
                if row:
                    found[entry.name] = row
    newest_first = sorted(found.values(), key=lambda row: (row.at, row.name), reverse=True)
    top: list[Row] = []
    for row in newest_first:
        parent = _parent(row, found)
        (parent.runs if parent else top).append(row)
    return top


def _row(directory: RunDirectory) -> Row | None:
    """Return the row of a directory; None if it holds no result."""
    name = directory.run_id
    kind = next((kind for kind, file in _KINDS.items() if os.path.exists(directory.file(file))), _EXPERIMENTS)
    if os.path.exists(directory.file(_ROW_FILE)):
        try:
            if os.path.getsize(directory.file(_ROW_FILE)) > _LONGEST_ROW:
                raise ValueError("it is too long for a row")
            row = directory.read_json(_ROW_FILE)
            verdicts = [[profile, verdict] for profile, verdict in row["verdicts"]]
            texts = [row["page"], row["at"], row["headline"], *itertools.chain(*verdicts)]
        except (RunError, KeyError, TypeError, ValueError):
            texts = [None]
        if not all(isinstance(text, str) for text in texts):
            told = f"{_ROW_FILE} is damaged; publish it again"
            return Row(name, kind, None, _changed_at(directory), told, [("", _DAMAGED)])
        return Row(name, kind, row["page"], row["at"], row["headline"], verdicts)
    if kind == _EXPERIMENTS:
        return None
    return Row(
        name, kind, None, _changed_at(directory), "It has not ended, or its end was not written", [("", _UNFINISHED)]
    )


def _changed_at(directory: RunDirectory) -> str:
    return utc(os.path.getmtime(directory.path))


def _parent(row: Row, found: t.Mapping[str, Row]) -> Row | None:
    """Return the study or search that a run belongs to."""
    parts = row.name.split("-")
    names = ("-".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
    return next((found[name] for name in names if name in found and found[name].kind in _WITH_RUNS), None)


def page(results: t.Sequence[Row], own: Row | None = None) -> str:
    """Return the page with all results; below the answer of the result that they are parts of, if there is one."""
    kinds = collections.Counter(row.kind for row in results)
    numbers = ", ".join(_number(count, kind) for kind, count in kinds.most_common())
    return html.render(
        "index.html.j2",
        {"kind": "index"},
        [],
        charts=False,
        headline=own.headline if own else f"All results: {numbers or 'none yet'}",
        own=own,
        rows=results,
        colours=COLOURS,
    )


def _number(count: int, kind: str) -> str:
    return f"{count} {_PLURALS[kind]}" if count > 1 and kind in _PLURALS else counted(count, kind)
