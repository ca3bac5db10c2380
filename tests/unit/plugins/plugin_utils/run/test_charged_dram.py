# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the charged DRAM of a fleet makes of phases, summaries and verdicts."""

from __future__ import annotations

import re

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate
from ansible_collections.memstretch.density.tests.unit.fixtures.charged import BUDGET, MIB, RECORD, charged_run, taken


@pytest.fixture
def record(tmp_path):
    """Return a function that records a run of a fill and two iterations; the fleet takes C(charged) in each."""
    return lambda *charged: charged_run(tmp_path / "run", *charged)


def test_a_fleet_within_its_budget_passes_and_the_summary_has_what_it_took(record):
    directory = record(taken(0.98), taken(1.019))
    summary, _details = evaluate(directory)
    assert summary["verdict"] == "pass", summary["reasons"]
    assert summary["dram"] == {
        "budget_bytes": BUDGET,
        "charged_bytes": round(1.019 * BUDGET),
        "mean_bytes": round(0.9995 * BUDGET),
        "machines": 1,
        "compression_ratio": 3.1,
        "fits": True,
    }
    phase = directory.read_phase(directory.read_json("run.json")["phases"][1])
    assert phase["charged_dram"]["boot-1"]["parts"]["zram_bytes"] == 30 * MIB and phase["warnings"] == []


@pytest.mark.parametrize(
    "worst, reason",
    [
        (taken(1.021), "kvm: over budget, the fleet took up to 102.1 MiB of DRAM, 102.1% of its budget of 100 MiB"),
        (taken(1.8, fits=None), "kvm: over budget"),
        (taken(limit_bytes=[60 * MIB, 61 * MIB]), "kvm: the limit of the fleet's control group changed between 60 MiB"),
        (taken(None), "kvm: its charged DRAM is unknown"),
        (None, "kvm: its charged DRAM is unknown"),
    ],
)
def test_over_budget_or_unknown_is_never_a_pass(record, worst, reason):
    summary, _details = evaluate(record(taken(), worst))
    assert summary["verdict"] == "invalid" and reason in summary["reasons"][0], summary["reasons"]


def test_a_fleet_that_does_not_fit_fails_whatever_its_latency_and_is_not_measured_again(record):
    summary, _details = evaluate(record(taken(1.8, fits=False), taken(1.9, fits=False)))
    assert summary["verdict"] == "fail" and summary["dram"]["fits"] is False
    assert summary["reasons"][0].startswith(
        "does not fit: the fleet took 190 MiB of DRAM, its budget is 100 MiB, and its"
    )


def test_the_report_of_a_fleet_that_does_not_fit_names_that_and_not_a_latency(record):
    directory = record(taken(1.8, fits=False), taken(1.9, fits=False))
    publish(directory, lambda line: None)
    with open(directory.file("report.html"), encoding="utf-8") as file:
        page = file.read()
    assert "The fleet does not fit into its DRAM budget: the fleet took 190 MiB of DRAM" in page
    assert "so the run fails whatever its latency" in page and "misses the SLO: it has" not in page


def test_a_host_that_disagrees_is_a_warning():
    check = {"host_bytes": 120 * MIB, "charged_bytes": 99 * MIB, "difference": 0.21}
    (warning,) = charged_dram.warnings({"boot-1": taken(host_check=check)})
    assert "in use grew by 120 MiB and the charged DRAM grew by 99 MiB, a difference of +21.0%" in warning
    check = {"host_bytes": -25 * MIB, "charged_bytes": 0, "difference": -0.057}
    (warning,) = charged_dram.warnings({"boot-1": taken(host_check=check)})
    assert "in use fell by 25 MiB and the charged DRAM grew by 0 B, a difference of -5.7%" in warning
    assert charged_dram.warnings({"boot-1": taken(host_check=None)}) == []


def test_only_hosts_with_a_budget_are_watched():
    run = {"hosts": {"kvm": RECORD, "other": {"kernel": {"boot_id": "boot-2"}, "tuning": {"dram_budget": None}}}}
    assert charged_dram.hosts_with_budget(run) == {"kvm": "boot-1"}
    assert charged_dram.hosts_with_budget({}) == {}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"charged_bytes": {"maximum": -5, "mean": 1}}, "charged_dram.charged_bytes.maximum = -5"),
        ({"budget_bytes": 0}, "charged_dram.budget_bytes = 0"),
        ({"fits": "yes"}, "charged_dram.fits = 'yes'"),
        ({"parts": {"a b": 1}}, "charged_dram.parts has the key 'a b'"),
        ({"machine": "x\n"}, "charged_dram.machine"),
        (
            {"page_ins": {"age_s": 1.0, "interval_s": 1.0, "per_second": [-1]}},
            "charged_dram.page_ins.per_second[0] = -1",
        ),
        ({"page_ins": {"interval_s": 1.0, "per_second": []}}, "charged_dram.page_ins.age_s is missing"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(change, message):
    with pytest.raises(MeasurementError, match=re.escape(message)):
        charged_dram.reading({"changed": False, "charged_dram": taken(**change)})


def test_only_known_keys_of_an_answer_are_accepted():
    answer = {"changed": True, "charged_dram": {**taken(), "more": 1}}
    assert charged_dram.reading(answer) == {"changed": True, "charged_dram": taken()}
    for other in ({"changed": False, "charged_dram": None}, {"changed": True, "budget": None, "differences": []}):
        assert charged_dram.reading(other) == other


def released(**processes):
    """Return the result of a loop of the module over hosts."""
    return {"results": [{"item": name, "charged_dram": {"group_processes": n}} for name, n in processes.items()]}


def test_budgets_without_a_process_limit_nothing():
    with pytest.raises(SettingError, match=r"no process is \(kvm1, kvm2\)\. Set group in host_tuning_dram_budget"):
        charged_dram.check_groups({"a": released(kvm2=0), "b": released(kvm1=0), "c": released()})


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"a": released()},
        {"a": released(kvm1=0), "b": released(kvm2=3)},
        {"a": released(kvm1=None)},  # huge pages
        {"a": {"results": [{"item": "kvm1", "charged_dram": None}]}},
    ],
)
def test_budgets_that_limit_the_fleet_are_accepted(answers):
    charged_dram.check_groups(answers)
