# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline study, in small, on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import yaml

from .conftest import HEADLINE, PATIENCE, ROOT, wait_for
from .machine import RECORDS, differences, snapshot

ROW = {
    "name": "small",
    "values": "3:1",
    "compressibility": 0.75,
    "influence": 25,
    "servers": 3,
    "profiles": ["dram", "zram_swap"],
    "variables": {"headline_zram_size": "16M"},
    "overcommit": [],
    "target": 100,
    "minutes": 30,
    "expected": "a test",
}
SERIES = {
    **ROW,
    "name": "beyond",
    "profiles": ["swap", "zswap"],
    "variables": {"headline_zswap_pool": "16M"},
    "overcommit": [2],
    "target": None,
}
TINY = {
    "site_check": False,
    "density_start": 1,
    "density_probes": 1,
    "density_slo_factor": 1000,
    "host_tuning_dram_budget": {"mechanism": "cgroup", "size": "40M", "group": "memstretchheadline"},
    "swap_space_file_size": "64M",
    "latency_benchmark_key_count": 2000,
    "density_probe": {
        "latency_benchmark_duration": 1,
        "latency_benchmark_warmups": 0,
        "latency_benchmark_read_mixes": [100],
        "latency_benchmark_lead_seconds": 0,
        "latency_benchmark_min_overlap": 0,
    },
}


@pytest.fixture
def study(untuned_machine, fleet, tmp_path):
    """Starts the study of one row with four servers, and puts the machine back in any case."""
    before = snapshot()
    inventory = yaml.safe_load(HEADLINE.read_text(encoding="utf-8"))
    inventory["all"]["children"]["fleet"]["hosts"] = {f"redis0{number}": None for number in range(1, 5)}
    directory = tmp_path / "headline"
    directory.mkdir()
    (directory / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    (directory / "group_vars").symlink_to(HEADLINE.parent / "group_vars")
    rows = tmp_path / "rows.yml"
    rows.write_text(yaml.safe_dump([ROW, SERIES]), encoding="utf-8")

    def start(only="small"):
        options = ["--rows", rows, "--inventory", directory / "hosts.yml", "--results", fleet.results, "--only", only]
        return subprocess.Popen(
            [sys.executable, ROOT / "tools" / "headline.py", "measure", *options, "-e", json.dumps(TINY)],
            env=fleet.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C reaches all processes of a terminal
        )

    yield start
    if differences(before, snapshot()):  # only after a test that failed
        for playbook in ("teardown", "restore"):
            fleet.run_playbook(playbook=playbook, inventory=directory / "hosts.yml")


def test_ctrl_c_restores_the_machine_and_the_row_stays_unfinished(study, fleet):
    before = snapshot()
    process = study()
    wait_for("the machine is tuned", (RECORDS / "dram_budget.json").exists, process)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 130 and "interrupted; the same command continues" in output, output
    assert not differences(before, snapshot()), output
    assert fleet.document("headline-small", "density")["finished"] is False


def test_a_study_ends_with_the_table_and_the_machine_as_before_and_is_not_repeated(study, fleet):
    before = snapshot()
    process = study()
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, output
    assert not differences(before, snapshot())
    document = fleet.document("headline-small", "density")
    assert [arm["name"] for arm in document["density"]] == ["dram", "zram_swap"] and document["restored"]
    assert {run["outcome"] for run in document["runs"]} == {"pass"}, output
    assert document["definition"]["maximum"] == 3
    assert document["calibration"]["budget_bytes"] == 40 * 2**20
    assert fleet.document("headline-small-plan", "plan")["largest"].keys() == {"dram", "zram_swap"}
    assert all(run["cpu"]["total_us"] > 5 for run in document["runs"]), "a request takes CPU time"
    (row,) = [line for line in output.splitlines() if "| 3:1 | " in line and "dram, zram_swap" in line]
    assert row.startswith("| 3:1 | ") and "dram, zram_swap" in row and "not measured" not in row, output
    assert "== dram: probe 1 of at most 1" in output and "== zram_swap: probe 1 of at most 1" in output
    assert "== headline: 1 of 1 rows to measure, until " in output

    process = study()
    again = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0 and row in again and "probe" not in again, again


def test_a_series_measures_fleets_of_given_overcommit(study, fleet):
    before = snapshot()
    process = study(only="beyond")
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, output
    assert not differences(before, snapshot())
    document = fleet.document("headline-beyond", "density")
    assert [(row["name"], row["size"], row["probes"]) for row in document["overcommit"]] == [
        ("swap", 3, 1),
        ("zswap", 3, 1),
    ]
    assert all(row["avg_us"] > 0 and row["cpu_us"] > 5 and not row["why_not"] for row in document["overcommit"])
    assert "| 3:1 | 25 | " in output and "| zswap | 1 | " in output
    pool = "/sys/module/zswap/parameters/max_pool_percent"
    run = fleet.document(document["runs"][-1]["run_id"], "run")
    (setting,) = [each for each in run["hosts"]["this_machine"]["tuning"]["settings"] if each["name"] == pool]
    assert setting["wanted"] == setting["effective"] == "1", "16 MiB are less than a hundredth of this machine's memory"
