# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    CHECKED_RUN,
    RESULTS_DIR,
    ControllerAction,
    measured_run,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError, compact_utc, unused
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import SLO_FACTOR
from ansible_collections.memstretch.density.plugins.plugin_utils.study import calibration
from ansible_collections.memstretch.density.plugins.plugin_utils.study.child_playbooks import (
    ChildPlaybooks,
    refuse_questions,
)


class ActionModule(ControllerAction):
    """Measure half of a fleet, derive an SLO from what it did, and keep it next to that run."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "run": CHECKED_RUN,
        "factor": {"type": "raw", "default": 1.5},
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        factor = number("slo_factor", options["factor"], SLO_FACTOR)
        hosts = len(options["run"]["expected"])
        if self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "check mode: nothing was measured"}
        run_id = self._measure(options["results_dir"], max(1, hosts // 2))
        directory = measured_run("run_id", options["results_dir"], run_id)
        found = calibration.document(calibration.in_dram(directory), factor, hosts)
        Display().display(f"{calibration.sentence(found)}.")
        slo = found["slo"]
        Display().display(f"The SLO is avg <= {slo['avg_us']:g} us and p99 <= {slo['p99_us']:g} us.")
        directory.write_json("calibration.json", found)
        return {"changed": True, "calibration": found}

    def _measure(self, results_dir: str, hosts: int) -> str:
        """Run site.yml on the first hosts of the fleet, and return the name of the run."""
        refuse_questions()
        run_id = unused(results_dir, f"calibration-{compact_utc(time.time())}").run_id
        variables = {
            **calibration.VARIABLES,
            "latency_benchmark_iterations": 1,
            "latency_benchmark_influences": [0],
            "fleet_size": hosts,
            "run_id": run_id,
            "results_dir": results_dir,
            "slo": "",
            "slo_enforce": False,
        }
        with ChildPlaybooks(lambda line: None, lambda: None) as playbooks:
            if playbooks.run("site", variables):
                raise RunError(f"the objective cannot be derived: the run {run_id} of {hosts} hosts failed; see above")
        return run_id
