# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The balance of a Williams design, counted."""

from __future__ import annotations

import collections
import itertools

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.orders import williams_design


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7])
def test_each_arm_follows_each_other_equally_often_and_is_equally_often_in_each_place(size):
    rows = williams_design(size)
    pairs = collections.Counter(pair for row in rows for pair in itertools.pairwise(row))
    places = collections.Counter(place for row in rows for place in enumerate(row))
    assert set(pairs) == set(itertools.permutations(range(size), 2)) and len(set(pairs.values())) == 1
    assert set(places) == set(itertools.product(range(size), repeat=2)) and len(set(places.values())) == 1


def test_one_arm_has_one_order():
    assert williams_design(1)[0] == [0]
