# SPDX-License-Identifier: GPL-3.0-or-later
"""The curve through measured active memory."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.headroom.curve import Curve, Together

MIB = 2**20


def exact(points, most=100 * MIB):
    return Curve([(age, active, 0) for age, active in points], most)


def test_a_power_law_is_found_again():
    curve = exact([(age, MIB * age**0.4) for age in (1, 3, 10, 30, 100)])
    for age in (1, 2, 7, 55, 100):
        assert curve.active(age) == pytest.approx(MIB * age**0.4, rel=1e-6)
        assert curve.growth(age) == pytest.approx(0.4 * MIB * age**-0.6, rel=1e-6)


def test_exact_points_are_followed_whatever_their_shape():
    points = [(1, MIB), (3, 1.1 * MIB), (10, 5 * MIB), (30, 5.5 * MIB)]
    for age, active in points:
        assert exact(points).active(age) == pytest.approx(active, rel=0.01)


def test_growth_is_the_derivative():
    curve = exact([(1, MIB), (3, 1.1 * MIB), (10, 5 * MIB), (30, 5.5 * MIB)])
    for age in (1.5, 4, 9, 20, 60):
        difference = (curve.active(age * 1.0001) - curve.active(age / 1.0001)) / (age * 1.0001 - age / 1.0001)
        assert curve.growth(age) == pytest.approx(difference, rel=1e-3)


def test_it_never_falls_nor_exceeds_what_there_is():
    curve = exact([(1, 2 * MIB), (3, MIB), (10, 9 * MIB)], most=8 * MIB)
    values = [curve.active(1 + number / 10) for number in range(200)]

    assert all(later >= earlier * (1 - 1e-9) for earlier, later in zip(values, values[1:]))
    assert values[-1] <= 8 * MIB * (1 + 1e-9)


def test_a_hot_set_does_not_grow():
    curve = exact([(1, MIB), (10, MIB), (100, MIB)])
    assert curve.growth(5) == pytest.approx(0, abs=1e-3) and curve.growth(500) == pytest.approx(0, abs=1e-3)


def test_nothing_seen_is_not_nothing():
    """Of 500 pages none was accessed: some may have been, and that does not grow."""
    curve = Curve([(1, 0, MIB), (10, 0, MIB)], 100 * MIB)
    assert curve.active(5) == pytest.approx(MIB) and curve.growth(5) == pytest.approx(0, abs=1e-3)


def test_one_age_has_no_growth():
    assert exact([(10, MIB)]).growth(10) == 0


def test_beyond_the_longest_age_it_goes_on_as_it_ended():
    curve = exact([(age, MIB * age**0.5) for age in (1, 10, 100)], most=15 * MIB)
    assert curve.active(144) == pytest.approx(12 * MIB) and curve.growth(144) == pytest.approx(0.5 * MIB / 12)
    assert curve.active(1000) == pytest.approx(15 * MIB) and curve.growth(1000) == 0


def test_smoothing_makes_inexact_growth_more_exact():
    """With errors of 5 % the growth between neighbours alone is useless; that of the curve is not."""
    source, ages = random.Random(1), (1, 3, 10, 30, 60, 180, 300)
    wrong, wrong_between_neighbours = [], []
    for _measurement in range(300):
        values = [MIB * age**0.3 * source.gauss(1, 0.05) for age in ages]
        curve = Curve([(age, value, 0.05 * value) for age, value in zip(ages, values)], 100 * MIB)
        truth = 0.3 * MIB * 230**-0.7
        wrong.append((curve.growth(230) / truth - 1) ** 2)
        wrong_between_neighbours.append(((values[-1] - values[-2]) / 120 / truth - 1) ** 2)
    assert sum(wrong) < 0.5 * sum(wrong_between_neighbours)


def poisson(bands, age):
    """Return the pages that are accessed within an age, and how fast that grows, by bands of pages of equal rates."""
    left = [(pages, rate, math.exp(-rate * age)) for pages, rate in bands]
    return sum(pages * (1 - of) for pages, _rate, of in left), sum(pages * rate * of for pages, rate, of in left)


@pytest.mark.parametrize("bands", [[(400, 99), (200, 0.25), (2500, 0.02)], [(150, 99), (2000, 0.1), (9000, 0.002)]])
def test_between_the_ages_of_a_look_growth_is_that_of_random_accesses(bands):
    """Pages that are accessed all the time, an index, and values: the ages of headroom_info are far enough apart."""
    ages = (1, 3, 10, 30, 60, 180, 300)
    curve = exact([(age, 4096 * poisson(bands, age)[0]) for age in ages])
    for age in (2, 5, 8, 15, 20, 45, 100, 120):
        active, growth = poisson(bands, age)
        assert curve.active(age) == pytest.approx(4096 * active, rel=0.02)
        assert curve.growth(age) == pytest.approx(4096 * growth, rel=0.06)


def test_the_growth_of_many_inexact_units_is_not_that_of_a_power_law():
    """Each of 30 units is known to 10 %, all together to 2 %; smoothing each alone puts the growth off by a tenth."""
    source, ages = random.Random(5), (1, 3, 10, 30, 100)
    bands = [(200, 99), (60, 0.5), (2500, 0.02)]
    alone, together = [], []
    for _look in range(20):
        units = []
        for _unit in range(30):
            actives = [(age, 4096 * poisson(bands, age)[0]) for age in ages]
            units.append(([(age, value * source.gauss(1, 0.1), 0.1 * value) for age, value in actives], 20 * MIB))
        found = Together(units)
        truth = 30 * 4096 * poisson(bands, 3)[1]
        alone.append(sum(Curve(points, most).growth(3) for points, most in units) / truth)
        together.append(sum(part.growth(3) for part in found.parts) / truth)
        assert sum(part.active(3) for part in found.parts) == pytest.approx(found.whole.active(3))
    assert abs(statistics.fmean(alone) - 1) > 0.1 > 2 * abs(statistics.fmean(together) - 1)


def test_units_that_do_not_grow_share_the_growth_of_the_whole():
    """One grows and is seen to shrink in the other's noise: what the whole grows by is not lost."""
    points = [(1, 4 * MIB, MIB), (10, 3 * MIB, MIB)], [(1, MIB, MIB / 10), (10, 2.5 * MIB, MIB / 10)]
    found = Together([(each, 10 * MIB) for each in points])
    assert sum(part.growth(3) for part in found.parts) == pytest.approx(found.whole.growth(3))
    flat = Together([([(1, MIB, 1), (10, MIB, 1)], 10 * MIB)] * 2)
    assert [part.growth(3) for part in flat.parts] == [pytest.approx(0, abs=1e-3)] * 2
