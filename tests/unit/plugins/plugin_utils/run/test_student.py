# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.student import holm, p_value, quantile


@pytest.mark.parametrize(
    "share, freedom, expected",
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 9, 2.262),
        (0.975, 25, 2.060),
        (0.975, 1000, 1.962),
        (0.975, 1e9, 1.960),
        (0.8, 4, 0.941),
        (0.9995, 4, 8.610),
        (0.5, 3, 0),
    ],
)
def test_quantiles(share, freedom, expected):
    """Values of printed tables."""
    assert quantile(share, freedom) == pytest.approx(expected, abs=0.001)
    assert p_value(expected, freedom) == pytest.approx(2 - 2 * share, abs=0.0005)


def test_the_p_value_does_not_depend_on_the_sign():
    assert p_value(-2.5, 4.5) == p_value(2.5, 4.5)
    assert p_value(0, 4) == 1 and p_value(float("inf"), 4) == 0


def test_holm_on_the_example_of_a_textbook():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.9, 0.8]) == [1, 1]


def test_holm_holds_the_level_over_many_tests():
    """15 comparisons, none of which has an effect: without the correction, half of all studies have a false alarm."""
    chance = random.Random(21)
    alarms = sum(min(holm([chance.random() for _test in range(15)])) <= 0.05 for _study in range(10_000))
    assert 430 <= alarms <= 550
