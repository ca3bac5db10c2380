# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    COST_EXAMPLE,
    PRICES,
    RESULTS_DIR,
    ControllerAction,
    measured_run,
    own_directory,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report import throughput_comparison
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, publish


class ActionModule(ControllerAction):
    """Compare runs, or results of the throughput benchmark, from their files."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "runs": {"type": "list", "elements": "str", "required": True},
        "name": {"type": "str", "default": "comparison"},
        "prices": PRICES,
        "cost_example": COST_EXAMPLE,
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        directory = own_directory("name", options["results_dir"], options["name"])
        write = not self._task.check_mode
        throughput = throughput_comparison.measured(options["results_dir"], options["runs"])
        if throughput:
            document, changed = throughput_comparison.publish(directory, throughput, Display().display, write)
            return {"changed": changed, "comparison": document, "published": {"directory": directory.path}}
        paid = cost.prices("prices", options["prices"], options["cost_example"])
        arms = [ArmRuns(None, [measured_run("runs", options["results_dir"], run)]) for run in options["runs"]]
        document, changed = publish(directory, arms, Display().display, paid, write=write)
        return {"changed": changed, "comparison": document, "published": {"directory": directory.path}}
