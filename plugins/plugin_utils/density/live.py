# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a density shows while it is measured: one line for each window, how a ramp ended, and what is known so far."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import FIGURES
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import (
    RELATIVE,
    Objective,
    excess,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Figures, Window

_Document = t.Mapping[str, t.Any]

# The parent of a playbook shows lines that begin so.
MARK = "| "
HEADER = (
    f"{MARK}{'hosts':>5}  {'DRAM, MiB':>9}  {'page-ins/s':>10}  {'average / p99, us':>17}  {'references, us':>14}  "
    "of the objective"
)
_ENDS = {
    "killed": "{n} do not fit: {message}",
    "does_not_fit": "{n} do not fit: {message}",
    "missed": "{n} are too many: {message}",
    "hosts": "at least {n} fit: {message}",
    "interrupted": "interrupted after {n}: {message}",
    "error": "failed after {n}: {message}",
}


def marked(text: str, machine: str = "") -> str:
    """Return a line for the parent, with the name of its machine if there are several."""
    return f"{MARK}{machine}: {text.removeprefix(MARK)}" if machine else f"{MARK}{text.removeprefix(MARK)}"


def line(window: Window, aim: Objective) -> str:
    """Return a window: its size, charged DRAM, page-ins, average and p99, and what share of the objective they are.

    Before the first ramp in DRAM has ended, a relative objective has no plateau, and the figures are shown alone.
    """
    charged, page_ins = window.sum("charged_bytes"), window.sum("page_ins")
    columns = [
        f"{window.size:>5}",
        f"{'-' if charged is None else format(charged / 2**20, ',.0f'):>9}",
        f"{'-' if page_ins is None else format(page_ins / window.document['seconds'], ',.0f'):>10}",
        f"{_figures(window.fleet):>17}",
        f"{_figures(window.references):>14}",
        _shares(window, aim),
    ]
    notes = [] if window.document["settled"] else ["not settled"]
    notes += [f"disturbed: {window.disturbed}"] if window.disturbed else []
    return f"{MARK}{'  '.join(columns).rstrip()}" + (f"  ({'; '.join(notes)})" if notes else "")


def _figures(found: t.Mapping[str, Figures]) -> str:
    """Return average and p99, of the bound that ratios are made of."""
    best = found.get("punctual") or found.get("upper")
    return f"{best.avg_us:,.0f} / {best.p99_us:,.0f}" if best else "-"


def _shares(window: Window, aim: Objective) -> str:
    """Return average and p99 as shares of the objective; that of the fleet or of the references, whichever is worse."""
    if not window.fleet or (aim.kind == RELATIVE and window.idle is None):
        return ""
    of = excess(window, aim, "upper").of
    worst = [max(value for (_whose, name), value in of.items() if name == figure) for figure in FIGURES]
    return " / ".join(f"{100 * math.exp(each):,.0f}" for each in worst) + " %"


def end_line(end: _Document) -> str:
    """Return how a ramp ended."""
    return MARK + _ENDS[end["kind"]].format(n=end["n"], message=end["message"])


def known(answer: _Document) -> str:
    """Return in one line what the ramps so far say: the densities in each round, and the ratio of the best arm."""
    if not answer["arms"]:
        return f"So far: {answer['no_plateau']}" if answer["no_plateau"] else "So far: nothing is known"
    arms = [arm for arm in answer["arms"] if arm["density"] is not None]
    if not arms:
        return f"So far: no density, since {sentence.no_clean_window(answer['arms'])}"
    texts = []
    for arm in arms:
        times = sentence.ratio(arm)
        texts.append(f"{sentence.name(arm)} {_rounds(arm)}{f', {times}' if times else ''}")
    return f"So far: {'; '.join(texts)}"


def _rounds(arm: _Document) -> str:
    """Return the density of each round, such as C(54 and 52)."""
    found = [str(ramp["density"]) for ramp in arm["rounds"] if ramp["density"] is not None]
    least = "at least " if arm["at_least"] else "fewer than " if arm["at_most"] else ""
    return least + ", ".join(found)
