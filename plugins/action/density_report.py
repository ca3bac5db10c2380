# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    COST_EXAMPLE,
    PRICES,
    RESULTS_DIR,
    ControllerAction,
    measured_run,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL, INVALID, PASS
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import RANGES


class ActionModule(ControllerAction):
    """Judge a run from its files. This action can fail the play; the callback, which wrote the files, cannot."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "run_id": {"type": "str", "default": "latest"},
        "slo_avg_us": {"type": "raw"},
        "slo_p99_us": {"type": "raw"},
        "slo_enforce": {"type": "bool", "default": False},
        "prices": PRICES,
        "cost_example": COST_EXAMPLE,
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        directory = measured_run("run_id", options["results_dir"], options["run_id"])
        slo = {
            name: number(f"slo_{name}", options[f"slo_{name}"], RANGES[f"slo_{name}"])
            for name in ("avg_us", "p99_us")
            if options[f"slo_{name}"] not in (None, "")
        }
        paid = cost.prices("prices", options["prices"], options["cost_example"])
        if self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "check mode: the report was not written"}
        summary, changed = publish(directory, Display().display, slo, paid)
        report = {"run_id": directory.run_id, "directory": directory.path, "verdict": summary["verdict"]}
        result: dict[str, t.Any] = {"changed": changed, "density_report": report}
        if summary["verdict"] == INVALID:
            result.update(failed=True, msg=f"run {directory.run_id} is not valid; the reasons are listed above")
        elif summary["verdict"] != PASS and options["slo_enforce"]:
            what = "misses the SLO" if summary["verdict"] == FAIL else "does not prove that the SLO is met"
            result.update(failed=True, msg=f"run {directory.run_id} {what}; the reasons are listed above")
        return result
