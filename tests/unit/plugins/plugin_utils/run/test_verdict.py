# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
import tracemalloc

import jsonschema
import pytest
from synthetic_fleets import START, begun_run, edit_run, fleet_run, host_result, latencies, record_run, run_config

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import FIGURES
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import (
    Futility,
    evaluate,
    evaluate_together,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import summarise as work_out

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schemas/summary.json").read_text(encoding="utf-8"))


def summarise(*arguments):
    """Return the summary of a run, which must fit the published schema."""
    summary = work_out(*arguments)
    jsonschema.validate(json.loads(json.dumps(summary)), SCHEMA)
    return summary


def test_a_run_without_problems_passes(record):
    directory, printed = record()
    summary = summarise(directory)
    assert summary["verdict"] == "pass"
    assert summary["reasons"] == []
    assert summary["fleet"] == {"expected": 3, "reported": 3, "failed": [], "killed": 0}
    assert [(cell["influence"], cell["read_mix"]) for cell in summary["cells"]] == [
        (0, 100),
        (0, 70),
        (10, 100),
        (10, 70),
    ]
    for cell in summary["cells"]:
        assert cell["valid"] and cell["iterations"] == 2 and cell["hosts_within_slo"] == 3 and cell["within_slo"]
        assert cell["intended"]["count"] == 2 * 3 * 1000
        assert cell["brief"]["hosts"] == 3
    assert len([line for line in printed if line.startswith("[")]) == 1 + 13, "the fill began, and each phase has ended"


def test_placement_counts_hosts_that_share_a_cpu(record):
    def place(phase, host, result):
        shares = {"a": "always", "b": "never" if phase["index"] == 3 else "always", "c": None}[host]
        return {**result, "placement": {"shares_cpu": shares if phase["kind"] == "iteration" else "possibly"}}

    directory = record(place)[0]
    summary = summarise(directory)
    assert summary["placement"] == {
        "requested": "any",
        "shares_cpu": {"always": 1, "possibly": 1, "never": 0, "unknown": 1},
    }
    lines = report_text.table(summary, directory.path)
    assert (
        "Client's CPU: any requested; shared with Redis always on 1, possibly on 1, unknown on 1 of the hosts" in lines
    )


def test_keys_of_summary_json(record):
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
    assert summary["schema"] == 1 and set(summary["slo"]) == {"avg_us", "p99_us"}
    cell = summary["cells"][0]
    assert {
        "influence",
        "read_mix",
        "valid",
        "overlap",
        "achieved_rate_ratio",
        "iterations",
        "arrivals",
        "verdict",
        "hosts_within_slo",
        "hosts",
        "worst_host",
        "brief",
        "service",
        "server",
        "response",
        "intended",
        "lateness",
        "wakeup",
    } <= set(cell)
    assert cell["hosts"] == {"pass": 3, "fail": 0, "undecided": 0}
    assert set(cell["worst_host"]) == {"name", "answer", "avg_us", "p99_us", "lower", "upper", "upper_by", "lost"}
    assert set(cell["brief"]) == {"hosts", "avg_ms", "min_ms", "p95_ms", "p99_ms", "max_ms"}
    assert set(cell["response"]) == {"count", "avg_us", "min_us", "p50_us", "p95_us", "p99_us", "p999_us", "max_us"}


def test_one_slow_host_fails_its_cell_and_is_named(record, make_result):
    def slow(phase, host, result):
        if host == "b" and phase.get("influence") == 10 and phase["read_mix"] == 70:
            return make_result(phase, 0, START, values=latencies(average_us=60))
        return result

    directory = record(slow)[0]
    summary = summarise(directory)
    assert summary["verdict"] == "fail"
    assert len(summary["reasons"]) == 1 and "influence 10, 70 % GET: 1 of 3 hosts miss" in summary["reasons"][0]
    assert summary["cells"][3]["worst_host"]["name"] == "b"
    assert summary["cells"][3]["hosts_within_slo"] == 2
    assert summarise(directory, {"avg_us": 100, "p99_us": 1000})["verdict"] == "pass"


def test_a_fleet_that_misses_the_slo_as_a_whole_fails_though_no_host_stands_out(record, make_result):
    def tail(phase, host, result):
        if phase["kind"] != "iteration" or phase["index"] > 4:
            return result
        return make_result(phase, 0, START, values=[400_000] * 12 + [20_000] * 988)  # 1.2 % of 1,000 requests

    summary = summarise(record(tail)[0])
    cell = summary["cells"][0]
    assert (summary["verdict"], cell["verdict"], cell["fleet"]) == ("fail", "fail", "fail")
    assert cell["hosts"]["pass"] == 3 and not cell["within_slo"]
    assert "all hosts together miss the SLO" in summary["reasons"][0] and "no host stands out" in summary["reasons"][0]


def test_a_slow_warm_up_does_not_count(record, make_result):
    def cold(phase, host, result):
        return make_result(phase, 0, START, values=latencies(average_us=9000)) if phase["kind"] == "warmup" else result

    assert summarise(record(cold)[0])["verdict"] == "pass"


@pytest.mark.parametrize("index, kind", [(1, "fill"), (2, "warm-up"), (4, "iteration")])
def test_a_lost_host_makes_the_run_invalid_whatever_the_phase(record, index, kind):
    directory, printed = record(
        lambda phase, host, result: "Redis died" if phase["index"] == index and host == "c" else result
    )
    summary = summarise(directory)
    assert summary["verdict"] == "invalid"
    assert summary["fleet"] == {"expected": 3, "reported": 2, "failed": ["c"], "killed": 0}
    assert "c: Redis died" in summary["reasons"][0] and kind in summary["reasons"][0]
    assert any("INVALID" in line for line in printed)


def test_a_missing_phase_makes_the_run_invalid(record):
    summary = summarise(record(skip=(5,))[0])
    assert summary["verdict"] == "invalid"
    assert "phase 5 of 13" in summary["reasons"][0] and "was not measured" in summary["reasons"][0]


def test_an_invalid_phase_never_turns_into_a_pass(record):
    def alone(phase, host, result):
        other = {**result, "settings": {**result["settings"], "value_size": 9}}
        return other if phase["index"] == 3 and host == "a" else result

    summary = summarise(record(alone)[0])
    assert summary["verdict"] == "invalid"
    assert not summary["cells"][0]["valid"] and not summary["cells"][0]["within_slo"]
    assert summary["cells"][1]["valid"]


def bounds(result, lower_us, upper_us, **changes):
    """Return a result whose lower bound is lower_us for each request, and its upper bound upper_us."""
    latency = {
        name: Histogram.from_values([1000 * us] * 1000).figures()
        for name, us in (
            ("server", lower_us),
            ("response", lower_us),
            ("intended", upper_us),
            ("lateness", upper_us - lower_us),
        )
    }
    return {**result, "latency": {**result["latency"], **latency}, **changes}


def of_host_b(change):
    """Return a change of the results of host b in the cell with influence 10 and 70 % GET."""
    return lambda phase, host, result: (
        change(result)
        if host == "b" and phase["kind"] == "iteration" and (phase["influence"], phase["read_mix"]) == (10, 70)
        else result
    )


def test_a_host_between_its_bounds_is_undecided_and_the_client_is_named(record):
    directory, _printed = record(of_host_b(lambda result: bounds(result, 20, 400)))
    summary = summarise(directory)
    assert summary["verdict"] == "undecided"
    assert [cell["verdict"] for cell in summary["cells"]] == ["pass"] * 3 + ["undecided"]
    assert summary["cells"][3]["hosts"] == {"pass": 2, "fail": 0, "undecided": 1}
    assert summary["cells"][3]["worst_host"]["lower"]["p99_us"] < 21
    (reason,) = summary["reasons"]
    assert "influence 10, 70 % GET: 1 of 3 hosts are undecided" in reason
    assert "the client itself was up to 380 us late (p99)" in reason and "latency_benchmark_cpu" in reason


def test_an_overloaded_server_fails(record):
    summary = summarise(record(of_host_b(lambda result: bounds(result, 5000, 6000, cut_off=True)))[0])
    assert summary["verdict"] == "fail" and "worst b with at least avg 5,000.0 us" in summary["reasons"][0]


def test_a_host_that_lost_requests_cannot_pass(record):
    lost = {"sent": 1000, "ok": 999, "gets": 1000, "sets": 0, "lost": 1, "errors": {"OOM": 1}}
    summary = summarise(record(of_host_b(lambda result: bounds(result, 20, 20, requests=lost)))[0])
    assert summary["verdict"] == "undecided" and "2 requests failed or got no reply in time" in summary["reasons"][0]


def test_results_without_time_stamps_can_pass_or_be_undecided_but_not_fail(record):
    """Those through a Unix socket have none."""

    def unstamped(change):
        def without_stamps(phase, host, result):
            result = change(phase, host, result)
            known = ("service", "response", "intended", "lateness")
            return (
                result
                if phase["kind"] == "fill"
                else {**result, "latency": {name: result["latency"][name] for name in known}, "requests": None}
            )

        return without_stamps

    assert summarise(record(unstamped(lambda phase, host, result: result))[0])["verdict"] == "pass"
    slow = unstamped(of_host_b(lambda result: bounds(result, 5000, 5000)))
    summary = summarise(record(slow, name="slow")[0])
    assert summary["verdict"] == "undecided" and "no time stamps" in summary["reasons"][0]


@pytest.mark.parametrize("index, kind", [(1, "fill"), (2, "warm-up"), (4, "iteration")])
def test_a_redis_that_dies_under_the_load_fails_the_run(record, index, kind):
    died = {"requests": {"sent": 5}, "error": {"kind": "lost", "message": "connection lost after 5 replies"}}
    directory, printed = record(
        lambda phase, host, result: ("Redis died", died) if phase["index"] == index and host == "c" else result,
        skip=range(index + 1, 14),
    )
    summary = summarise(directory)
    assert summary["verdict"] == "fail"
    assert kind in summary["reasons"][0] and "c died under the load: Redis died" in summary["reasons"][0]
    assert any("c died under the load" in line for line in printed)


@pytest.mark.parametrize("index", [1, 2, 4])
def test_a_redis_that_is_gone_after_the_preflight_fails_the_run(record, index):
    gone = {"error": {"kind": "connect", "message": "Connection refused"}}
    directory, printed = record(
        lambda phase, host, result: ("Redis is gone", gone) if phase["index"] == index and host == "c" else result,
        skip=range(index + 1, 14),
    )
    summary = summarise(directory)
    problem = "c died under the load: Redis is gone"
    assert summary["verdict"] == "fail" and problem in summary["reasons"][0]
    assert any(problem in line for line in printed)


def test_one_sick_host_of_twenty_fails_and_is_named(tmp_path):
    summary = summarise(fleet_run(tmp_path, hosts=20, sick=(7,), iterations=1))
    assert summary["verdict"] == "fail"
    for cell in summary["cells"]:
        assert cell["hosts"] == {"pass": 19, "fail": 1, "undecided": 0}
        assert cell["worst_host"]["name"] == "vm0007"


def test_the_briefs_figures_of_a_cell_are_means_over_hosts_and_iterations(record):
    directory = record()[0]
    cell = summarise(directory)["cells"][0]
    phases = [phase for phase in directory.read_json("run.json")["phases"] if phase["kind"] == "iteration"][:2]
    service = [
        result["latency"]["service"] for phase in phases for result in directory.read_phase(phase)["hosts"].values()
    ]
    assert len(service) == 6
    assert cell["brief"]["p99_ms"] == round(sum(each["p99_us"] for each in service) / 6 / 1000, 3)
    assert cell["brief"]["avg_ms"] == round(sum(each["avg_us"] for each in service) / 6 / 1000, 3)
    assert cell["brief"]["max_ms"] == round(max(each["max_us"] for each in service) / 1000, 3)


def test_a_directory_without_a_run_is_an_error(tmp_path):
    with pytest.raises(RunError, match="run.json: No such file"):
        summarise(RunDirectory(str(tmp_path), "nothing"))


def test_cells_have_intervals(record):
    directory = record()[0]
    for cell in summarise(directory)["cells"]:
        interval = cell["interval"]
        assert interval["level"] == 0.95 and interval["hosts"] == 3 and interval["iterations"] == 2
        for name in FIGURES:
            low, high = interval[name]
            assert low <= cell["intended"][name] <= high
        assert cell["indicative"]


def test_several_runs_are_merged_and_resampled_as_runs(record):
    first = record()[0]
    second = record(name="second")[0]
    alone, both = evaluate(first)[0], evaluate_together([first, second])[0]
    for cell, merged in zip(alone["cells"], both["cells"]):
        assert merged["intended"]["count"] == 2 * cell["intended"]["count"]
        assert merged["response"]["p99_us"] == cell["response"]["p99_us"]
        assert merged["iterations"] == 2 * cell["iterations"]
        # two units either way: the iterations of one run, or the two runs
        assert merged["interval"]["iterations"] == cell["interval"]["iterations"] == 2
    assert both["verdict"] == "pass"


def test_a_sick_run_is_not_hidden_among_others(record, make_result):
    def lost(phase, host, result):
        return "Redis died" if host == "b" and phase["index"] == 4 else result

    summary = evaluate_together([record()[0], record(lost, name="sick")[0]])[0]
    assert summary["verdict"] == "invalid" and summary["fleet"]["failed"] == ["b"]
    assert summary["reasons"][0].startswith("sick: phase 4 of 13") and "Redis died" in summary["reasons"][0]


def test_runs_with_different_settings_are_not_merged(record):
    def slower(run):
        run["config"]["load"]["rate"] = 999

    second = edit_run(record(name="slower")[0], slower)
    with pytest.raises(RunError, match="runs run and slower cannot .*load.rate: 1000.0 -> 999"):
        evaluate_together([record()[0], second])


@pytest.fixture
def stopping(begun):
    """A run that stops as soon as it cannot meet its SLO."""
    begun["config"]["stop_when_failed"] = True
    return begun


def slow_from(make_result, index, average_us):
    """Return a change that makes host b slow from a phase on."""

    def change(phase, host, result):
        if host == "b" and phase["index"] >= index and phase["kind"] == "iteration":
            return make_result(phase, 0, START, values=latencies(average_us=average_us))
        return result

    return change


def test_a_run_that_stopped_early_has_failed(stopping, record, make_result):
    # 120 us in the first of two iterations: above 50 us even if the second took no time at all.
    summary = evaluate(record(slow_from(make_result, 3, 120), skip=range(4, 14))[0])[0]
    assert summary["verdict"] == "fail"
    assert (
        summary["reasons"][0]
        == "stopped early: b can no longer meet the SLO after iteration 1 of influence 0, 100 % GET"
    )
    assert "2 of 3 hosts" not in summary["reasons"][1] and "1 of 3 hosts miss the SLO" in summary["reasons"][1]
    assert [cell["valid"] for cell in summary["cells"]] == [True] * 4 and summary["cells"][1]["iterations"] == 0
    # With a looser SLO it could have passed, so the missing phases make it invalid.
    looser = evaluate(RunDirectory.at(stopping["directory"]), {"avg_us": 500, "p99_us": 5000})[0]
    assert looser["verdict"] == "invalid"


def test_a_run_that_can_still_pass_does_not_stop(stopping, record, make_result):
    # 80 us in one of two iterations: 40 us at best.
    directory = record(slow_from(make_result, 3, 80), skip=range(4, 14))[0]
    summary = evaluate(directory)[0]
    assert summary["verdict"] == "invalid" and "and 9 more phases were not measured" in summary["reasons"][-1]


def futility(config, document):
    """Explain why a run cannot meet its SLO after one phase."""
    found = Futility(config, config["slo"])
    found.add(document)
    return found.reason


def test_slow_requests_alone_can_stop_a_run(stopping, record, make_result):
    config = stopping["config"]

    def tail(count):
        def change(phase, host, result):
            values = [400_000] * count + [20_000] * (1000 - count)
            return make_result(phase, 0, START, values=values) if host == "b" and phase["index"] == 3 else result

        return change

    # Two iterations of 1,000 requests: 20 of them may be too slow, and in one host of three more by chance.
    for count, hopeless in ((50, False), (80, True)):
        directory = record(tail(count), name=f"tail-{count}")[0]
        document = directory.read_phase(stopping["phases"][2])
        assert bool(futility(config, document)) is hopeless
        assert futility({**config, "stop_when_failed": False}, document) is None
        assert futility(config, {**document, "valid": False}) is None, "an invalid phase proves nothing"


@pytest.mark.parametrize("profile", ["dram", "swap"])
def test_the_highest_samples_of_each_host_give_the_same_summary(tmp_path, monkeypatch, profile):
    """Whether an evaluation decodes only what it needs of a histogram, or all of it."""
    directory = fleet_run(tmp_path, hosts=6, profile=profile, sick={2}, iterations=2)
    partial = evaluate(directory)[0]
    monkeypatch.setattr(Histogram, "top", lambda figures, lowest: Histogram.from_figures(figures))
    assert json.dumps(partial) == json.dumps(evaluate(directory)[0])


def test_memory_does_not_grow_with_the_number_of_cells(tmp_path):
    """The results of a cell's hosts are forgotten once the cell is complete."""
    figures = [Histogram.from_values(latencies(seed=seed)).figures() for seed in range(8)]
    peaks = []
    for name, influences in (("one", [0]), ("six", [0, 1, 2, 3, 4, 5])):
        config = run_config(influences=influences, read_mixes=[100], warmups=0, iterations=6)
        begun = begun_run(tmp_path / name, config, [f"vm{number:03d}" for number in range(60)])
        directory = record_run(
            begun,
            lambda phase, number, host, config=config: host_result(
                config, phase, figures[(number + phase["index"]) % len(figures)]
            ),
        )[0]
        tracemalloc.start()
        evaluate(directory)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
