# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_fleets import START, run_config

from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, timetable


def plan(finished=(), has_budget=False, gap=0.25, **settings):
    config = run_config(requests=1000, rate=500, influences=[0, 10], read_mixes=[70], iterations=2, **settings)
    phases = [{**phase, "finished": phase["index"] in finished} for phase in configuration.phases(config)]
    run = {"config": config, "phases": phases, "session": "12", "expected": ["a", "b"]}
    return timetable.plan(run, gap, has_budget, START)


def test_the_phases_follow_each_other_with_a_gap():
    found = plan(warmups=1)
    assert [phase["kind"] for phase in found["phases"]] == ["warmup", "iteration", "iteration"] * 2
    assert [phase["at"] for phase in found["phases"]] == [0, 2.25, 4.5, 6.75, 9, 11.25]
    assert found["seconds"] == 13.25 and found["planned_at"] == START and found["stop"] is None


def test_no_phase_can_delay_the_next_one():
    found = plan(warmups=1)
    for phase, following in zip(found["phases"], found["phases"][1:]):
        assert phase["seconds"] < phase["max_seconds"] < following["at"] - phase["at"]
    assert found["phases"][-1]["max_seconds"] > found["phases"][-1]["seconds"]


def test_what_is_finished_is_not_planned_again():
    found = plan(finished=(1, 2, 3), warmups=0)
    assert [phase["index"] for phase in found["phases"]] == [4, 5]
    assert plan(finished=range(1, 6), warmups=0)["phases"] == []


@pytest.mark.parametrize(("warmups", "index"), [(1, 3), (2, 4)])
def test_the_limit_of_a_budget_is_set_again_once_after_the_first_warm_up(warmups, index):
    found = plan(has_budget=True, warmups=warmups)
    assert [phase["index"] for phase in found["phases"] if phase["refit"]] == [index]
    refitted = next(phase for phase in found["phases"] if phase["refit"])
    before = found["phases"][found["phases"].index(refitted) - 1]
    assert refitted["at"] - before["at"] - before["seconds"] == timetable.REFIT_SECONDS + 0.25
    assert not [phase for phase in plan(has_budget=True, warmups=0)["phases"] if phase["refit"]], (
        "the launch has done it"
    )


def test_a_run_that_stops_early_has_time_to_decide():
    found = plan(warmups=0, stop_when_failed=True)
    assert (found["stop"]["total"], found["stop"]["hosts"]) == (2000, 2)
    assert found["phases"][1]["at"] == 2 + timetable.GAP_TO_DECIDE_SECONDS


def test_the_lead_grows_with_the_rounds_of_forks_and_with_a_slow_launch():
    few = timetable.lead(4, 64, 1)
    assert few < 1.1 and timetable.lead(4, 1, 1) > few and timetable.lead(1000, 64, 1) > 20
    assert timetable.lead(4, 64, 10) > 2.5
    assert timetable.lead(4, 64, 3600) < 6, "it was the fill that took long"
