# SPDX-License-Identifier: GPL-3.0-or-later
"""A calibration that is already there is no change."""

from __future__ import annotations

import types

from ansible_collections.memstretch.density.plugins.action.calibrated_slo import ActionModule
from ansible_collections.memstretch.density.plugins.plugin_utils.study import calibration

OPTIONS = {"run_id": "run", "factor": 1.5, "fitting": 8}


def test_only_a_calibration_that_differs_is_a_change(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}", encoding="ascii")
    monkeypatch.setattr(calibration, "in_dram", lambda _run: calibration.InDram("run", 4, 40.0, 130.0, None, None))
    action = ActionModule.__new__(ActionModule)

    def work(check_mode=False, **options):
        action._task = types.SimpleNamespace(check_mode=check_mode)
        return action.work({**OPTIONS, "results_dir": str(tmp_path), **options}, {})["changed"]

    written = tmp_path / "run" / "calibration.json"
    assert work(check_mode=True) and not written.exists()
    assert work() and written.exists()
    assert not work() and not work(check_mode=True)
    assert work(check_mode=True, factor=2) and work(factor=2) and not work(factor=2)
