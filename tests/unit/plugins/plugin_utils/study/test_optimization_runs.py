# SPDX-License-Identifier: GPL-3.0-or-later
"""What a search makes of the ends of its runs. Each run here is a synthetic one."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.profile import load
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.study.candidates import candidates
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization_runs import OptimizationRuns

OURS = str(pathlib.Path(__file__).resolve().parents[5] / "roles/host_tuning/profiles")
ZRAM = load("zram", OURS, [])
CANDIDATE = ("vm.swappiness=200",)


class Sequence:
    """Returns what it was given for each run, and counts the runs."""

    def __init__(self, directory, outcomes):
        self.directory, self.outcomes, self.measured = directory, outcomes, []
        self.document = {"id": "s", "runs": [], "attempts": []}

    def measure_until_valid(self, run_id, about, variables, limit):
        self.measured.append((run_id, variables))
        outcome = {"run_id": run_id, "verdict": None, "note": "", "seconds": 60.0, **self.outcomes[about["arm"]]}
        self.document["attempts"].append({**about, "attempt": 1, "reason": outcome["note"], **outcome})
        return outcome

    def announce(self, text, left=0):
        pass

    def save(self):
        pass


@pytest.fixture
def runs(tmp_path, record):
    """A function that returns a sequence with these outcomes, and the runs of a search with it."""

    def make(**outcomes):
        (tmp_path / "s").mkdir()
        sequence = Sequence(RunDirectory(str(tmp_path), "s"), {"baseline": {}, CANDIDATE[0]: {}, **outcomes})
        return sequence, OptimizationRuns(sequence, "zram", ZRAM, candidates("zram", ZRAM, []), 3)

    return make


@pytest.fixture
def healthy(record):
    """The outcome of a run in which nothing was wrong."""
    directory = record(lambda phase, host, result: result)[0]
    publish(directory, lambda line: None)
    return {"run_id": directory.run_id, "state": "finished", "verdict": "pass"}


def test_a_run_has_a_profile_of_its_own_and_figures_of_each_cell(runs, healthy):
    sequence, search = runs(**{CANDIDATE[0]: healthy, "baseline": healthy})
    outcome = search.measure((), 1, "screening")
    assert sequence.measured[0] == (
        "s-baseline-1",
        {"profile": "zram", "latency_benchmark_stop_when_failed": False},
    )
    assert outcome.cells and all(0 < each["avg_us"] < each["p99_us"] for each in outcome.cells.values())
    # The synthetic hosts have no tuning, so no host has the setting.
    assert search.measure(CANDIDATE, 1, "screening").unfit == "no host has such a setting"
    name, variables = sequence.measured[1]
    assert name == "s-vm.swappiness-200-1"
    assert load(variables["profile"], OURS, [])["sysctl"]["vm.swappiness"]["value"] == 200


def test_a_run_is_not_measured_again(runs, healthy):
    sequence, search = runs(baseline=healthy)
    first = search.measure((), 1, "screening")
    assert search.measure((), 1, "screening").cells == first.cells and len(sequence.measured) == 1


def test_a_candidate_that_fails_is_set_aside(runs, healthy):
    failed = {"state": "failed", "note": "the kernel refuses '200'"}
    sequence, search = runs(baseline=healthy, **{CANDIDATE[0]: failed})
    search.measure((), 1, "screening")
    assert search.measure(CANDIDATE, 1, "screening").unfit == "the run failed: the kernel refuses '200'"


def test_a_site_that_fails_sets_nothing_aside(runs):
    failed = {"state": "failed", "note": "unreachable"}
    sequence, search = runs(**{"baseline": failed, CANDIDATE[0]: failed})
    assert search.measure(CANDIDATE, 1, "screening").unfit
    with pytest.raises(RunError, match="the run of zram, unchanged, failed: unreachable. Run the same command again"):
        search.measure((), 1, "screening")
    assert sequence.document["runs"] == [], "the candidate is measured again as well"


def test_a_run_whose_fleet_does_not_fit_is_never_compared(runs, healthy, tmp_path):
    """Such a fleet runs without the limit of its DRAM budget, so it would win."""
    summary = tmp_path / healthy["run_id"] / "summary.json"
    document = json.loads(summary.read_text(encoding="utf-8"))
    summary.write_text(json.dumps({**document, "dram": {"fits": False}}), encoding="utf-8")
    _sequence, search = runs(**{CANDIDATE[0]: healthy, "baseline": healthy})
    assert search.measure(CANDIDATE, 1, "screening").unfit == "its fleet does not fit into the DRAM budget"
    with pytest.raises(
        RunError, match="cannot be compared, because its fleet does not fit into the DRAM budget; choose"
    ):
        search.measure((), 1, "screening")


def test_an_invalid_run_has_no_figures(runs):
    sequence, search = runs(baseline={"state": "invalid", "note": "late"})
    outcome = search.measure((), 1, "screening")
    assert outcome.cells is None and outcome.unfit == "" and outcome.seconds == 60
