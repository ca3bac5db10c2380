# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import crossing, fitted


def test_fitted_never_falls_and_keeps_the_weighted_mean():
    chance = random.Random(1)
    for _case in range(200):
        values = [chance.gauss(0, 1) for _each in range(chance.randint(1, 12))]
        weights = [chance.choice((1, 2, 5)) for _each in values]
        fit = fitted(values, weights)
        assert all(a <= b + 1e-12 for a, b in zip(fit, fit[1:]))
        assert sum(a * w for a, w in zip(fit, weights)) == pytest.approx(sum(a * w for a, w in zip(values, weights)))


def test_fitted_is_the_closest_of_all_curves_that_never_fall():
    chance = random.Random(2)
    values = [chance.gauss(place / 5, 1) for place in range(8)]

    def distance(fit):
        return sum((a - b) ** 2 for a, b in zip(fit, values))

    best = distance(fitted(values, [1.0] * 8))
    for _case in range(2000):
        assert best <= distance(sorted(chance.gauss(1, 1) for _each in values)) + 1e-12


@pytest.mark.parametrize("slope", [0.5, 1, 4])
def test_crossing_is_where_a_smooth_curve_crosses(slope):
    found = crossing((size, slope * math.log(size / 50.5)) for size in range(30, 70))
    assert found and found.size == pytest.approx(50.5, rel=0.01)
    assert (found.low, found.high) == (50, 51)


def test_a_wall_is_the_crossing_of_a_flat_curve():
    found = crossing([(size, -0.4) for size in range(30, 55)], wall=55)
    assert found and (found.low, found.high, found.is_open) == (54, 55, False)
    assert 54 < found.size < 55 and found.scatter < 1e-6


def test_a_ramp_without_a_miss_is_open():
    found = crossing([(size, -0.4) for size in range(30, 55)])
    assert found and found.is_open and found.size == pytest.approx(54)


def test_one_disturbed_window_moves_the_crossing_by_little():
    points = [(size, 2 * math.log(size / 50.5)) for size in range(30, 70)]
    disturbed = [(size, 3.0 if size == 40 else excess) for size, excess in points]
    found = crossing(disturbed)
    assert found and found.size == pytest.approx(50.5, rel=0.02)


def test_the_order_of_the_windows_does_not_matter_and_a_size_may_occur_twice():
    points = [(10, -0.2), (12, -0.1), (12, 0.02), (14, 0.1)]
    assert crossing(points) == crossing(points[::-1])
    assert crossing([]) is None


def test_a_ramp_that_misses_from_its_first_size_on_has_no_lower_end():
    found = crossing([(10, 0.1), (11, 0.2), (12, 0.3)])
    assert found and found.low == 0 and found.size < 10


def test_a_size_lies_between_its_ends_also_where_the_curve_is_flat_near_the_limit():
    """A drive that serves its first pages slowly: the limit is missed with 20 to 26 servers, and met from then on."""
    early = [(17, -0.7), *((size, 0.2) for size in range(20, 27))]
    late = [(size, -0.12) for size in (38, 42, 46, 53, 61, 70, 80, 83, 92, 95, 97, 98)]
    found = crossing([*early, *late], wall=99)
    assert found and found.low <= found.size < found.high == 99
    sure = crossing([(17, -0.7), *late], wall=99)
    assert sure and sure.low == 98 < sure.size
    assert found.low < 92, "the misses count, too"


def test_a_size_lies_between_its_ends_also_if_even_the_first_one_misses_the_limit_by_little():
    found = crossing([(10, 0.01), (11, 0.03), (12, 0.04), (13, 0.2)])
    assert found and found.low == 0 and found.size < found.high
