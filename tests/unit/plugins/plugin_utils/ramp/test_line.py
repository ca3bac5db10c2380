# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ramp shows while it goes on."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.ramp import line as live

from .test_record import END, SAMPLE, WINDOW


def test_a_line_has_both_figures_of_fleet_and_references_and_their_ratio():
    shown = live.window_line(WINDOW)
    assert " ".join(shown.split()) == "| 2 250 MiB 1,000 200 / 300 100 / 100 2.00 / 3.00"


def test_a_line_says_what_is_unknown_or_doubtful():
    window = {
        **WINDOW,
        "settled": False,
        "disturbed": "2 % of a CPU stolen",
        "references": {},
        "machines": {"": {**SAMPLE, "charged_bytes": None, "page_ins": None}},
    }
    shown = live.window_line(window)
    assert " ".join(shown.split()) == "| 2 - - 200 / 300 - - (not settled; disturbed: 2 % of a CPU stolen)"


def test_the_end_says_how_many_do_not_fit_and_why():
    assert live.end_line(END) == "| 3 do not fit: Killed process 7"
