# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of synthetic fleets, and a real browser that opens them."""

from __future__ import annotations

import json
import pathlib

import pytest
from synthetic_fleets import fleet_run

from ansible_collections.memstretch.density.plugins.plugin_utils.report.comparison_page import comparison_page
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, compare

from .browser import Browser


@pytest.fixture(scope="session")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """The run of twelve hosts, one of which is sick."""
    run = fleet_run(tmp_path_factory.mktemp("fleet"), hosts=12, profile="swap", sick={7})
    publish(run, lambda line: None)
    return pathlib.Path(run.path)


@pytest.fixture(scope="session")
def comparison(tmp_path_factory):
    """The comparison of three profiles on the same hosts, with three runs of each."""
    place = tmp_path_factory.mktemp("comparison")
    arms = [
        [fleet_run(place, hosts=4, profile=profile, name=f"{profile}-{number}") for number in (1, 2, 3)]
        for profile in ("dram", "swap", "zram")
    ]
    document, details = compare([ArmRuns(None, runs) for runs in arms])
    page = place / "comparison.html"
    page.write_text(comparison_page(json.loads(json.dumps(document)), details), encoding="utf-8")
    return page


@pytest.fixture(scope="session")
def density(tmp_path_factory):
    """A search under three profiles.

    dram ends at sizes that fail, zram reaches the maximum, and swap ends at invalid probes and has a contradiction.
    """
    place = tmp_path_factory.mktemp("density")
    probes = {
        "dram": [
            (1, "pass"),
            (2, "pass"),
            (4, "pass"),
            (8, "fail"),
            (6, "fail"),
            (5, "fail"),
            (4, "pass"),
            (5, "fail"),
        ],
        "zram": [(1, "pass"), (2, "pass"), (4, "pass"), (8, "pass"), (16, "pass"), (16, "pass")],
        "swap": [
            (1, "pass"),
            (2, "pass"),
            (4, "pass"),
            (8, "fail"),
            (6, "pass"),
            (8, "pass"),
            (8, "fail"),
            (12, "pass"),
            (7, "invalid"),
            (7, "invalid"),
        ],
    }
    runs = [
        {
            "run_id": f"d-{arm}-n{size:04d}-{number}",
            "arm": arm,
            "size": size,
            "outcome": outcome,
            "state": "finished",
            "note": "" if outcome == "pass" else "why",
            "verdict": outcome,
            "lost": ["vm0003"] if (arm, size) == ("dram", 8) else [],
            "slo": {"avg_us": 50, "p99_us": 300},
            "labels": ["DRAM budget of 130 MiB by cgroup fleet"],
            "hosts_within_slo": size if outcome == "pass" else size // 2,
            "avg_us": 20.0 + size,
            "p99_us": 50.0 * size,
            "worst_host_p99_us": 60.0 * size,
        }
        for arm, each in probes.items()
        for number, (size, outcome) in enumerate(each, 1)
    ]
    document = {
        "schema": 1,
        "id": "density-1",
        "kind": "density",
        "finished": True,
        "restored": True,
        "created_at": 0,
        "runs": runs,
        "definition": {
            "arms": [{"name": arm, "variables": {}, "setting": None} for arm in probes],
            "maximum": 16,
            "start": 1,
            "repeats": 3,
            "vms": False,
            "probe": {},
        },
    }
    directory = RunDirectory(str(place), "density-1")
    pathlib.Path(directory.path).mkdir()
    density_result.publish(directory, document, lambda line: None)
    return pathlib.Path(directory.path)
