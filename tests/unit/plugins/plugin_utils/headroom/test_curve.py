# SPDX-License-Identifier: GPL-3.0-or-later
"""The curve through measured active memory."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.headroom.curve import Curve

MIB = 2**20


def test_a_power_law_is_found_again():
    curve = Curve([(age, MIB * age**0.4) for age in (1, 3, 10, 30, 100)], 100 * MIB)
    for age in (1, 2, 7, 55, 100):
        assert curve.active(age) == pytest.approx(MIB * age**0.4, rel=1e-6)
        assert curve.growth(age) == pytest.approx(0.4 * MIB * age**-0.6, rel=1e-6)


def test_growth_is_the_derivative():
    curve = Curve([(1, MIB), (3, 1.1 * MIB), (10, 5 * MIB), (30, 5.5 * MIB)], 100 * MIB)
    for age in (1.5, 4, 9, 20):
        difference = (curve.active(age * 1.0001) - curve.active(age / 1.0001)) / (age * 1.0001 - age / 1.0001)
        assert curve.growth(age) == pytest.approx(difference, rel=1e-3)


def test_it_never_falls_nor_exceeds_what_there_is():
    curve = Curve([(1, 2 * MIB), (3, MIB), (10, 9 * MIB)], 8 * MIB)
    values = [curve.active(1 + number / 10) for number in range(90)]

    assert all(later >= earlier * (1 - 1e-9) for earlier, later in zip(values, values[1:]))
    assert values[-1] <= 8 * MIB * (1 + 1e-9)
    assert curve.growth(2) == 0


def test_nothing_accessed_grows_by_nothing():
    curve = Curve([(1, 0), (10, 0)], MIB)
    assert curve.active(5) == pytest.approx(1) and curve.growth(5) == 0


def test_one_age_has_no_growth():
    assert Curve([(10, MIB)], 2 * MIB).growth(10) == 0
