# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from synthetic_ramps import ramp

from ansible_collections.memstretch.density.plugins.plugin_utils.density.live import known, line
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import Objective
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Figures, windows

RELATIVE = Objective("relative", 2.0, 2.0)


def test_a_line_has_the_shares_of_the_objective():
    (window,) = windows(ramp("zram", 1, [20], lambda size: 1.8, page_ins=8000))
    text = line(window, RELATIVE, Figures(60.0, 147.0, 10_000))
    assert text.startswith("  20 hosts, 256 MiB charged, 2,000 page-ins/s, average 108 us (references ")
    assert "90 % of the objective" in text or "91 % of the objective" in text or "89 % of the objective" in text


def test_a_line_before_the_plateau_is_known_has_the_figures_alone():
    (window,) = windows(ramp("dram", 1, [20], stolen={20: 0.05}))
    text = line(window, RELATIVE, None)
    assert "objective" not in text and text.endswith("disturbed: 5.00 % of a CPU of this_machine was stolen")


def test_what_is_known_so_far():
    assert known("zram", [54, 52], False) == "zram so far 54, 52"
