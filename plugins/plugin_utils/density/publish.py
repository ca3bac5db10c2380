# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish a density: its page, its exports, its row in the index, and its sentences on the terminal."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density import exports, page, sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.priced import priced
from ansible_collections.memstretch.density.plugins.plugin_utils.report import cost_text, index
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

PAGE = "density.html"


_Prices = t.Optional[t.Mapping[str, t.Any]]


def write(directory: RunDirectory, document: dict[str, t.Any], paid: _Prices = None) -> None:
    """Write density.json, its page and its exports, and enter it into the index; also while ramps are left.

    Args:
        paid: from cost.prices().
    """
    document["cost"] = priced(document, paid)
    document["labels"] = site_check.labels(document.get("site_checks", []))
    document["measured_at"] = time.time()
    directory.write_json("density.json", document)
    directory.write_text("density.txt", "\n".join(lines(document)) + "\n")
    directory.write_text(PAGE, page.page(document))
    directory.write_text("density.csv", exports.windows_csv(document))
    directory.write_text("density.prom", exports.open_metrics(document, document["measured_at"]))
    index.enter(directory, PAGE, document["created_at"], sentence.sentence(document), badges(document["arms"]))


def badges(arms: t.Iterable[t.Mapping[str, t.Any]]) -> list[tuple[str, str]]:
    """Return the densities of arms, or what machines carry together under them, for the index of all results."""
    return [(arm["name"], _badge(arm)) for arm in arms if arm["density"] is not None] or [("", index.NO_ANSWER)]


def _badge(arm: t.Mapping[str, t.Any]) -> str:
    # A sum of several machines may be both.
    bound = {(True, False): "≥ ", (False, True): "≤ ", (True, True): "≈ "}
    return f"{bound.get((bool(arm['at_least']), bool(arm['at_most'])), '')}{arm['density']}"


def publish(
    directory: RunDirectory, document: dict[str, t.Any], say: t.Callable[[str], None], paid: _Prices = None
) -> None:
    """Write everything, and show the answer."""
    write(directory, document, paid)
    say("")
    for line in lines(document):
        say(line)
    say(f"Density: {directory.file(PAGE)}")


def lines(document: t.Mapping[str, t.Any]) -> list[str]:
    """Return the answer as text: the sentences of each profile, the best first, and the notes and the cost."""
    said = [(sentence.sentence(document), sentence.details(document)), *sentence.others(document)]
    return [
        *(line for answer, details in said for line in (answer, f"  {details}") if line.strip()),
        *(f"  note: {note}" for note in sentence.notes(document)),
        *cost_text.lines(document.get("cost")),
    ]
