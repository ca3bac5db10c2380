# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks that are set, stopped or wrong, planted into readings and stamps."""

from __future__ import annotations

import random

import pytest
from synthetic_fleets import START, record_run

from ansible_collections.memstretch.density.plugins.plugin_utils.run import clocks
from ansible_collections.memstretch.density.plugins.plugin_utils.run.clocks import Reading
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import summarise

# Half of an exchange over ssh.
UNCERTAINTY = 0.01
STEPS = [-3, -1, -0.1, 0.1, 1, 3]


@pytest.fixture
def exchange():
    """A function that reads the clock of a host that is off by some seconds, over a connection of random speed."""
    chance = random.Random(1)

    def read(at, off):
        before, there, back = at, chance.uniform(0.0002, 2 * UNCERTAINTY), chance.uniform(0.0002, 2 * UNCERTAINTY)
        return clocks.read(before, before + there + back, f"{before + there + off:.9f}\n")

    return read


def test_an_exchange_bounds_the_offset(exchange):
    for number in range(1000):
        off = number / 100 - 5
        reading = exchange(START, off)
        assert abs(reading.offset - off) <= reading.uncertainty + 2e-6


@pytest.mark.parametrize("text", ["", "nan", "inf", "1793000000", "1793000000.N", "1793000000.5 x", "-1.5"])
def test_what_is_not_a_time_is_no_reading(text):
    assert clocks.read(START, START + 0.01, text) is None


def test_a_banner_before_the_time_is_skipped():
    assert clocks.read(START, START + 0.01, f"Welcome\n{START}\n").offset == pytest.approx(-0.005)


def test_clocks_that_hold_are_never_accused_and_steps_are_found(exchange):
    """Crystals drift by up to 50 ppm each; an hour passes between the readings."""
    chance = random.Random(2)
    for _each in range(2000):
        seconds = chance.uniform(1, 3600)
        drift = chance.uniform(-100e-6, 100e-6) * seconds
        first = exchange(START, 0.5)
        assert clocks.moved(first, exchange(START + seconds, 0.5 + drift)) is None
    for step in STEPS:
        for _each in range(200):
            found = clocks.moved(exchange(START, 0.5), exchange(START + 60, 0.5 + step))
            assert found == pytest.approx(step, abs=4 * UNCERTAINTY)


@pytest.fixture
def fleet_run(begun, make_result):
    """A function that records a run of three hosts and returns its summary.

    Args:
        offset: called with a host and the index of a phase; how far its clock is ahead then. The index of the end of
            the run is 99.
        change: called with a phase, a host and its result.
        after: what was measured of the clocks after the last phase; the default is offset().
    """

    def phase_at(index):
        return START + 10 * (index - 1)

    def record(offset=lambda host, index: 0.0, change=lambda phase, host, result: result, after=None):
        for _host, each in begun["fleet"].items():
            each.update(clock_offset=0.0, clock_uncertainty=UNCERTAINTY, clock_read_at=START - 5)

        def measure(phase, number, host):
            off, start = offset(host, phase["index"]), phase_at(phase["index"])
            result = make_result(phase, number, start)
            # Hosts start when their own clock shows the start time.
            collected = Reading(result["finished_at"] - off + 0.2, off, UNCERTAINTY)
            return change(phase, host, {**result, "collected": collected._asdict()})

        def end(recorder):
            at = phase_at(14)
            default = {host: Reading(at, offset(host, 99), UNCERTAINTY)._asdict() for host in begun["expected"]}
            recorder.keep_clocks(after or default, is_interrupted=False)

        return summarise(record_run(begun, measure, start_of=lambda phase: phase_at(phase["index"]), end=end)[0])

    return record


def test_clocks_that_hold_are_valid(fleet_run):
    summary = fleet_run()
    assert summary["verdict"] == "pass", summary["reasons"]


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_that_moves_in_a_phase_makes_the_run_invalid_and_names_the_host(fleet_run, step):
    """As after a VM was paused (it lags) or its clock was set, with the same readings of its own clocks."""
    summary = fleet_run(lambda host, index: step if host == "b" and index >= 6 else 0.0)
    assert summary["verdict"] == "invalid"
    assert "phase 6 of 13" in summary["reasons"][0]
    assert f"b: its clock moved by {step:+.3f} s against the controller's" in summary["reasons"][0]
    assert not [reason for reason in summary["reasons"] if "a: its" in reason or "c: its" in reason]


@pytest.mark.parametrize("index, found_in", [(1, 3), (5, 6)])  # the fill, a warm-up: nothing is concluded from them
def test_a_clock_that_moved_before_a_measured_phase_is_found_in_it(fleet_run, index, found_in):
    summary = fleet_run(lambda host, now: -1.0 if host == "c" and now >= index else 0.0)
    assert summary["verdict"] == "invalid" and f"phase {found_in} of 13" in summary["reasons"][0]
    assert "c: its clock moved by -1.000 s" in summary["reasons"][0]


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_that_moves_after_the_last_phase_makes_the_run_invalid(fleet_run, step):
    """It may have moved in the phase, after its result was read."""
    summary = fleet_run(lambda host, index: step if host == "a" and index == 99 else 0.0)
    assert summary["verdict"] == "invalid"
    assert summary["reasons"][0].startswith(f"a: its clock moved by {step:+.3f} s against the controller's during")


def test_a_clock_that_cannot_be_measured_again_makes_the_run_invalid(fleet_run):
    after = {host: Reading(START + 200, 0.0, UNCERTAINTY)._asdict() for host in "ab"}
    summary = fleet_run(after={**after, "c": {"error": "timed out"}})
    assert summary["verdict"] == "invalid"
    assert summary["reasons"][0].startswith("c: its clock could not be measured again after the last phase: timed out")


@pytest.mark.parametrize("seconds", [0.1, 1, 3])
@pytest.mark.parametrize(
    "name, direction, words",
    [
        ("ready_at", -1, "before the launch"),
        ("started_at", -1, "before the launch"),
        ("finished_at", 1, "after the collection"),
    ],
)
def test_stamps_outside_of_launch_and_collection_are_invalid(fleet_run, name, direction, words, seconds):
    """The controller launched the phase one second before its start, and collected it 0.2 s after its end."""

    def planted(phase, host, result):
        if (phase["index"], host) != (4, "b"):
            return result
        bound = result["started_at"] - 1 if direction < 0 else result["collected"]["at"]
        return {**result, name: bound + direction * seconds}

    summary = fleet_run(change=planted)
    assert summary["verdict"] == "invalid"
    (found,) = [reason for reason in summary["reasons"] if "by the controller's clock" in reason]
    assert f"b: its {name} is {seconds:.3f} s {words}" in found


def test_a_large_offset_that_stays_is_corrected(begun, fleet_run, make_result):
    """Stamps of a host whose clock is 4 s ahead all the time lie within launch and collection."""
    for _host, each in begun["fleet"].items():
        each.update(clock_offset=4.0, clock_correction=4.0, clock_uncertainty=UNCERTAINTY, clock_read_at=START - 5)
    corrected = clocks.HostClocks(begun["fleet"])
    result = make_result(begun["phases"][2], 0, START + 4)
    collected = Reading(START + 1.5, 4.0, UNCERTAINTY)._asdict()
    assert corrected.problems("a", {**result, "collected": collected}, START - 1) == []
    uncorrected = {**result, "collected": {**collected, "offset": 0.0}}
    assert corrected.problems("a", uncorrected, START - 1)


def test_a_host_whose_clock_can_no_longer_be_read_is_named(fleet_run):
    def unread(phase, host, result):
        return {**result, "collected": None} if (phase["index"], host) == (7, "c") else result

    summary = fleet_run(change=unread)
    assert summary["verdict"] == "invalid" and "c: its clock could not be read with its result" in summary["reasons"][0]


def test_results_without_readings_are_not_accused(begun, make_result):
    """Those of custom playbooks."""
    assert clocks.HostClocks(begun["fleet"]).problems("a", make_result(begun["phases"][2]), START - 1) == []
    assert clocks.changes({"sessions": [{"id": "1"}]}) == {} and clocks.changes({}) == {}
