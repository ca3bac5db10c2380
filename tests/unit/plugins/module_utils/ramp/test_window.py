# SPDX-License-Identifier: GPL-3.0-or-later
"""A window in short, and as its record has it."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp.members import load_of
from ansible_collections.memstretch.density.plugins.module_utils.ramp.window import (
    encoded,
    figures,
    second_of,
    was_steady,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import decode

from .test_machine import MOMENTS
from .test_members import part

SERVERS = {"redis1": load_of([part([10, 20], [5, 6])]), "redis2": load_of([part([30], [7])])}
MACHINE = {"page_ins": 300, "page_outs": 300, "tier_cpu_seconds": 0.5}


def test_figures_are_those_of_all_servers_by_their_lower_bounds_and_rates_a_second():
    found = figures(SERVERS, {}, MACHINE, MOMENTS)
    assert found.fleet_avg == pytest.approx(6) and 6 <= found.fleet_p99 <= 8
    assert (found.reference_avg, found.reference_p99) == (None, None)
    assert (found.page_ins, found.tier_cpu) == (150, 0.25)


def test_a_client_that_was_late_by_all_of_its_requests_says_nothing_about_the_server():
    late = {"redis1": load_of([part([10**9, 10**9], [0, 0])])}
    found = figures(late, late, MACHINE, MOMENTS)
    assert found[:4] == (None, None, None, None)


def test_the_record_of_a_window_has_whole_histograms():
    record = encoded(SERVERS["redis1"])
    assert record["upper"]["count"] == 2 and decode(record["upper"]["histogram"]) == {10: 1, 20: 1}


def test_a_server_that_has_answered_nothing_has_a_histogram_that_the_controller_accepts():
    nothing = encoded(load_of([]))["upper"]
    assert decode(nothing.pop("histogram")) == {}
    assert nothing == {"count": 0, "sum_ns": 0, "min_ns": None, "max_ns": None}


def test_a_second_is_that_of_all_servers_together():
    fleet = [{7: part([10, 20], [5, 6]), 8: part([99], [99])}, {7: part([30], [7])}, {8: part([98], [98])}]
    second = second_of(7, fleet, [])
    assert set(second) == {"fleet", "references"} and set(second["fleet"]) == {"upper", "lower", "punctual"}
    assert decode(second["fleet"]["upper"]["histogram"]) == {10: 1, 20: 1, 30: 1}
    assert second["fleet"]["lower"]["sum_ns"] == 18 and second["references"]["upper"]["count"] == 0


@pytest.mark.parametrize(("page_outs", "steady"), [(0, True), (300, True), (4000, False)])
def test_a_window_of_a_hold_says_whether_reclaim_was_steady(page_outs, steady):
    assert was_steady({"seconds": 2, "machines": {"": {**MACHINE, "page_outs": page_outs}}}) is steady
