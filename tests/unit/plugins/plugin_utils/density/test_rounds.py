# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import Crossing
from ansible_collections.memstretch.density.plugins.plugin_utils.density.rounds import ratio, summed, together


def capacity(size: int) -> Crossing:
    return Crossing(math.sqrt(size * (size + 1)), size, size + 1, 0.0)


def test_rounds_that_agree_have_the_step_as_their_interval():
    found = together([capacity(19)] * 3)
    assert (found.density, found.interval, found.span) == (19, (19, 19), (19, 19))


def test_two_rounds_are_two_values_without_an_interval():
    found = together([capacity(52), capacity(54)])
    assert (found.values, found.interval, found.span) == ([52, 54], None, (52, 54))


def test_one_round_that_ran_out_of_hosts_opens_the_interval():
    found = together([capacity(54), capacity(54), Crossing(60, 60, math.inf, 0.0)])
    assert found.at_least and found.interval and found.interval[1] is None and found.span == (54, None)


def test_rounds_that_differ_have_the_t_interval_of_their_logarithms():
    found = together([Crossing(size, size, size * 1.0001, 0.0) for size in (90, 100, 110)])
    assert found.interval and found.density == 100
    # t of 2 degrees of freedom: 4.303; standard deviation of the logarithms: 0.1003
    assert found.interval == (math.floor(99.67 * math.exp(-0.2493)), math.floor(99.67 * math.exp(0.2493)))


def test_noise_that_explains_the_rounds_makes_the_interval_narrower():
    sizes = (97, 100, 103)
    noisy = together([Crossing(size, size, size + 1, 0.03) for size in sizes])
    without = together([Crossing(size, size, size + 1, 0.0) for size in sizes])
    assert noisy.interval and without.interval
    assert without.interval[0] < noisy.interval[0] <= noisy.interval[1] < without.interval[1]


def test_the_ratio_is_paired():
    found = ratio([capacity(size) for size in (30, 60, 90)], [capacity(size) for size in (10, 20, 30)])
    assert found.ratio == pytest.approx(3, rel=0.02) and found.interval and found.interval[0] and found.interval[1]
    assert found.interval[1] / found.interval[0] < 1.3


def test_the_ratio_is_open_where_a_ramp_is():
    high = Crossing(60, 60, math.inf, 0.0)
    above, below = ratio([high] * 3, [capacity(19)] * 3), ratio([capacity(19)] * 3, [high] * 3)
    assert above.interval and above.interval[1] is None and above.interval[0]
    assert below.interval and below.interval[0] is None and below.interval[1]


def test_a_fleet_that_misses_from_the_start_has_at_most_a_density():
    found = together([Crossing(9.5, 0, 10, 0.0)] * 3)
    assert found.at_most and found.interval and found.interval[0] == 0


def test_one_ramp_of_three_that_misses_from_the_start_leaves_a_lower_end():
    """A row of the headline said "at most 62" of a density whose ratio had the ends 2.5 and 3.2."""
    ramps = [Crossing(54.5, 54, 56, 0.02), Crossing(56.5, 56, 58, 0.02), Crossing(47.0, 0, 48, 0.02)]
    found, times = together(ramps), ratio(ramps, [Crossing(19.5, 19, 20, 0.0)] * 3)
    assert not found.at_most and found.interval and 30 < found.interval[0] < 54
    assert times.interval and times.interval[0] == pytest.approx(found.interval[0] / 19.5, rel=0.1)


def test_machines_that_agree_have_the_sum_of_their_whole_hosts():
    found = together([summed([capacity(19)] * 10)] * 3)
    assert (found.density, found.interval, found.span) == (190, (190, 190), (190, 190))
    assert summed([capacity(19)]) == pytest.approx(capacity(19))


def test_the_interval_of_a_sum_holds_walls_that_are_known_exactly():
    """Each machine was looked at some hosts before its wall, in each round at another size."""
    walls = (20, 41, 73, 118)
    looked = [(18, 38, 70, 114), (19, 40, 71, 116), (17, 39, 72, 113)]
    found = together(
        [summed([Crossing(math.sqrt(low * wall), low, wall, 0.0) for low, wall in zip(lows, walls)]) for lows in looked]
    )
    fits = sum(walls) - len(walls)
    assert found.interval and found.interval[0] <= fits <= found.interval[1] <= fits + 3 and found.span[1] == fits


def test_the_noise_of_machines_is_added_as_squares():
    assert summed([Crossing(50, 48, 52, 0.1)] * 4).scatter == pytest.approx(0.05, rel=0.01)


def test_a_sum_is_open_where_a_machine_ran_out_of_hosts():
    found = summed([capacity(19), Crossing(60, 60, math.inf, 0.0)])
    assert found.is_open and found.low == 79 and found.size == pytest.approx(79.24, abs=0.01)


def test_less_than_one_host_is_a_sum_too():
    assert summed([Crossing(0.6, 0, 1, 0.1)]) == pytest.approx(Crossing(0.6, 0, 1, 0.1))
