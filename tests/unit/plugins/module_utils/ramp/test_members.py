# SPDX-License-Identifier: GPL-3.0-or-later
"""What the client of a server has reported, and what its processes are."""

from __future__ import annotations

import os
import signal
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp import children
from ansible_collections.memstretch.density.plugins.module_utils.ramp.children import Child, Spawn
from ansible_collections.memstretch.density.plugins.module_utils.ramp.members import load_of


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


def wait_until(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_child_reads_what_it_is_given_and_its_output_is_kept(tmp_path):
    child = Child(
        Spawn(["/bin/sh", "-c", "cat; echo $NAME"], str(tmp_path / "out"), "given\n", environment={"NAME": "x"})
    )
    wait_until(child.ended)
    assert child.status == 0 and not child.was_killed and child.says() == "given x"


def test_a_program_that_cannot_run_says_so(tmp_path):
    child = Child(Spawn(["/no/such/program"], str(tmp_path / "out")))
    wait_until(child.ended)
    assert os.WEXITSTATUS(child.status) == 127 and "cannot run /no/such/program" in child.says()


def test_children_end_by_a_signal_and_those_that_ignore_it_are_killed(tmp_path):
    command = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    stubborn = Child(Spawn(["/bin/sh", "-c", command], str(tmp_path / "stubborn")))
    willing = Child(Spawn(["/bin/sleep", "60"], str(tmp_path / "willing")))
    wait_until(lambda: stubborn.says() == "ready")
    children.end([stubborn, willing], signal.SIGTERM, 0.2)
    assert stubborn.was_killed and os.WTERMSIG(willing.status) == signal.SIGTERM and not willing.was_killed


@pytest.mark.parametrize("fails", ["/no/such/group"])
def test_a_child_that_cannot_enter_its_group_does_not_run(tmp_path, fails):
    child = Child(Spawn(["/bin/echo", "ran"], str(tmp_path / "out"), entry=fails))
    wait_until(child.ended)
    assert child.status and "ran" not in child.says().split()
