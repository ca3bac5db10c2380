# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps to a DRAM budget, on hosts whose compression is known. tests/local does the same with real Redis and zram."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.budget_fit import State, fit

MIB = 2**20
BUDGET = 100 * MIB
FLOOR = 5 * MIB


class Host:
    """A group with this much memory; what is beyond its limit is stored outside of it, with a compression of ratio."""

    def __init__(self, memory, ratio, refuses_below=0):
        self.memory, self.ratio, self.refuses_below = memory, ratio, refuses_below
        self.limit, self.limits = BUDGET, []

    def read(self):
        group = min(self.limit, self.memory)
        # The pages that were touched least go first; with a list of ratios, each is for an equal part of the memory.
        beyond, outside = self.memory - group, 0.0
        ratios = self.ratio if isinstance(self.ratio, list) else [self.ratio]
        for ratio in ratios:
            part = min(beyond, self.memory / len(ratios))
            outside, beyond = outside + part / ratio, beyond - part
        return State(int(group), int(outside))

    def set_limit(self, limit):
        if limit < self.refuses_below:
            return False
        self.limit = limit
        self.limits.append(limit)
        return True

    def fit(self, overflows=False):
        return fit(BUDGET, self.limit, FLOOR, self.read, self.set_limit, overflows)

    @property
    def charged(self):
        return sum(self.read()) / BUDGET


@pytest.mark.parametrize("memory, ratio", [(150, 3), (200, 3), (280, 3), (330, 3.6), (140, 1.5), (180, [5, 2.5, 1.5])])
def test_a_fleet_that_compresses_is_brought_to_98_to_100_percent(memory, ratio):
    host = Host(memory * MIB, ratio)
    found = host.fit()
    assert found.fits and found.why == "" and 0.98 <= host.charged <= 1.0, host.charged
    assert found.limit == host.limit >= FLOOR and found.steps == len(host.limits) <= 15
    assert host.limits == sorted(host.limits, reverse=True), "it never swings"


@pytest.mark.parametrize("ratio", [1.0, 1.05, 0.97, [3, 1.0, 1.0, 1.0]])
def test_a_fleet_that_does_not_compress_does_not_fit(ratio):
    found = Host(250 * MIB, ratio).fit()
    assert not found.fits and "at least 1.1:1 is needed" in found.why and found.ratio < 1.1


def test_pages_that_do_not_compress_fill_zram_and_go_on_to_the_drive_behind_it():
    ratios = [1.0, 1e12]  # zram has room for half of the memory
    host = Host(150 * MIB, ratios)
    found = host.fit(overflows=True)
    assert found.fits and 0.98 <= host.charged <= 1.0 and found.steps <= 15, (host.charged, found)
    assert not Host(150 * MIB, ratios).fit().fits
    too_much = Host(250 * MIB, ratios).fit(overflows=True)  # zram alone would take more than the budget
    assert not too_much.fits and "cannot be lowered further" in too_much.why


def test_a_fleet_that_is_too_large_ends_at_the_floor():
    host = Host(400 * MIB, 3)
    found = host.fit()
    assert not found.fits and "cannot be lowered further" in found.why and host.limit == FLOOR


def test_a_kernel_that_cannot_move_more_pages_ends_the_steps():
    found = Host(200 * MIB, 3, refuses_below=60 * MIB).fit()
    assert not found.fits and "is swap full?" in found.why


def test_swap_on_a_drive_and_a_fleet_within_the_budget_need_no_step():
    for host in (Host(250 * MIB, 1e12), Host(99 * MIB, 3), Host(30 * MIB, 3)):
        found = host.fit()
        assert found.fits and found.steps == 0 and host.limit == BUDGET


def test_a_limit_that_is_too_low_is_raised_but_not_above_the_budget():
    host = Host(150 * MIB, 3)
    host.limit = 40 * MIB
    found = host.fit()
    assert found.fits and 40 * MIB < found.limit == host.limit and host.charged <= 1.0
    host = Host(250 * MIB, 1e12)  # on a drive
    host.limit = 95 * MIB
    assert host.fit().limit == host.limit <= BUDGET
