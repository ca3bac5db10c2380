# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    RESULTS_DIR,
    ControllerAction,
    measured_run,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import SLO_FACTOR
from ansible_collections.memstretch.density.plugins.plugin_utils.study import calibration
from ansible_collections.memstretch.density.plugins.plugin_utils.study.options import RANGES


class ActionModule(ControllerAction):
    """Derive an SLO from what a run in DRAM did, and keep it next to the run."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "run_id": {"type": "str", "required": True},
        "factor": {"type": "raw", "default": 1.5},
        "fitting": {"type": "raw", "required": True},
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        factor = number("factor", options["factor"], SLO_FACTOR)
        fits = number("fitting", options["fitting"], RANGES["density_max"])
        directory = measured_run("run_id", options["results_dir"], options["run_id"])
        found = calibration.document(calibration.in_dram(directory), factor, fits)
        Display().display(f"{calibration.sentence(found)}.")
        slo = found["slo"]
        Display().display(f"The SLO is avg <= {slo['avg_us']:g} us and p99 <= {slo['p99_us']:g} us.")
        write = directory.json_differs if self._task.check_mode else directory.write_json
        return {"changed": write("calibration.json", found), "calibration": found}
