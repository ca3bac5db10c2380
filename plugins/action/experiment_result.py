# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    RESULTS_DIR,
    ControllerAction,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.report import html as report_html
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    RunDirectory,
    RunError,
    check_name,
)


class ActionModule(ControllerAction):
    """Check that the result of an experiment can be saved, save it and show it."""

    ARGUMENTS = {
        "state": {"type": "str", "choices": ["checked", "kept"], "default": "kept"},
        "experiment": {"type": "str", "choices": sorted(experiments.EXPERIMENTS), "required": True},
        "results_dir": RESULTS_DIR,
        "run_id": {"type": "str"},
        "expected": {"type": "list", "elements": "str", "default": []},
        "hosts": {"type": "dict", "default": {}},
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        check_name("run_id", options["run_id"])
        directory = experiments.directory_for(options["experiment"], options["results_dir"], options["run_id"])
        if options["state"] == "checked" or self._task.check_mode:
            return {"changed": False}
        if not options["hosts"]:
            raise RunError(f"{options['experiment']}: there is no result to save")
        try:
            measurement.check_document("hosts", options["hosts"])
        except measurement.MeasurementError as error:
            raise RunError(str(error)) from error
        failed = sorted(set(options["expected"]) - set(options["hosts"]))
        document = {
            "measured_at": time.time(),
            "expected": options["expected"],
            "failed": failed,
            "hosts": options["hosts"],
        }
        experiments.keep(directory, options["experiment"], document)
        _show(directory, options["experiment"])
        if failed:
            raise RunError(
                f"{len(failed)} of {len(options['expected'])} have no result ({', '.join(failed[:10])}); "
                f"the results of the others are in {directory.path}"
            )
        return {"changed": True, "experiment_result": {"directory": directory.path, "run_id": directory.run_id}}


def _show(directory: RunDirectory, experiment: str) -> None:
    """Write the experiment's section as text, show it on the terminal, and update the page."""
    sections = experiments.sections(directory)
    lines = report_text.section(next(each for each in sections if each.name == experiment))
    directory.write_text(f"{experiment}.txt", "\n".join(lines).strip() + "\n")
    for line in (*lines, f"Results: {directory.path}"):
        Display().display(line)
    if os.path.exists(directory.file("summary.json")):
        judged_by = directory.read_json("summary.json")["slo"]
        publish(directory, lambda line: None, {name: judged_by[name] for name in ("avg_us", "p99_us")})
    elif not os.path.exists(directory.file("run.json")):  # a run that is still going gets its page at its end
        directory.write_text("report.html", report_html.experiments_page(directory.run_id, sections))
