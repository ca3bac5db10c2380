# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import FIGURES, smallest_effect
from ansible_collections.memstretch.density.plugins.plugin_utils.study.significance import (
    MeasuredArm,
    aa_tests,
    labels,
    noise,
    paired,
    significant,
)

CELLS = [{"influence": 0, "read_mix": 100}, {"influence": 10, "read_mix": 100}]
NAMES = ["i0-r100", "i10-r100"]


def measured(chance, arms, rounds=5, spread=0.1, of_rounds=0.3):
    """Return arms with these names, what they repeat, and these effects; a round changes all arms alike."""
    both = {name: [[chance.gauss(0, of_rounds) for _figure in FIGURES] for _round in range(rounds)] for name in NAMES}
    return [
        MeasuredArm(
            arm,
            repeats,
            {
                name: {
                    number: {
                        figure: 100 * effect * math.exp(shift + chance.gauss(0, spread))
                        for figure, shift in zip(FIGURES, shifts)
                    }
                    for number, shifts in enumerate(both[name])
                }
                for name in NAMES
            },
        )
        for arm, repeats, effect in arms
    ]


def p_values(arms, name):
    return [
        {figure: ratio.p_value for figure, ratio in paired(arm.runs[name], arms[0].runs[name]).items()}
        for arm in arms[1:]
    ]


@pytest.mark.long
def test_a_sound_site_fails_its_aa_test_in_at_most_5_of_100_studies():
    """Six intervals hold 1 all together in only 74 of 100 studies, so the label needs the correction."""
    chance = random.Random(1)
    failed = apart = 0
    for _study in range(1_000):
        (test,) = aa_tests(measured(chance, [("dram", None, 1), ("dram#2", "dram", 1)]), CELLS)
        assert test["intervals"] == 6 and test["arm"] == "dram#2" and test["repeats"] == "dram"
        assert len(test["outside"]) == 6 - test["hold_1"]
        assert len(labels([test])) == (not test["holds"])
        failed += not test["holds"]
        apart += test["hold_1"] < 6
    assert failed <= 60 and 200 <= apart <= 320


def test_a_site_that_is_not_as_steady_as_its_intervals_claim_is_labelled():
    """The second arm is slower in all rounds, as on a host that heats up after each first run."""
    arms = measured(random.Random(2), [("dram", None, 1), ("swap", None, 3), ("dram#2", "dram", 1.5)], spread=0.03)
    (test,) = aa_tests(arms, CELLS)
    assert test["holds"] is False and test["hold_1"] == 0
    (label,) = labels([test])
    assert label.startswith("the site is not as steady as the intervals claim: dram#2 and dram are the same, and yet")
    assert label.endswith("only 0 of 6 intervals of their ratio include 1") and test["outside"][0].startswith(
        "average at "
    )


def test_two_rounds_are_too_few_for_an_aa_test():
    arms = measured(random.Random(3), [("dram", None, 1), ("dram#2", "dram", 1)], rounds=2)
    (test,) = aa_tests(arms, CELLS)
    assert test["holds"] is None and test["intervals"] == 0 and labels([test]) == [] and noise(arms, CELLS) is None


def test_only_runs_of_the_same_round_are_pairs():
    """Each arm has lost a run, of another round; rounds differ by far more than runs."""
    first, other = measured(random.Random(7), [("dram", None, 1), ("swap", None, 2)], spread=0.01, of_rounds=1)
    first.runs[NAMES[0]].pop(1)
    other.runs[NAMES[0]].pop(4)
    ratio = paired(other.runs[NAMES[0]], first.runs[NAMES[0]])["avg_us"]
    assert ratio.rounds == 3 and ratio.value == pytest.approx(2, rel=0.05)
    assert ratio.interval[1] / ratio.interval[0] < 1.1


def test_the_smallest_effect_comes_from_the_aa_arms():
    """The other arm varies much more, and its effect differs from round to round."""
    chance = random.Random(4)
    same = measured(chance, [("dram", None, 1), ("dram#2", "dram", 1)], rounds=400, spread=0.1)
    wild = measured(chance, [("swap", None, 2)], rounds=400, spread=0.5)
    found = noise([same[0], *wild, same[1]], CELLS)
    assert found["source"] == "aa" and found["arms"] == ["dram", "dram#2"] and found["rounds"] == 400
    assert [(cell["influence"], cell["read_mix"]) for cell in found["cells"]] == [(0, 100), (10, 100)]
    for cell in found["cells"]:
        for figure in FIGURES:
            assert cell["spread"][figure] == pytest.approx(0.1, rel=0.15)
            assert cell["smallest_effect"][figure] == round(smallest_effect(cell["spread"][figure], 400), 3)
    without = noise([same[0], *wild], CELLS)
    assert without["source"] == "pairs" and without["arms"] == ["dram", "swap"]
    assert without["cells"][0]["spread"]["avg_us"] == pytest.approx(
        math.sqrt((0.5**2 + 0.1**2 + 2 * 0.3**2) / 2), rel=0.2
    )


@pytest.mark.long
def test_the_corrected_ratios_of_an_ablation_hold_the_level():
    """15 settings without effect: with single tests, more than a third of all studies would name one."""
    chance = random.Random(5)
    settings = [("swap", None, 1)] + [(f"without {number}", None, 1) for number in range(15)]
    studies, single, corrected = 300, 0, 0
    for _study in range(studies):
        found = p_values(measured(chance, settings), NAMES[0])
        single += any(each["avg_us"] <= 0.05 for each in found)
        corrected += any(each["avg_us"] for each in significant(found))
    assert corrected / studies <= 0.07 and single / studies >= 0.3


def test_a_large_effect_survives_the_correction_and_a_small_one_does_not():
    arms = [("swap", None, 1), ("without big", None, 3), ("without small", None, 1.05)]
    found = significant(p_values(measured(random.Random(6), arms), NAMES[0]) + [dict.fromkeys(FIGURES)])
    assert all(found[0].values()) and not any(found[1].values())
    assert found[2] == dict.fromkeys(FIGURES)
