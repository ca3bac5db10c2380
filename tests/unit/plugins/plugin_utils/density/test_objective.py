# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math

import pytest
from synthetic_ramps import dram, ramp

from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import (
    Objective,
    PlateauError,
    excess,
    excesses,
    plateau,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Figures, windows

IDLE = Figures(60.0, 147.0, 10_000)


def test_a_relative_objective_compares_fleet_references_and_idle_dram():
    (window,) = windows(ramp("zram", 1, [20], lambda size: 3.0, lambda size: 1.5))
    of = excess(window, Objective.of({"kind": "relative", "factor": 2.0}), IDLE, "upper").of
    assert of["fleet", "avg_us"] == pytest.approx(math.log(3 / 1.5 / 2), abs=0.05)
    assert of["references", "avg_us"] == pytest.approx(math.log(1.5 / 2), abs=0.05)


def test_a_fleet_without_references_is_compared_with_idle_dram():
    (window,) = windows(ramp("zram", 1, [20], lambda size: 3.0, count=0))
    of = excess(window, Objective("relative", 2.0, 2.0), IDLE, "upper").of
    assert set(of) == {("fleet", "avg_us"), ("fleet", "p99_us")}
    assert of["fleet", "avg_us"] == pytest.approx(math.log(1.5), abs=0.05)


def test_an_absolute_objective_has_limits_in_microseconds():
    (window,) = windows(ramp("zram", 1, [20]))
    of = excess(window, Objective.of({"kind": "absolute", "avg_us": 30, "p99_us": 1470}), None, "upper").of
    assert of["fleet", "avg_us"] == pytest.approx(math.log(2), abs=0.05)
    assert of["fleet", "p99_us"] == pytest.approx(math.log(0.1), abs=0.15)


def idle(*ramps):
    return plateau({number: windows(each) for number, each in enumerate(ramps, 1)})


def test_the_plateau_is_that_of_idle_dram():
    found = idle(*dram((1, 2)))
    assert found.typical.avg_us == pytest.approx(60, rel=0.03) and found.typical.p99_us == pytest.approx(147, rel=0.1)
    assert found.fastest.p99_us <= found.typical.p99_us <= found.slowest.p99_us and found.slow == []


def test_a_plateau_of_few_windows_is_refused():
    with pytest.raises(PlateauError, match="3 are needed"):
        idle(ramp("dram", 1, [8, 9]))


def test_where_the_windows_of_idle_dram_disagree_the_faster_half_counts():
    found = idle(*in_two_moods(1.8))
    assert found.typical.avg_us == pytest.approx(60, rel=0.03) and found.unsure.count("half of them have") == 2
    assert found.slowest.avg_us == pytest.approx(84, rel=0.1) and found.slow == []
    assert not idle(*dram((1, 2))).unsure


def test_windows_of_idle_dram_that_disagree_by_far_are_refused():
    with pytest.raises(PlateauError, match="disagree"):
        idle(*in_two_moods(4.0))


def in_two_moods(slow):
    def shape(size):
        return 1.0 if size % 2 else slow

    return [ramp("dram", number, range(6, 12), shape, shape) for number in (1, 2)]


def test_ramps_in_dram_on_a_machine_in_two_moods_have_a_plateau_between_them():
    found = idle(*(ramp("dram", 1, range(6, 12), lambda _size, m=m: m, lambda _size, m=m: m) for m in (1.0, 1.3)))
    assert found.fastest.avg_us == pytest.approx(60, rel=0.03)
    assert found.slowest.avg_us == pytest.approx(78, rel=0.03)
    assert found.fastest.avg_us < found.typical.avg_us < found.slowest.avg_us and found.slow == []


def test_a_ramp_in_dram_on_a_busy_machine_says_nothing_about_idle_dram():
    found = idle(*(ramp("dram", 1, range(6, 12), lambda _size, m=m: m, lambda _size, m=m: m) for m in (3.0, 1.0)))
    assert found.typical.avg_us == found.slowest.avg_us == pytest.approx(60, rel=0.03) and found.slow == [1]


def test_the_references_take_the_moods_of_the_machine_out_of_an_absolute_objective():
    moods = {20: 1.0, 22: 1.6, 24: 0.8, 26: 1.3, 28: 0.9, 30: 1.2}
    looked = windows(ramp("zram", 1, moods, lambda size: 1.5 * moods[size], lambda size: moods[size]))
    aim = Objective("absolute", 90.0, 1e6)
    raw = [excess(each, aim, None, "upper").of["fleet", "avg_us"] for each in looked]
    calm = [each.of["fleet", "avg_us"] for each in excesses(looked, aim, None, "upper")]
    assert max(raw) - min(raw) > 0.6 and max(calm) - min(calm) < 0.25
