# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan takes from runs and densities whose truth is known."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import measured
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.tests.unit.fixtures.charged import BUDGET, charged_run, taken

ROW = pathlib.Path(__file__).resolve().parents[5] / "docs" / "bench" / "headline" / "3to1-influence25.json"
LOAD = {"key_count": 9000, "value_size": 1000}


@pytest.fixture(name="directory")
def _directory(tmp_path):
    """A run of two servers, which took 40 and 60 % of their budget."""
    return charged_run(tmp_path / "run", taken(0.4), taken(0.6))


def load(directory, **changes):
    return {**directory.read_json("run.json")["config"]["load"], **changes}


def change(directory, **record):
    path = pathlib.Path(directory.file("run.json"))
    run = json.loads(path.read_text(encoding="utf-8"))
    run["hosts"].update(record)
    path.write_text(json.dumps(run), encoding="utf-8")


def test_the_dram_of_a_server_is_the_most_that_a_run_was_charged(directory):
    assert measured.of_run(directory, load(directory, rate=1)) == round(0.3 * BUDGET), "two servers together"


@pytest.mark.parametrize("changes", [{"key_count": 7}, {"value_size": 7}])
def test_servers_with_other_data_take_other_memory(directory, changes):
    with pytest.raises(measured.UnknownMemory, match="its servers held .* keys of .* those of the plan hold .*7"):
        measured.of_run(directory, load(directory, **changes))


def test_memory_that_was_not_measured_everywhere_is_unknown(directory, tmp_path):
    unknown = charged_run(tmp_path / "unknown", taken(0.4), taken(None))
    with pytest.raises(measured.UnknownMemory, match="not measured on all machines"):
        measured.of_run(unknown, load(unknown))
    change(directory, other={"kernel": {"boot_id": "boot-2"}, "tuning": {"dram_budget": None}})
    with pytest.raises(measured.UnknownMemory, match="not measured on all machines"):
        measured.of_run(directory, load(directory))


def test_a_run_with_swap_does_not_tell(directory):
    record = directory.read_json("run.json")["hosts"]["kvm"]
    tuning = {**record["tuning"], "swap_areas": [{"path": "/dev/zram0", "priority": 1}]}
    change(directory, kvm={**record, "tuning": tuning})
    with pytest.raises(measured.UnknownMemory, match="it had swap"):
        measured.of_run(directory, load(directory))


@pytest.fixture(name="density")
def _density(tmp_path):
    """The density of a measured row of the headline: 19 servers in 246 to 247 MiB."""
    (tmp_path / "density.json").write_text(
        json.dumps(json.loads(ROW.read_text(encoding="utf-8"))["density"]), encoding="utf-8"
    )
    return RunDirectory.at(str(tmp_path))


def test_the_dram_of_a_server_in_the_largest_fleet_of_a_density_without_a_tier(density):
    assert measured.of_density(density, LOAD) == pytest.approx(12.97 * 2**20, rel=0.005)


def test_a_density_of_other_data_or_without_dram_does_not_tell(density, tmp_path):
    with pytest.raises(
        measured.UnknownMemory, match="held 9,000 keys of 1,000 bytes, and those of the plan hold 9,000"
    ):
        measured.of_density(density, {**LOAD, "value_size": 1024})
    document = density.read_json("density.json")
    document["arms"] = [arm for arm in document["arms"] if arm["name"] != "dram"]
    (tmp_path / "density.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(measured.UnknownMemory, match="no fleet wholly in DRAM; choose .* profiles include dram"):
        measured.of_density(density, LOAD)
