# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches on simulated hosts, where it is known which candidates matter. The bench makes more of them."""

from __future__ import annotations

import dataclasses

import pytest
from synthetic_hosts import BAD_FOR_P99, CELLS, FINDS, FINDS_NONE, ONE_SETTING, SETTINGS, Host, World, search

from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization import (
    BASELINE,
    CONFIRMATION,
    FINALISTS,
    SCREENING,
    Optimization,
    Outcome,
    SearchSettings,
    log_means,
)

SEARCHES = 20
PRECISE, STEADY = FINDS[0], World("steady", ONE_SETTING, spread=0.01)


def test_one_setting_that_matters_by_20_percent_is_found():
    found = [search(PRECISE, seed)[0]["proposed"] for seed in range(SEARCHES)]
    assert sum(PRECISE.truth in each for each in found) >= 0.9 * SEARCHES


def test_nothing_is_proposed_where_nothing_matters():
    found = [search(FINDS_NONE[1], seed)[0] for seed in range(SEARCHES)]
    assert sum(not each["proposed"] for each in found) >= 0.95 * SEARCHES
    assert all(1.05 < each["smallest_effect"] < 2 for each in found)


def test_a_candidate_that_makes_the_p99_worse_is_not_proposed():
    result = search(BAD_FOR_P99, 1)[0]
    (test,) = [each for each in result["confirmation"] if each["candidate"] == BAD_FOR_P99.truth]
    assert result["proposed"] == [] and test["why_not"] == "the p99 becomes worse"
    assert test["interval"][1] < 1 < test["guard_interval"][0]


def test_the_p99_can_be_what_is_optimised():
    world = World("p99", {}, spread=0.02, on_p99=ONE_SETTING)
    assert search(world, 1, figure="p99_us")[0]["proposed"] == ["s2=1"]
    assert search(world, 1)[0]["proposed"] == []


def test_the_confirmation_has_only_new_rounds():
    result, host = search(STEADY, 1)
    rounds = {
        stage: {number for _changes, number, its_stage in host.runs if its_stage == stage}
        for stage in (SCREENING, CONFIRMATION)
    }
    assert max(rounds[SCREENING]) < min(rounds[CONFIRMATION]) and len(rounds[CONFIRMATION]) == SearchSettings().rounds
    (test,) = [each for each in result["confirmation"] if each["confirmed"]]
    assert test["rounds"] == SearchSettings().rounds and test["interval"][0] <= 0.8 <= test["interval"][1]
    # Each round has the unchanged profile and each candidate once.
    for number in rounds[CONFIRMATION]:
        arms = [changes for changes, its_round, _stage in host.runs if its_round == number]
        assert BASELINE in arms and len(arms) == len(set(arms)) == FINALISTS + 1


def test_screening_halves_the_candidates():
    stages = [stage for stage in search(STEADY, 1)[0]["stages"] if stage["kind"] == SCREENING]
    assert [len(stage["arms"]) for stage in stages] == [12, 6]
    assert [stage["rounds"] for stage in stages] == [[1, 2], [3, 4]]


def test_several_settings_are_confirmed_together():
    world = World("two", {"s0=0": 0.8, "s1=1": 0.7}, spread=0.01)
    result = search(world, 1)[0]
    assert result["proposed"] == ["s1=1", "s0=0"]
    together = result["together"]
    assert together["confirmed"] and together["interval"][0] <= 0.56 <= together["interval"][1]


def test_settings_that_do_not_add_up_are_not_proposed_together():
    """Each of two settings helps, but not both of them."""
    host = Host(World("either", {"s0=0": 0.8, "s1=1": 0.7}, spread=0.01), 1)

    def measure(changes, round_, stage):
        return host.measure(changes[:1] if len(changes) == 1 else (), round_, stage)

    result = Optimization(SETTINGS, measure, SearchSettings()).run()
    assert result["proposed"] == ["s1=1"] and not result["together"]["confirmed"]


def test_one_value_of_a_setting_is_proposed():
    world = World("one setting", {"s0=0": 0.8, "s0=1": 0.7, "s0=2": 0.9}, spread=0.01)
    assert search(world, 1)[0]["proposed"] == ["s0=1"]


def test_the_time_budget_is_kept():
    for minutes in (200, 60, 40, 20, 18):
        result, host = search(dataclasses.replace(STEADY, minutes=minutes), 1)
        # The first round is always measured, whatever it takes.
        assert len(host.runs) <= minutes and result["seconds"] == 60 * len(host.runs)
    assert result["proposed"] == [], "there was no time to confirm anything"
    assert result["smallest_effect"] is None
    assert search(dataclasses.replace(STEADY, minutes=40), 1)[0]["proposed"] == ["s2=1"]


def test_an_unfit_candidate_is_set_aside_and_not_measured_again():
    host = Host(STEADY, 1)

    def measure(changes, round_, stage):
        outcome = host.measure(changes, round_, stage)
        return Outcome(None, 60, "refused by the kernel") if changes == ("s2=1",) else outcome

    result = Optimization(SETTINGS, measure, SearchSettings()).run()
    assert result["set_aside"] == [{"candidates": ["s2=1"], "reason": "refused by the kernel"}]
    assert result["proposed"] == [] and sum(run[0] == ("s2=1",) for run in host.runs) == 1


def test_nothing_is_left_if_all_are_unfit():
    host = Host(STEADY, 1)

    def measure(changes, round_, stage):
        outcome = host.measure(changes, round_, stage)
        return Outcome(None, 60, "no host has such a setting") if changes else outcome

    result = Optimization(SETTINGS, measure, SearchSettings()).run()
    assert result["proposed"] == result["confirmation"] == [] and result["smallest_effect"] is None


def test_an_interrupted_search_continues_from_what_was_measured():
    """The search asks for the same runs again; those that are known are not measured again."""
    known = {}

    class Stop(Exception):
        pass

    def through(host, most):
        def measure(changes, round_, stage):
            if (changes, round_) not in known:
                if len(host.runs) >= most:
                    raise Stop
                known[changes, round_] = host.measure(changes, round_, stage)
            return known[changes, round_]

        return measure

    host = Host(dataclasses.replace(STEADY, minutes=70), 1)
    settings = SearchSettings(seconds=70 * 60)
    for most in (5, 30, 50):
        with pytest.raises(Stop):
            Optimization(SETTINGS, through(host, most), settings).run()
    result = Optimization(SETTINGS, through(host, 1000), settings).run()
    assert result == search(dataclasses.replace(STEADY, minutes=70), 1)[0]
    assert len(host.runs) == len(set(host.runs)) <= 70


def test_each_cell_counts_alike():
    cells = {CELLS[0]: {"avg_us": 10, "p99_us": 100}, CELLS[1]: {"avg_us": 1000, "p99_us": 400}}
    assert log_means(cells) == {"avg_us": pytest.approx(100), "p99_us": pytest.approx(200)}
