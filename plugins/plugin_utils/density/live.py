# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line for each step of a ramp, while it runs."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import FIGURES, FLEET, REFERENCES
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import (
    RELATIVE,
    Objective,
    excess,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Figures, Window

_NAMES = {"avg_us": "average", "p99_us": "p99"}


def line(window: Window, aim: Objective, idle: Figures | None) -> str:
    """Return a step: its size, charged DRAM, page-ins, and average and p99 as shares of the objective.

    Before the first ramp in DRAM has ended, a relative objective has no plateau, and the figures are shown alone.
    """
    parts = [f"{window.size:>4} hosts"]
    charged, page_ins = window.sum("charged_bytes"), window.sum("page_ins")
    if charged is not None:
        parts.append(f"{size_text(charged)} charged")
    if page_ins is not None:
        parts.append(f"{page_ins / window.document['seconds']:,.0f} page-ins/s")
    parts += [_figure(window, name, aim, idle) for name in FIGURES]
    if not window.document["settled"]:
        parts.append("not settled")
    if window.disturbed:
        parts.append(f"disturbed: {window.disturbed}")
    return ", ".join(parts)


def _figure(window: Window, name: str, aim: Objective, idle: Figures | None) -> str:
    text = f"{_NAMES[name]} {getattr(window.fleet['upper'], name):,.0f} us"
    beside = window.references.get("upper")
    if beside:
        text += f" (references {getattr(beside, name):,.0f})"
    if aim.kind == RELATIVE and idle is None:
        return text
    of = excess(window, aim, idle, "upper").of
    worst = max(value for (whose, figure), value in of.items() if figure == name and whose in (FLEET, REFERENCES))
    return f"{text}: {math.exp(worst):.0%} of the objective".replace("%", " %", 1)


def known(name: str, sizes: t.Sequence[int], at_least: bool) -> str:
    """Return what is known of an arm after some of its rounds, such as C(zram so far 54, 52)."""
    return f"{name} so far {'at least ' if at_least else ''}{', '.join(str(size) for size in sizes)}"
