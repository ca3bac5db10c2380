# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, mark_finished
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import summarise

from ..conftest import START, latencies


def test_a_run_in_which_all_is_well_passes(record):
    directory, said = record()
    summary = summarise(directory)
    assert summary["verdict"] == "pass"
    assert summary["reasons"] == []
    assert summary["fleet"] == {"expected": 3, "reported": 3, "failed": []}
    assert [(cell["influence"], cell["read_mix"]) for cell in summary["cells"]] == [
        (0, 100),
        (0, 70),
        (10, 100),
        (10, 70),
    ]
    for cell in summary["cells"]:
        assert cell["valid"] and cell["iterations"] == 2 and cell["hosts_within_slo"] == 3 and cell["within_slo"]
        assert cell["response"]["count"] == 2 * 3 * 1000
        assert cell["brief"]["hosts"] == 3
    assert len([line for line in said if line.startswith("[")]) == 2 * 13


def test_hosts_are_counted_by_whether_they_share_a_cpu(record):
    def place(phase, host, result):
        shares = {"a": "always", "b": "never" if phase["index"] == 3 else "always", "c": None}[host]
        return {**result, "placement": {"shares_cpu": shares if phase["kind"] == "iteration" else "possibly"}}

    directory, dummy = record(place)
    summary = summarise(directory)
    assert summary["placement"] == {
        "requested": "any",
        "shares_cpu": {"always": 1, "possibly": 1, "never": 0, "unknown": 1},
    }
    lines = report_text.table(summary, directory.path)
    assert (
        "Client's CPU: any requested; shared with Redis always on 1, possibly on 1, unknown on 1 of the hosts"
        in lines
    )


def test_the_contract_of_summary_json(record):
    summary = summarise(record()[0])
    assert {
        "schema",
        "run_id",
        "profile",
        "started_at",
        "finished_at",
        "fleet",
        "slo",
        "verdict",
        "reasons",
        "cells",
    } <= set(summary)
    assert set(summary["slo"]) == {"avg_us", "p99_us", "basis"}
    cell = summary["cells"][0]
    assert {
        "influence",
        "read_mix",
        "valid",
        "overlap",
        "achieved_rate_ratio",
        "iterations",
        "hosts_within_slo",
        "worst_host",
        "brief",
        "service",
        "response",
        "intended",
        "lateness",
    } <= set(cell)
    assert set(cell["worst_host"]) == {"name", "avg_us", "p99_us"}
    assert set(cell["brief"]) == {"hosts", "avg_ms", "min_ms", "p95_ms", "p99_ms", "max_ms"}
    assert set(cell["response"]) == {"count", "avg_us", "min_us", "p50_us", "p95_us", "p99_us", "p999_us", "max_us"}


def test_one_slow_host_fails_its_cell_and_is_named(record, make_result):
    def slow(phase, host, result):
        if host == "b" and phase.get("influence") == 10 and phase["read_mix"] == 70:
            return make_result(phase, 0, START, values=latencies(average_us=60))
        return result

    directory, dummy = record(slow)
    summary = summarise(directory)
    assert summary["verdict"] == "fail"
    assert len(summary["reasons"]) == 1 and "influence 10, 70 % GET: 1 of 3 hosts miss" in summary["reasons"][0]
    assert summary["cells"][3]["worst_host"]["name"] == "b"
    assert summary["cells"][3]["hosts_within_slo"] == 2
    assert summarise(directory, {"avg_us": 100, "p99_us": 1000})["verdict"] == "pass"


def test_a_slow_warm_up_does_not_count(record, make_result):
    def cold(phase, host, result):
        return make_result(phase, 0, START, values=latencies(average_us=9000)) if phase["kind"] == "warmup" else result

    assert summarise(record(cold)[0])["verdict"] == "pass"


@pytest.mark.parametrize("index, kind", [(1, "fill"), (2, "warm-up"), (4, "iteration")])
def test_a_lost_host_makes_the_run_invalid_whatever_the_phase(record, index, kind):
    directory, said = record(
        lambda phase, host, result: "Redis died" if phase["index"] == index and host == "c" else result
    )
    summary = summarise(directory)
    assert summary["verdict"] == "invalid"
    assert summary["fleet"] == {"expected": 3, "reported": 2, "failed": ["c"]}
    assert "c: Redis died" in summary["reasons"][0] and kind in summary["reasons"][0]
    assert any("INVALID" in line for line in said)


def test_a_missing_phase_makes_the_run_invalid(record):
    summary = summarise(record(skip=(5,))[0])
    assert summary["verdict"] == "invalid"
    assert "phase 5 of 13" in summary["reasons"][0] and "was not measured" in summary["reasons"][0]


def test_an_invalid_phase_never_turns_into_a_pass(record):
    def hasty(phase, host, result):
        return {**result, "rate": {"target": 1000, "achieved": 900}} if phase["index"] == 3 and host == "a" else result

    summary = summarise(record(hasty)[0])
    assert summary["verdict"] == "invalid"
    assert not summary["cells"][0]["valid"] and not summary["cells"][0]["within_slo"]
    assert summary["cells"][1]["valid"]


def test_the_cells_brief_is_the_mean_over_hosts_and_iterations(record):
    directory, dummy = record()
    cell = summarise(directory)["cells"][0]
    phases = [phase for phase in directory.read_json("run.json")["phases"] if phase["kind"] == "iteration"][:2]
    service = [
        result["latency"]["service"] for phase in phases for result in directory.read_phase(phase)["hosts"].values()
    ]
    assert len(service) == 6
    assert cell["brief"]["p99_ms"] == round(sum(each["p99_us"] for each in service) / 6 / 1000, 3)
    assert cell["brief"]["avg_ms"] == round(sum(each["avg_us"] for each in service) / 6 / 1000, 3)
    assert cell["brief"]["max_ms"] == round(max(each["max_us"] for each in service) / 1000, 3)


def finished(directory, filled=True):
    phases = directory.read_json("run.json")["phases"]
    return [phase["index"] for phase in mark_finished(directory, phases, filled) if phase["finished"]]


def test_resuming_keeps_what_is_finished_and_warms_up_open_cells_again(record):
    # 13 phases: fill; then warm-up and two iterations for each of the cells 2-4, 5-7, 8-10, 11-13
    assert finished(record(skip=(7, 8, 9, 10, 11, 12, 13))[0]) == [1, 2, 3, 4, 6]
    assert finished(record()[0]) == list(range(1, 14))


def test_resuming_measures_phases_with_lost_hosts_again(record):
    directory, dummy = record(
        lambda phase, host, result: "Redis died" if phase["index"] == 4 and host == "c" else result
    )
    assert finished(directory) == [1, 3, *range(5, 14)]


def test_a_fleet_whose_data_is_gone_is_filled_again(record):
    assert finished(record(skip=(12, 13))[0], filled=False) == list(range(2, 11))


def test_a_resumed_run_remembers_its_sessions(record, begun):
    directory, dummy = record()
    recorder = RunRecorder({**begun, "session": "2", "resumed": True}, lambda line: None)
    recorder.close()
    assert [session["id"] for session in directory.read_json("run.json")["sessions"]] == ["1", "2"]


def test_the_table_shows_what_a_reader_needs(record):
    directory, dummy = record()
    text = "\n".join(report_text.table(summarise(directory), directory.path))
    assert "Verdict: PASS (host not tuned)" in text
    assert "indicative" in text
    assert "3 of 3" in text
    assert "The brief's six figures" in text


@pytest.mark.parametrize("seconds, text", [(0, "0:00"), (65, "1:05"), (7265.4, "2:01:05"), (-3, "0:00")])
def test_durations(seconds, text):
    assert report_text.clock(seconds) == text


def test_reading_a_directory_that_holds_no_run(tmp_path):
    with pytest.raises(Exception, match="run.json"):
        summarise(RunDirectory(str(tmp_path), "nothing"))
