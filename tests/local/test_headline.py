# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline study, in small, on this machine."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import yaml

from .conftest import HEADLINE, PATIENCE, ROOT, SMALL_SEARCH, smaller_inventory, wait_for
from .machine import differences, snapshot

ROW = {
    "name": "small",
    "values": "3:1",
    "compressibility": 0.75,
    "influence": 25,
    "servers": 2,
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
    "servers": 3,
    "profiles": ["swap", "zswap"],
    "variables": {"headline_zswap_pool": "16M"},
    "overcommit": [2],
    "target": None,
}
TINY = {
    **SMALL_SEARCH,
    "site_check": False,
    "host_tuning_dram_budget": {"mechanism": "cgroup", "size": "40M", "group": "memstretchheadline"},
    "swap_space_file_size": "64M",
    "latency_benchmark_key_count": 2000,
}


@pytest.fixture
def study(untuned_machine, fleet, tmp_path):
    """Starts the study of one row with three servers, and restores the machine in any case."""
    before = snapshot()
    inventory = smaller_inventory(HEADLINE, tmp_path / "headline", "redis01", "redis02", "redis03")
    rows = tmp_path / "rows.yml"
    rows.write_text(yaml.safe_dump([ROW, SERIES]), encoding="utf-8")
    started = []

    def start(only="small"):
        options = ["--rows", rows, "--inventory", inventory, "--results", fleet.results, "--only", only]
        process = subprocess.Popen(
            [sys.executable, ROOT / "tools" / "headline.py", "measure", *options, "-e", json.dumps(TINY)],
            env=fleet.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C reaches all processes of a terminal
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:  # only after a test that failed
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=PATIENCE)
    if differences(before, snapshot()):  # only after a test that failed
        for playbook in ("teardown", "restore"):
            fleet.run_playbook(playbook=playbook, inventory=inventory)


def test_a_study_continues_after_ctrl_c_ends_with_the_table_and_is_not_repeated(study, fleet):
    """Ctrl-C comes when the first profile was probed and the second is being applied."""
    before = snapshot()
    process = study()
    wait_for("the second profile is applied", lambda: "zram0" in pathlib.Path("/proc/swaps").read_text(), process)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 130 and "interrupted; run the same command again to continue" in output, output
    assert not differences(before, snapshot()), output
    interrupted = fleet.document("headline-small", "density")
    assert interrupted["finished"] is False and interrupted["restored"]
    assert [(run["arm"], run["outcome"]) for run in interrupted["runs"]] == [("dram", "pass")], output
    assert "== dram: probe 1 of at most 1" in output

    process = study()
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, output
    assert not differences(before, snapshot())
    assert "Resuming density search headline-small: " in output and "1 probe done" in output
    assert "== dram: probe" not in output and "== zram_swap: probe 1 of at most 1" in output
    document = fleet.document("headline-small", "density")
    assert document["runs"][0] == interrupted["runs"][0], "what was measured is kept"
    assert [arm["name"] for arm in document["density"]] == ["dram", "zram_swap"] and document["restored"]
    assert {run["outcome"] for run in document["runs"]} == {"pass"}, output
    assert document["definition"]["maximum"] == 2
    assert document["calibration"]["budget_bytes"] == 40 * 2**20
    assert fleet.document("headline-small-plan", "plan")["largest"].keys() == {"dram", "zram_swap"}
    assert all(run["cpu"]["total_us"] > 5 for run in document["runs"]), "a request takes CPU time"
    (row,) = [line for line in output.splitlines() if "| 3:1 | " in line and "dram, zram_swap" in line]
    assert row.startswith("| 3:1 | ") and row.count("|") == 11, f"it is planned, and not measured: {output}"
    assert "== headline: 1 of 1 rows to measure, until " in output

    process = study()
    again = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0 and row in again and "probe 1" not in again, again


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
