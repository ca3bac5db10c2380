# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cell, made of the documents of its phases; test_verdict.py has whole runs."""

from __future__ import annotations

import json

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import Cell, of_interest
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

NAMES = ["a", "b", "c"]


@pytest.fixture
def cell_of_run(record, config):
    """A function that records a run and returns its first cell, with at most C(most) of its two iterations."""

    def make(change=lambda phase, host, result: result, most=9, slo=None):
        directory = RunDirectory.at(record(change)[0].path)
        with open(directory.file("run.json"), encoding="utf-8") as file:
            phases = json.load(file)["phases"]
        first = next(phase for phase in phases if phase["kind"] == "iteration")
        mine = [
            phase
            for phase in phases
            if phase["kind"] != "fill" and all(phase[key] == first[key] for key in ("influence", "read_mix"))
        ]
        cell = Cell(first, len(mine), NAMES, slo or config["slo"])
        for phase in mine:
            document = None if (phase["iteration"] or 0) > most else directory.read_phase(phase, of_interest)
            cell.add(phase, document, 0, phase["iteration"])
        return cell

    return make


def test_the_figures_are_those_of_all_hosts_and_iterations(cell_of_run):
    summary, details = cell_of_run().summary(stopped=False)
    assert summary["iterations"] == 2 and summary["verdict"] == "pass" and summary["valid"]
    assert summary["intended"]["count"] == 2 * 3 * 1000 == details.merged["intended"].count
    assert [host["name"] for host in details.hosts] == NAMES
    assert {host["iterations"] for host in details.hosts} == {2}
    assert summary["worst_host"]["p99_us"] == max(host["p99_us"] for host in details.hosts)


def test_an_objective_that_all_hosts_miss_is_failed(cell_of_run):
    summary, _details = cell_of_run(slo={"avg_us": 0.001, "p99_us": 0.001}).summary(stopped=False)
    assert summary["verdict"] == "fail" and summary["hosts"] == {"pass": 0, "fail": 3, "undecided": 0}


def test_a_cell_with_an_iteration_missing_is_invalid_unless_the_run_stopped(cell_of_run):
    cell = cell_of_run(most=1)
    summary = cell.summary(stopped=False)[0]
    assert (summary["iterations"], summary["verdict"]) == (1, "invalid")
    assert cell.summary(stopped=True)[0]["valid"]


def test_a_host_that_never_reported_makes_the_cell_invalid(cell_of_run):
    def lose(phase, host, result):
        return None if host == "b" and phase["kind"] == "iteration" else result

    summary, details = cell_of_run(lose).summary(stopped=False)
    assert not summary["valid"] and not summary["within_slo"]
    assert [host["name"] for host in details.hosts] == ["a", "c"]


def test_few_iterations_are_indicative(cell_of_run):
    assert cell_of_run().summary(stopped=False)[0]["indicative"]
