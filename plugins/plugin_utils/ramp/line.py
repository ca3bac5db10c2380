# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ramp shows while it goes on: one line a window, and how it ended."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram, decode

# The parent of a playbook shows lines that begin so.
MARK = "| "
HEADER = f"{MARK}{'N':>4}  charged DRAM  page-ins/s  {'fleet, us':>16}  {'references, us':>16}  ratio"
BOUND = "punctual"


def merged(loads: t.Mapping[str, t.Mapping[str, t.Any]], bound: str = BOUND) -> Histogram:
    """Return the sum of the histograms of several servers."""
    total = Histogram()
    for load in loads.values():
        reported = load[bound]
        if reported["count"]:
            each = Histogram()
            each.counts = decode(reported["histogram"])
            each.sum_ns, each.min_ns, each.max_ns = (reported[name] for name in ("sum_ns", "min_ns", "max_ns"))
            total.merge(each)
    return total


def window_line(window: t.Mapping[str, t.Any]) -> str:
    """Return a window as a line: average and p99 of the fleet and of the references, and their ratio."""
    fleet, references = (_figures(merged(window[name])) for name in ("hosts", "references"))
    samples = list(window["machines"].values())
    charged = [sample["charged_bytes"] for sample in samples]
    page_ins = [sample["page_ins"] for sample in samples]
    words = [
        f"{window['n']:4d}",
        "           -" if None in charged else f"{sum(charged) / 2**20:8.0f} MiB",
        f"{'-' if None in page_ins else format(sum(page_ins) / window['seconds'], ',.0f'):>10}",
        f"{_pair(fleet):>16}",
        f"{_pair(references):>16}",
        _ratio(fleet, references),
    ]
    notes = [] if window["settled"] else ["not settled"]
    notes += [f"disturbed: {window['disturbed']}"] if window["disturbed"] else []
    return MARK + "  ".join(words) + (f"  ({'; '.join(notes)})" if notes else "")


def end_line(end: t.Mapping[str, t.Any]) -> str:
    """Return how a ramp ended."""
    texts = {
        "killed": "{n} do not fit: {message}",
        "does_not_fit": "{n} do not fit: {message}",
        "missed": "{n} are too many: {message}",
        "hosts": "at least {n} fit: {message}",
        "interrupted": "interrupted after {n}: {message}",
        "error": "failed after {n}: {message}",
    }
    return MARK + texts[end["kind"]].format(n=end["n"], message=end["message"])


def _figures(histogram: Histogram) -> tuple[float, float] | None:
    if not histogram.count:
        return None
    (p99,) = histogram.percentiles([99.0])
    return histogram.sum_ns / histogram.count / 1000, (p99 or 0) / 1000


def _pair(figures: tuple[float, float] | None) -> str:
    return "-" if figures is None else f"{figures[0]:,.0f} / {figures[1]:,.0f}"


def _ratio(fleet: tuple[float, float] | None, references: tuple[float, float] | None) -> str:
    if fleet is None or references is None:
        return "-"
    return f"{fleet[0] / references[0]:.2f} / {fleet[1] / references[1]:.2f}"
