# SPDX-License-Identifier: GPL-3.0-or-later
"""A phase that was measured is finished, whatever came of it."""

from __future__ import annotations

import pytest
from synthetic_fleets import START, begun_run, latencies, record_run, run_config

from ansible_collections.memstretch.density.plugins.plugin_utils.run import progress


def finished(directory):
    """Return the indices of the phases that a resumed run keeps."""
    phases = directory.read_json("run.json")["phases"]
    return [phase["index"] for phase in progress.mark_finished(directory, phases) if phase["finished"]]


def reason(directory):
    return progress.finished_because(directory, directory.read_json("run.json"))


def test_resuming_keeps_measured_phases_and_warms_up_unfinished_cells_again(record):
    # 13 phases: fill; then warm-up and two iterations for each of the cells 2-4, 5-7, 8-10, 11-13
    directory = record(skip=(7, 8, 9, 10, 11, 12, 13))[0]
    assert finished(directory) == [1, 2, 3, 4, 6]
    assert reason(directory) is None


def test_a_run_of_which_all_phases_were_measured_is_finished(record):
    directory = record()[0]
    assert finished(directory) == list(range(1, 14))
    assert reason(directory) == "all its phases were measured"


@pytest.mark.parametrize("index", [3, 13])
def test_an_invalid_phase_is_not_measured_again(record, index):
    def other_rate(phase, host, result):
        settings = {**result["settings"], "rate": 999}
        return {**result, "settings": settings} if (phase["index"], host) == (index, "b") else result

    directory = record(other_rate)[0]
    assert not directory.read_phase(directory.read_json("run.json")["phases"][index - 1])["valid"]
    assert finished(directory) == list(range(1, 14))
    assert reason(directory) == "all its phases were measured"
    interrupted = record(other_rate, skip=(12, 13), name="interrupted")[0]
    assert finished(interrupted) == list(range(1, 11)) and reason(interrupted) is None


@pytest.mark.parametrize("index", [1, 5, 6])  # the fill, a warm-up, an iteration
def test_a_run_that_lost_a_host_is_finished(record, index):
    directory = record(
        lambda phase, host, result: "Redis died" if phase["index"] == index and host == "c" else result,
        skip=range(index + 1, 14),
    )[0]
    assert reason(directory).startswith(f"it ended when hosts failed in phase {index} of 13 ")
    assert reason(directory).endswith(": c")


def test_a_run_that_lost_a_host_as_a_cell_was_warmed_up_again_is_finished(begun, record, make_result):
    record(skip=range(7, 14))

    def lost(phase, number, host):
        return "Redis died" if host == "a" else make_result(phase, number)

    directory = record_run({**begun, "resumed": True}, lost, skip={1, 2, 3, 4, *range(6, 14)})[0]
    assert "failed in phase 5 of 13" in reason(directory)


def test_a_run_that_stopped_early_is_finished(tmp_path, make_result):
    """The same command must begin a new run, not resume this one forever with nothing to measure."""
    begun = begun_run(tmp_path / "run", run_config(stop_when_failed=True), ["a"])

    def measure(phase, number, host):
        slow = latencies(average_us=5000) if phase["kind"] == "iteration" else None
        return make_result(phase, number, values=slow)

    directory = record_run(begun, measure, skip=range(4, 14))[0]
    assert reason(directory).startswith("stopped early: a can no longer meet the SLO")


def test_a_run_whose_data_is_gone_cannot_be_continued(record):
    directory = record(skip=(12, 13))[0]
    phases = directory.read_json("run.json")["phases"]
    fleet = {host: {"keys": 1000} for host in "abc"}
    assert progress.data_is_gone(directory, phases, fleet, 1000) is None
    fleet["b"] = {"keys": 0}
    gone = progress.data_is_gone(directory, phases, fleet, 1000)
    assert gone == "the data of its fill is gone: b has 0 of 1,000 keys"
    # Nothing was filled yet, so nothing can be gone.
    assert progress.data_is_gone(record(skip=range(1, 14), name="new")[0], phases, fleet, 1000) is None


def test_the_times_of_a_synthetic_run_are_plausible(record):
    """Else the tests above would look at runs that are invalid for another reason."""
    document = record()[0].read_phase({"index": 3, "name": "i0-r100-1"})
    assert document["valid"] and document["started_at"] == START
