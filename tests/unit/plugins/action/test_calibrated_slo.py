# SPDX-License-Identifier: GPL-3.0-or-later
"""What a calibration measures, and where it is kept."""

from __future__ import annotations

import json
import types

import pytest

from ansible_collections.memstretch.density.plugins.action.calibrated_slo import ActionModule
from ansible_collections.memstretch.density.plugins.plugin_utils.study import calibration


@pytest.fixture
def calibrate(tmp_path, monkeypatch):
    """Run the action on a fleet of this size, without the run, whose figures are given. It names the sizes measured."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}", encoding="ascii")
    monkeypatch.setattr(calibration, "in_dram", lambda _run: calibration.InDram("run", 4, 40.0, 130.0, None, None))
    sizes = []

    def run(hosts, check_mode=False):
        action = ActionModule.__new__(ActionModule)
        action._task = types.SimpleNamespace(check_mode=check_mode)
        action._measure = lambda _results, size: sizes.append(size) or "run"
        options = {"results_dir": str(tmp_path), "run": {"expected": ["host"] * hosts}, "factor": 1.5}
        return action.work(options, {})

    return run, sizes


@pytest.mark.parametrize("hosts, half", [(1, 1), (2, 1), (9, 4)])
def test_half_of_the_fleet_is_measured_and_the_objective_is_kept_with_the_run(calibrate, tmp_path, hosts, half):
    run, sizes = calibrate
    found = run(hosts)["calibration"]
    assert sizes == [half] and found["fitting"] == hosts and found["slo"] == {"avg_us": 60, "p99_us": 195}
    assert json.loads((tmp_path / "run" / "calibration.json").read_text(encoding="utf-8"))["slo"] == found["slo"]


def test_check_mode_measures_nothing(calibrate, tmp_path):
    run, sizes = calibrate
    assert not run(9, check_mode=True)["changed"] and sizes == []
    assert not (tmp_path / "run" / "calibration.json").exists()
