# SPDX-License-Identifier: GPL-3.0-or-later
"""Several runs taken together, runs that stop when they cannot pass any more, and what a comparison says of them."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import (
    Futility,
    evaluate,
    evaluate_together,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, compare

from .conftest import START, latencies


def copy(directory, name, change=lambda run: None):
    path = pathlib.Path(directory.path).with_name(name)
    shutil.copytree(directory.path, path)
    run = json.loads((path / "run.json").read_text(encoding="utf-8"))
    run["run_id"] = name
    change(run)
    (path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    return RunDirectory.at(str(path))


def test_several_runs_are_merged_and_vary_as_runs(record):
    first = record()[0]
    second = copy(first, "second")
    alone, both = evaluate(first)[0], evaluate_together([first, second])[0]
    for cell, merged in zip(alone["cells"], both["cells"]):
        assert merged["response"]["count"] == 2 * cell["response"]["count"]
        assert merged["response"]["p99_us"] == cell["response"]["p99_us"]
        assert merged["iterations"] == 2 * cell["iterations"]
        # two units either way: the iterations of one run, or the two runs
        assert merged["interval"]["iterations"] == cell["interval"]["iterations"] == 2
    assert both["verdict"] == "pass" and evaluate_together([first])[0] == alone


def test_a_sick_run_is_not_hidden_among_others(record, make_result):
    def lost(phase, host, result):
        return "Redis died" if host == "b" and phase["index"] == 4 else result

    sick = copy(record(lost)[0], "sick")
    shutil.rmtree(pathlib.Path(sick.path).with_name("run"))
    summary = evaluate_together([record()[0], sick])[0]
    assert summary["verdict"] == "invalid" and summary["fleet"]["failed"] == ["b"]
    assert summary["reasons"][0].startswith("sick: phase 4 of 13") and "Redis died" in summary["reasons"][0]


def test_runs_of_different_settings_are_not_merged(record):
    first = record()[0]

    def faster(run):
        run["config"]["load"]["rate"] = 999

    with pytest.raises(RunError, match="load.rate: 1000.0 -> 999"):
        evaluate_together([first, copy(first, "faster", faster)])


def test_a_comparison_names_what_differs_beside_the_profile(record):
    first = record()[0]

    def other(run):
        run["config"]["profile"] = "zram"
        run["config"]["load"]["value_size"] = 10
        run["hosts"] = {
            "kvm": {
                "kernel": {"release": "7.0"},
                "tuning": {
                    "settings": [
                        {"name": "vm.swappiness", "effective": "150", "absent": False},
                        {"name": "vm.new", "effective": None, "absent": True},
                    ],
                    "swap_areas": [{"source": "/dev/zram0", "priority": 100}],
                },
            }
        }

    document = compare([ArmRuns("slow", [first]), ArmRuns(None, [copy(first, "other", other)])])[0]
    assert [run["name"] for run in document["runs"]] == ["slow", "zram"]
    differences = document["differences"]["other"]
    assert "config" not in " ".join(differences)
    assert "load.value_size: 1000 -> 10" in differences and "kernel: unknown -> 7.0" in differences
    assert document["settings"] == [
        {"name": "vm.swappiness", "values": ["", "150"]},
        {"name": "swap", "values": ["", "/dev/zram0, priority 100"]},
    ]


def test_page_ins_have_a_ratio_with_an_interval(record):
    def paging(per_phase):
        def change(phase, host, result):
            pages = per_phase * (1 + 0.1 * (phase.get("iteration") or 0))
            return {**result, "pressure": {"counters": {"clock_s": 1.0, "pswpin": pages}, "gauges": {}, "doubtful": []}}

        return change

    busy = copy(record(paging(300))[0], "busy")
    shutil.rmtree(pathlib.Path(busy.path).with_name("run"))
    quiet = record(paging(100))[0]
    row = compare([ArmRuns(None, [quiet]), ArmRuns(None, [busy])])[0]["cells"][1]
    assert row["page_ins_ratio"]["value"] == 3
    low, high = row["page_ins_ratio"]["interval"]
    assert low < 3 < high
    assert (
        compare([ArmRuns(None, [copy(record(paging(0))[0], "none")]), ArmRuns(None, [quiet])])[0]["cells"][1][
            "page_ins_ratio"
        ]
        is None
    )


@pytest.fixture
def stopping(begun):
    """Runs that are to stop as soon as they cannot pass."""
    begun["config"]["stop_when_failed"] = True
    return begun


def slow_from(make_result, index, average_us):
    def change(phase, host, result):
        if host == "b" and phase["index"] >= index and phase["kind"] == "iteration":
            return make_result(phase, 0, START, values=latencies(average_us=average_us))
        return result

    return change


def test_a_run_that_stopped_because_it_cannot_pass_has_failed(stopping, record, make_result):
    # 120 us in the first of two iterations: above 50 us even if the second took no time at all.
    summary = evaluate(record(slow_from(make_result, 3, 120), skip=range(4, 14))[0])[0]
    assert summary["verdict"] == "fail"
    assert (
        summary["reasons"][0]
        == "stopped early: b cannot meet the SLO any more after iteration 1 of influence 0, 100 % GET"
    )
    assert "2 of 3 hosts" not in summary["reasons"][1] and "1 of 3 hosts miss the SLO" in summary["reasons"][1]
    assert [cell["valid"] for cell in summary["cells"]] == [True] * 4 and summary["cells"][1]["iterations"] == 0
    # By a looser objective it could have passed, so what is missing is missing.
    looser = evaluate(RunDirectory.at(stopping["directory"]), {"avg_us": 500, "p99_us": 5000})[0]
    assert looser["verdict"] == "invalid"


def test_a_run_that_may_still_pass_goes_on(stopping, record, make_result):
    # 80 us in one of two iterations: 40 us at best.
    directory = record(slow_from(make_result, 3, 80), skip=range(4, 14))[0]
    summary = evaluate(directory)[0]
    assert summary["verdict"] == "invalid" and "was not measured" in summary["reasons"][-1]


def futility(config, documents):
    found = Futility(config, config["slo"])
    for document in documents:
        found.add(document)
    return found.reason


def test_the_tail_alone_makes_a_run_hopeless(stopping, record, make_result):
    config = stopping["config"]

    def tail(count):
        def change(phase, host, result):
            values = [400_000] * count + [20_000] * (1000 - count)
            return make_result(phase, 0, START, values=values) if host == "b" and phase["index"] == 3 else result

        return change

    # two iterations of 1,000 requests: 20 of them may be too slow
    for count, hopeless in ((20, False), (21, True)):
        directory = record(tail(count))[0]
        document = directory.read_phase(stopping["phases"][2])
        assert bool(futility(config, [document])) is hopeless
        assert futility({**config, "stop_when_failed": False}, [document]) is None
        assert futility(config, [{**document, "valid": False}]) is None, "an invalid phase proves nothing"
        shutil.rmtree(directory.path)
