# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of playbooks that use the module solotest without the role."""

from __future__ import annotations

import json

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.adhoc import Collector

SLO = {"avg_us": 1e6, "p99_us": 1e6}
PHASE = {"kind": "iteration", "influence": 25, "read_mix": 70, "mode": "test"}


@pytest.fixture
def lines():
    return []


@pytest.fixture
def collector(tmp_path, lines):
    return Collector(str(tmp_path), SLO, 1_793_000_000.0, lines.append)


@pytest.fixture
def measured(begun, make_result):
    """A function that returns what a host has measured."""
    phase = next(each for each in begun["phases"] if each["kind"] == "iteration")

    def make(host=0, **changes):
        return {**make_result(phase, host), **changes}

    return make


def saved(collector, name):
    with open(collector.directory.file(name), encoding="utf-8") as file:
        return json.load(file)


def test_nothing_is_written_if_nothing_was_measured(collector, tmp_path):
    collector.end_phase({})
    collector.finish({})
    assert list(tmp_path.iterdir()) == []


def test_each_task_is_a_phase(collector, measured):
    for task in ("first", "second"):
        for number, host in enumerate(("a", "b")):
            collector.add(host, task, measured(number))
        collector.end_phase({})
    collector.finish({})
    run = saved(collector, "run.json")
    assert [phase["name"] for phase in run["phases"]] == ["task1", "task2"]
    assert [phase["of"] for phase in run["phases"]] == [2, 2] and run["expected"] == ["a", "b"]
    assert {phase["kind"] for phase in run["phases"]} == {"iteration"}
    assert run["labels"] == ["ad hoc: the settings of the hosts were not recorded"]
    assert saved(collector, "summary.json")["fleet"]["expected"] == 2


def test_a_host_that_failed_is_expected_all_the_same(collector, measured, lines):
    collector.add("a", "load", measured())
    collector.fail("b", "load", "Redis is gone", None)
    collector.finish({})
    assert saved(collector, "run.json")["expected"] == ["a", "b"]
    assert saved(collector, "summary.json")["verdict"] == "invalid"
    assert any("Redis is gone" in line for line in lines)


def test_a_host_of_which_all_failed_is_still_a_phase(collector):
    collector.fail("a", "load", "Redis is gone", None)
    collector.finish({})
    assert saved(collector, "run.json")["phases"][0]["kind"] == "fill"


def test_a_host_that_failed_in_an_earlier_task_is_expected_in_each_phase(collector, measured):
    lost = {"c": "no space left"}
    for task in ("first", "second"):
        collector.add("a", task, measured())
        collector.end_phase(lost)
    collector.finish(lost)
    summary = saved(collector, "summary.json")
    assert saved(collector, "run.json")["expected"] == ["a", "c"]
    assert summary["verdict"] == "invalid" and "c: no space left" in summary["reasons"][0]
    assert len(summary["reasons"]) == 2, "it is missing in both phases"


def test_tasks_of_one_cell_are_iterations_of_it(collector, measured):
    for _task in range(2):
        collector.add("a", "load", measured())
        collector.end_phase({})
    collector.finish({})
    assert [phase["iteration"] for phase in saved(collector, "run.json")["phases"]] == [1, 2]
    assert saved(collector, "summary.json")["cells"][0]["iterations"] == 2


def test_tasks_that_measured_different_hosts_prove_nothing_about_the_fleet(collector, measured):
    for host, read_mix in (("a", 70), ("b", 100)):
        result = measured()
        collector.add(host, "load", {**result, "settings": {**result["settings"], "read_mix": read_mix}})
        collector.end_phase({})
    collector.finish({})
    summary = saved(collector, "summary.json")
    assert summary["verdict"] == "invalid"
    assert "only 1 of 2 hosts were measured" in summary["reasons"][0] and len(summary["reasons"]) == 2
