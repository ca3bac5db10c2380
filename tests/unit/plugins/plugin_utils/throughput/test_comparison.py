# SPDX-License-Identifier: GPL-3.0-or-later
"""Planted ratios are in the intervals that the comparison gives, and the control finds planted differences."""

from __future__ import annotations

import random

import pytest
from synthetic_throughput import SAME, STUDY, arm, study

from ansible_collections.memstretch.density.plugins.plugin_utils.throughput import comparison

TRUTH = {
    ("hot data", "SET"): 0.85,
    ("hot data", "GET"): 0.85,
    ("cold data", "SET"): 0.27,
    ("cold data", "GET"): 0.27,
    ("writing new keys", "SET"): 0.70,
    ("reading them", "GET"): 0.80,
    ("writing new keys, also beyond DRAM", "SET"): 0.60,
}


def found_in(arms):
    return {(each.comparison.words, each.op): each.found for each in comparison.ratios(arms)}


def test_without_noise_the_ratios_are_those_that_were_planted():
    found = found_in(study(random.Random(1), spread=0.0))

    assert {key: round(ratio.value, 3) for key, ratio in found.items()} == TRUTH
    assert all(ratio.interval == [round(ratio.value, 3)] * 2 for ratio in found.values())


@pytest.mark.parametrize("rounds", [3, 5])
def test_intervals_hold_planted_ratios_in_95_percent_of_studies(rounds):
    """1,000 studies with a spread of 5 % for each run, below rounds that differ by 20 %. 93 % of each is 2.9 standard
    errors below 95 %."""
    chance, held = random.Random(17), dict.fromkeys(TRUTH, 0)
    for _study in range(1000):
        for key, ratio in found_in(study(chance, rounds)).items():
            low, high = ratio.interval
            held[key] += low <= TRUTH[key] <= high
    # The bounds have three digits, which matters for none but the smallest ratio.
    assert all(930 <= count <= 975 for count in held.values()), held


def test_fewer_than_three_rounds_have_ratios_and_no_intervals():
    arms = study(random.Random(2), rounds=2)

    assert all(ratio.interval is None for ratio in found_in(arms).values())
    assert not comparison.has_intervals(arms) and comparison.controls(arms) == []


def test_rounds_that_one_arm_lacks_are_no_pairs():
    arms = study(random.Random(3), rounds=5, spread=0.0)
    del arms["zram"]["rounds"][1]

    assert all(ratio.rounds == 4 for ratio in found_in(arms).values())
    assert {key: round(ratio.value, 3) for key, ratio in found_in(arms).items()} == TRUTH


def on_two_machines(chance, rounds):
    """Both machines have their own rounds, and one varies more than the other."""
    return {
        "dram": arm("dram", SAME, [1.0] * rounds, lambda: chance.lognormvariate(0, 0.02), "boot b", "b"),
        "imdt": arm("imdt", STUDY, [1.0] * rounds, lambda: chance.lognormvariate(0, 0.1), "boot a", "a"),
    }


@pytest.mark.long
def test_intervals_of_two_machines_hold_planted_ratios():
    chance, held = random.Random(18), dict.fromkeys(TRUTH, 0)
    for _study in range(1000):
        for each in comparison.ratios(on_two_machines(chance, 4)):
            low, high = each.found.interval
            held[each.comparison.words, each.op] += low <= TRUTH[each.comparison.words, each.op] <= high
            assert not each.paired
    assert all(count >= 930 for count in held.values()), held


def test_two_machines_are_no_control():
    assert comparison.controls(on_two_machines(random.Random(4), 3)) == []


SAME_EXCEPT_COLD = {**STUDY, **SAME}


def test_the_control_are_the_cases_that_moved_no_page():
    controls = comparison.controls(study(random.Random(5), effects=SAME_EXCEPT_COLD))

    assert {control.key[:2] for control in controls} == set(SAME)
    assert comparison.control_holds(controls)


@pytest.mark.long
def test_a_sound_site_fails_its_control_in_at_most_5_of_100_studies():
    chance = random.Random(6)
    failed = sum(
        comparison.control_holds(comparison.controls(study(chance, 5, effects=SAME_EXCEPT_COLD))) is False
        for _study in range(1000)
    )
    assert 20 <= failed <= 70  # Holm's correction is a little too careful; 70 is 2.9 standard errors above 50


def test_the_control_finds_a_planted_difference():
    chance = random.Random(7)
    biased = {**SAME_EXCEPT_COLD, ("random", "SET"): (("random", "SET"), 1.3)}
    failed = sum(
        comparison.control_holds(comparison.controls(study(chance, 5, effects=biased))) is False
        for _study in range(200)
    )
    assert failed >= 180


def test_one_page_makes_a_case_unfit_for_the_control():
    arms = study(random.Random(8), effects=SAME_EXCEPT_COLD)
    case = next(each for each in arms["zram"]["rounds"][1]["cases"] if (each["case"], each["op"]) == ("random", "GET"))
    case["page_ins"] = 1

    assert {control.key[:2] for control in comparison.controls(arms)} == set(SAME) - {("random", "GET")}


def test_another_boot_is_no_control():
    arms = study(random.Random(9), effects=SAME_EXCEPT_COLD)
    arms["zram"]["rounds"][2]["machine"] = "another"

    assert comparison.controls(arms) == [] and comparison.control_holds([]) is None


def test_cold_cases_must_page_in_every_round():
    chance = random.Random(10)
    arms = study(chance)
    assert comparison.is_cold(arms["zram"]) and comparison.is_cold(arms["dram"])
    assert not comparison.is_cold(arm("zram", STUDY, [1.0] * 3, lambda: 1.0, pages=False))


def test_the_curve_is_the_longest_sequential_write_of_each_arm():
    arms = study(random.Random(11))
    ends = {name: comparison.curve(each)[-1] for name, each in arms.items()}

    assert ends["dram"][0] == pytest.approx(1.2e9) and ends["zram"][0] == pytest.approx(7.2e9)
    assert all(len(rates) == 3 for _used, rates in ends.values())
