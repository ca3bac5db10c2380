# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module report refuses before it writes anything."""

from __future__ import annotations

import json

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError


@pytest.fixture
def report(work, tmp_path):
    """Run the module with these options, as the task gives them."""

    def run(check_mode=False, **given):
        return work("report", check_mode, results_dir=str(tmp_path), **given)

    return run


@pytest.mark.parametrize(
    "given, message",
    [
        ({"of": "comparison", "slo_enforce": True}, "slo_enforce: has no effect with of=comparison; it is for run"),
        ({"runs": ["a", "b"]}, "runs: has no effect with of=run; it is for comparison"),
        (
            {"of": "experiment", "prices": {"currency": "EUR"}},
            "prices: has no effect with of=experiment; it is for run and comparison",
        ),
    ],
)
def test_an_option_of_another_kind_of_report_is_refused(report, given, message):
    with pytest.raises(SettingError) as refused:
        report(**given)
    assert str(refused.value) == message


@pytest.mark.parametrize("runs", [None, [], ["dram-1"], "dram-1, "])
def test_a_comparison_needs_two_runs(report, runs):
    with pytest.raises(RunError, match="^runs: names [01] runs; a comparison needs two or more"):
        report(of="comparison", **({} if runs is None else {"runs": runs}))


def test_an_experiment_must_be_named(report):
    with pytest.raises(RunError, match="^experiment: is needed with of=experiment"):
        report(of="experiment")


def test_parts_of_an_experiment_are_saved_found_and_removed_with_its_result(report, tmp_path):
    def experiment(**more):
        return report(of="experiment", run_id="e", experiment={"name": "throughput_benchmark", **more})

    definition = {"host": "a"}
    with pytest.raises(RunError, match=r"^experiment\.parts: throughput_benchmark has no result to save"):
        experiment(state="part", definition=definition)
    with pytest.raises(RunError, match=r"^run_id, experiment\.definition: both are needed"):
        experiment(state="part", parts={"dram-1": {"value": 1}})
    assert experiment(state="part", definition=definition, parts={"dram-1": {"value": 1}})["changed"]
    assert json.loads((tmp_path / "e" / "throughput_benchmark.unfinished.json").read_text(encoding="utf-8"))
    found = experiment(state="checked", definition=definition)
    assert not found["changed"] and found["report"]["parts"] == {"dram-1": {"value": 1}}
