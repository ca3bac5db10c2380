# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan takes from runs whose truth is known."""

from __future__ import annotations

import json

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import baseline
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError
from ansible_collections.memstretch.density.tests.unit.fixtures.charged import BUDGET, charged_run, taken


@pytest.fixture(name="directory")
def _directory(tmp_path):
    """A run of two servers, which took 40 and 60 % of their budget."""
    return charged_run(tmp_path / "run", taken(0.4), taken(0.6))


def load(directory, **changes):
    return {**directory.read_json("run.json")["config"]["load"], **changes}


def test_the_time_of_a_request_and_the_dram_of_a_server(directory):
    found = baseline.measured(directory, load(directory, rate=1))
    assert found.server_bytes == round(0.3 * BUDGET), "the maximum of two servers together"
    assert 0 < found.base["avg_us"] < found.base["p99_us"]


@pytest.mark.parametrize("changes", [{"key_count": 7}, {"value_size": 7}])
def test_servers_with_other_data_take_other_memory(directory, changes):
    assert baseline.measured(directory, load(directory, **changes)).server_bytes is None


def test_memory_that_was_not_measured_everywhere_is_unknown(directory, tmp_path):
    unknown = charged_run(tmp_path / "unknown", taken(0.4), taken(None))
    assert baseline.measured(unknown, load(unknown)).server_bytes is None
    path = tmp_path / "run" / "run.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    run["hosts"]["other"] = {"kernel": {"boot_id": "boot-2"}, "tuning": {"dram_budget": None}}
    path.write_text(json.dumps(run), encoding="utf-8")
    assert baseline.measured(directory, load(directory)).server_bytes is None


def test_a_run_without_a_measured_cell_is_named(directory, tmp_path):
    for phase in directory.read_json("run.json")["phases"][1:]:
        (tmp_path / "run" / "phases" / configuration.file_name(phase)).unlink()
    with pytest.raises(RunError, match="run 'run' has measured no cell"):
        baseline.measured(directory, load(directory))
