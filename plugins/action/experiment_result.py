# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    RESULTS_DIR,
    ControllerAction,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiment_parts, experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish_experiment
from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError, check_name


class ActionModule(ControllerAction):
    """Check that the result of an experiment can be saved, save it and show it."""

    ARGUMENTS = {
        "state": {"type": "str", "choices": ["checked", "part", "kept"], "default": "kept"},
        "experiment": {"type": "str", "choices": sorted(experiments.EXPERIMENTS), "required": True},
        "results_dir": RESULTS_DIR,
        "run_id": {"type": "str"},
        "expected": {"type": "list", "elements": "str", "default": []},
        "hosts": {"type": "dict", "default": {}},
        "definition": {"type": "dict"},
        "parts": {"type": "dict", "default": {}},
        "resume": {"type": "bool", "default": True},
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        check_name("run_id", options["run_id"])
        if options["state"] == "checked":
            return _checked(options)
        directory = experiments.directory_for(options["experiment"], options["results_dir"], options["run_id"])
        if self._task.check_mode:
            return {"changed": False}
        given = "parts" if options["state"] == "part" else "hosts"
        if not options[given]:
            raise RunError(f"{given}: {options['experiment']} has no result to save")
        try:
            measurement.check_documents(given, options[given])
        except measurement.MeasurementError as error:
            raise RunError(str(error)) from error
        if options["state"] == "part":
            if not options["run_id"] or options["definition"] is None:
                raise RunError("run_id, definition: both are needed with state=part")
            experiment_parts.add(directory, options["experiment"], options["definition"], options["parts"])
            return {"changed": True}
        failed = sorted(set(options["expected"]) - set(options["hosts"]))
        document = {
            "measured_at": time.time(),
            "expected": options["expected"],
            "failed": failed,
            "hosts": options["hosts"],
        }
        experiments.keep(directory, options["experiment"], document)
        publish_experiment(directory, options["experiment"], Display().display)
        if failed:
            raise RunError(
                f"{len(failed)} of {len(options['expected'])} hosts have no result ({', '.join(failed[:10])}); "
                f"the results of the others are in {directory.path}"
            )
        experiment_parts.end(directory, options["experiment"])
        return {"changed": True, "experiment_result": {"directory": directory.path, "run_id": directory.run_id}}


def _checked(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return where the result will go, and the parts that are there already."""
    where = (options["experiment"], options["results_dir"], options["run_id"])
    if options["definition"] is None:
        experiments.directory_for(*where)
        return {"changed": False}
    directory, parts = experiment_parts.begin(*where, options["definition"], options["resume"])
    found = {"directory": directory.path, "run_id": directory.run_id, "parts": parts}
    return {"changed": False, "experiment_result": found}
