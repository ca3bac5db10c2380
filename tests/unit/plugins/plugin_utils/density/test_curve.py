# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import (
    CAPACITY,
    Excess,
    curve,
    without_spikes,
)

FLEET, REFERENCES = ("fleet", "p99_us"), ("references", "p99_us")


def excesses(fleet, references):
    return [
        Excess(size, {FLEET: 3 * math.log(size / fleet), REFERENCES: 3 * math.log(size / references)})
        for size in range(20, 80)
    ]


def test_the_first_criterion_to_cross_decides():
    memory, cpus = curve(excesses(40.5, 60.5)), curve(excesses(60.5, 40.5))
    assert memory and cpus and memory.decided_by == FLEET and cpus.decided_by == REFERENCES
    assert memory.crossing.size == pytest.approx(40.5, rel=0.01) == cpus.crossing.size
    assert cpus.fleet_alone and cpus.fleet_alone.size == pytest.approx(60.5, rel=0.01)


def test_a_wall_before_any_crossing_is_capacity():
    found = curve([each for each in excesses(90, 95) if each.size < 60], wall=60)
    assert found and found.decided_by == CAPACITY and found.crossing.low == 59


def test_a_crossing_before_the_wall_is_no_capacity():
    found = curve(excesses(40.5, 60.5), wall=80)
    assert found and found.decided_by == FLEET


def test_a_ramp_without_an_end_is_decided_by_nothing():
    found = curve([each for each in excesses(90, 95) if each.size < 60])
    assert found and found.decided_by is None and found.crossing.is_open


def test_moved_limits_move_the_crossing():
    found = curve(excesses(40.5, 60.5), shift=math.log(1.1))
    assert found and found.crossing.size == pytest.approx(40.5 * 1.1 ** (1 / 3), rel=0.01)
    assert curve([]) is None


def test_single_slow_references_move_no_crossing():
    slow = [
        Excess(each.size, {**each.of, REFERENCES: each.of[REFERENCES] + (2.0 if each.size % 7 == 0 else 0.0)})
        for each in excesses(90, 50.5)
    ]
    found = curve(slow)
    assert found and found.decided_by == REFERENCES and found.crossing.size == pytest.approx(50.5, rel=0.03)
    assert found.crossing.scatter > curve(excesses(90, 50.5)).crossing.scatter, "it is known less well"


def test_a_running_median_leaves_a_rising_curve_alone_and_takes_spikes():
    rising = [(size, 0.1 * size) for size in range(10)] + [(10, 9.0)]
    assert without_spikes(reversed(rising)) == rising
    assert without_spikes([(1, 0.0), (2, 0.1), (3, 5.0), (4, 0.3), (5, 0.4)])[2] == (3, 0.3)
