# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math

import pytest
from synthetic_ramps import dram, ramp

from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import (
    Objective,
    PlateauError,
    beside_idle,
    excess,
    excesses,
    plateau,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import Figures, windows

IDLE = Figures(60.0, 147.0, 10_000)


def test_a_relative_objective_compares_fleet_references_and_idle_dram():
    (window,) = windows(ramp("zram", 1, [20], lambda size: 3.0, lambda size: 1.5))
    of = excess(window._replace(idle=IDLE), Objective.of({"kind": "relative", "factor": 2.0}), "upper").of
    assert of["fleet", "avg_us"] == pytest.approx(math.log(3 / 1.5 / 2), abs=0.05)
    assert of["references", "avg_us"] == pytest.approx(math.log(1.5 / 2), abs=0.05)


def test_a_fleet_without_references_is_compared_with_idle_dram():
    (window,) = windows(ramp("zram", 1, [20], lambda size: 3.0, count=0))
    of = excess(window._replace(idle=IDLE), Objective("relative", 2.0, 2.0), "upper").of
    assert set(of) == {("fleet", "avg_us"), ("fleet", "p99_us")}
    assert of["fleet", "avg_us"] == pytest.approx(math.log(1.5), abs=0.05)


def test_references_whose_clients_were_late_do_not_make_a_fleet_miss_its_objective():
    """Their lower bound is 0, so nothing is known of how slow they were."""
    (window,) = windows(ramp("zram", 1, [20], lambda size: 3.0, lambda size: 3.0))
    nothing = window.references["lower"]._replace(avg_us=0.0, p99_us=0.0)
    late = window._replace(idle=IDLE, references={**window.references, "lower": nothing})
    of = excess(late, Objective("relative", 2.0, 2.0), "lower").of
    assert all(value <= 0 for value in of.values())
    limits = Objective("absolute", 1e3, 1e4)
    assert all(value <= 0 for value in excesses([late, late], limits, "lower")[0].of.values())


def test_an_absolute_objective_has_limits_in_microseconds():
    (window,) = windows(ramp("zram", 1, [20]))
    of = excess(window, Objective.of({"kind": "absolute", "avg_us": 30, "p99_us": 1470}), "upper").of
    assert of["fleet", "avg_us"] == pytest.approx(math.log(2), abs=0.05)
    assert of["fleet", "p99_us"] == pytest.approx(math.log(0.1), abs=0.15)


def idle(*ramps):
    return plateau([windows(each) for each in ramps])


def in_a_mood(arm, number, sizes, mood):
    return ramp(arm, number, sizes, lambda _size: mood, lambda _size: mood)


def test_the_plateau_is_that_of_idle_dram():
    found = idle(*dram((1, 2)))
    assert found.figures.avg_us == pytest.approx(60, rel=0.03) and found.figures.p99_us == pytest.approx(147, rel=0.1)
    assert found.fits == 10


def test_a_plateau_of_few_windows_is_refused():
    with pytest.raises(PlateauError, match="3 are needed"):
        idle(ramp("dram", 1, [8, 9]))


def test_the_plateau_of_several_ramps_is_their_median():
    found = idle(*(in_a_mood("dram", number, range(6, 12), mood) for number, mood in enumerate((3.0, 1.0, 1.3), 1)))
    assert found.figures.avg_us == pytest.approx(78, rel=0.03)


def test_disturbed_windows_and_small_fleets_say_nothing_about_idle_dram():
    shape = {2: 5.0, 4: 5.0, 6: 1.0, 8: 1.0, 9: 1.0, 12: 5.0}
    found = idle(ramp("dram", 1, shape, shape.get, shape.get, stolen={12: 0.05}))
    assert found.fits == 9 and found.figures.avg_us == pytest.approx(60, rel=0.03)


@pytest.mark.parametrize(
    ("sizes", "share"), [([20, 30], 0), ([8, 20, 30], 1 / 2), ([7, 8, 20], 2 / 3), ([7, 8, 8, 9, 20], 3 / 4)]
)
def test_idle_dram_is_that_of_the_ramp_itself_and_the_plateau_counts_like_one_more_window(sizes, share):
    looked = beside_idle(windows(in_a_mood("zram", 1, sizes, 1.6)), idle(*dram((1,))))
    assert [each.idle.avg_us for each in looked] == pytest.approx([60 * 1.6**share] * len(sizes), rel=0.03)


def test_without_ramps_in_dram_nobody_knows_how_fast_idle_dram_is():
    assert [each.idle for each in beside_idle(windows(ramp("zram", 1, [8])), None)] == [None]


def test_the_references_take_the_moods_of_the_machine_out_of_an_absolute_objective():
    moods = {20: 1.0, 22: 1.6, 24: 0.8, 26: 1.3, 28: 0.9, 30: 1.2}
    looked = windows(ramp("zram", 1, moods, lambda size: 1.5 * moods[size], lambda size: moods[size]))
    aim = Objective("absolute", 90.0, 1e6)
    raw = [excess(each, aim, "upper").of["fleet", "avg_us"] for each in looked]
    calm = [each.of["fleet", "avg_us"] for each in excesses(looked, aim, "upper")]
    assert max(raw) - min(raw) > 0.6 and max(calm) - min(calm) < 0.25
