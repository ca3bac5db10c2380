# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest
from synthetic_ramps import IDLE_US, load, ramp

from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import (
    disturbed,
    figures,
    is_quiet,
    over_budget,
    windows,
)


def test_figures_are_those_of_all_requests_and_bounds_are_in_order():
    chance = random.Random(1)
    found = figures([load(chance) for _host in range(40)])
    assert found["upper"].requests == 8000
    assert found["upper"].avg_us == pytest.approx(IDLE_US, rel=0.02)
    assert found["upper"].p99_us == pytest.approx(IDLE_US * (0.6 + 0.4 * 4.605), rel=0.1)
    assert found["lower"].avg_us < found["upper"].avg_us and found["lower"].p99_us < found["upper"].p99_us


def test_a_host_can_be_left_out():
    record = ramp("zram", 1, [10], sick={"redis03": 0.5})
    (window,), (without,) = windows(record), windows(record, {"redis03"})
    assert without.fleet["upper"].requests == 1800 and without.fleet["upper"].avg_us < window.fleet["upper"].avg_us / 5


def test_stolen_time_needs_two_ticks_of_a_cpu():
    (window,) = ramp("zram", 1, [10])["windows"]
    sample = window["machines"]["this_machine"]
    sample.update(stolen_cpu=0.0026, stolen_ticks=1)
    assert disturbed(window, None, 0.0025) == ""
    sample.update(stolen_cpu=0.005, stolen_ticks=2)
    assert disturbed(window, None, 0.0025) == "0.50 % of a CPU of this_machine was stolen"


def test_a_window_over_its_budget_cannot_be_used():
    (window,) = ramp("zram", 1, [10])["windows"]
    assert over_budget(window, 256 * 2**20) == 0
    assert over_budget(window, 200 * 2**20) == pytest.approx(0.28)
    assert disturbed(window, 200 * 2**20, 0.0025) == "the charged DRAM was 28 % above the budget"


def test_a_third_of_the_windows_may_be_disturbed():
    sizes = range(10, 16)
    assert is_quiet(windows(ramp("zram", 1, sizes, stolen={10: 0.1, 11: 0.1})))
    assert not is_quiet(windows(ramp("zram", 1, sizes, stolen={10: 0.1, 11: 0.1, 12: 0.1})))
