# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many numbers in one integer."""

from __future__ import annotations

import array
import operator
import random
import sys

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run import lanes


def drawn(typecode, most, seed):
    chance = random.Random(seed)
    return array.array(typecode, [chance.randrange(most) for _number in range(1000)])


@pytest.mark.parametrize("typecode, most", [("I", 2**32 - 1), ("Q", 2**64 - 1)])
def test_one_addition_adds_all_lanes(typecode, most):
    several = [drawn(typecode, most // 8, seed) for seed in range(8)]
    total = sum(lanes.packed(array.array(typecode, each)) for each in several)
    found = lanes.unpacked(total, typecode)
    assert list(found) == [sum(column) for column in zip(*several)]


@pytest.mark.parametrize("typecode", ["I", "Q"])
def test_zeroes_at_the_end_are_left_out_and_those_before_are_not(typecode):
    packed = lanes.packed(array.array(typecode, [0, 5, 0, 7, 0, 0]))
    assert list(lanes.unpacked(packed, typecode)) == [0, 5, 0, 7]
    assert list(lanes.unpacked(0, typecode)) == []


def test_the_bytes_are_the_same_on_every_machine(monkeypatch):
    assert lanes.little_endian(array.array("I", [1, 2**31])) == bytes([1, 0, 0, 0, 0, 0, 0, 128])
    swapped = array.array("I", [1, 2**31])
    swapped.byteswap()  # as a machine with the other order holds them
    monkeypatch.setattr(sys, "byteorder", "big" if sys.byteorder == "little" else "little")
    assert lanes.little_endian(swapped) == bytes([1, 0, 0, 0, 0, 0, 0, 128])


def test_a_sum_that_does_not_fit_spills_into_the_next_lane():
    """Why fleet_sum empties its lanes in time."""
    packed = lanes.packed(array.array("I", [2**32 - 1, 0]))
    assert list(lanes.unpacked(operator.add(packed, 1), "I")) == [0, 1]
