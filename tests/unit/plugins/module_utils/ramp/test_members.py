# SPDX-License-Identifier: GPL-3.0-or-later
"""What the client of a server has reported."""

from __future__ import annotations

import types

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp import clients_lease
from ansible_collections.memstretch.density.plugins.module_utils.ramp.members import Member, load_of, why_ended


def bound(*slots):
    counts = {slot: slots.count(slot) for slot in slots}
    flat = [number for pair in sorted(counts.items()) for number in pair]
    return {
        "buckets": flat,
        "sum_ns": sum(slots),
        "min_ns": min(slots, default=None),
        "max_ns": max(slots, default=None),
    }


def part(intended, server, unanswered=0):
    reported = {"intended": bound(*intended), "server": bound(*server), "punctual": bound(*server)}
    for each in reported.values():
        each["count"] = sum(each["buckets"][1::2])
    return {"latency": reported, "unanswered": unanswered}


def test_the_seconds_of_a_window_are_added_up():
    load = load_of([part([10, 20], [5, 6]), part([20], [6], unanswered=1)])
    assert load["upper"] == {"counts": {10: 1, 20: 2}, "sum_ns": 50, "min_ns": 10, "max_ns": 20}
    assert load["lower"]["counts"] == {5: 1, 6: 2} and load["lost"] == 1
    assert load["seconds"] == [[2, 30, 11], [1, 20, 6]]


def test_a_second_without_requests_changes_no_figure():
    load = load_of([part([], []), part([10], [5])])
    assert load["upper"] == {"counts": {10: 1}, "sum_ns": 10, "min_ns": 10, "max_ns": 10}
    assert load["seconds"][0] == [0, 0, 0]


def test_nothing_that_was_reported_is_nothing():
    assert load_of([])["punctual"] == {"counts": {}, "sum_ns": 0, "min_ns": None, "max_ns": None}


@pytest.fixture
def lease(tmp_path):
    return clients_lease.ClientsLease(str(tmp_path / "lease"), 1.0)


def test_a_client_that_hears_nothing_names_the_busy_machine(lease):
    why = why_ended({"schema": 1, "ended": "lease", "error": None}, said='{"schema":1,"ended":"lease"}', lease=lease)
    assert "gave the conductor no CPU time" in why and "latency_benchmark_rate" in why and "{" not in why


def test_a_client_that_fails_says_why(lease):
    refused = {"schema": 1, "ended": "error", "error": {"message": "the server refused the password"}}
    assert why_ended(refused, said="...", lease=lease) == "the server refused the password"
    assert why_ended({}, said="Segmentation fault", lease=lease) == "Segmentation fault"


def test_a_client_that_was_killed_while_it_printed_its_report_has_none(tmp_path):
    output = tmp_path / "output"
    member = Member.__new__(Member)
    member.client = types.SimpleNamespace(output=str(output))
    for written, found in (
        ('{"schema":1,"ended"', None),
        ('{"schema":1,"ended":"lease"}\n', {"schema": 1, "ended": "lease"}),
    ):
        output.write_text(written, encoding="ascii")
        assert member.report() == found
