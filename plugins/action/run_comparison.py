# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils import cost, cost_text, report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.comparison import compare
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    COST_EXAMPLE,
    PRICES,
    RESULTS_DIR,
    ControllerAction,
    measured_run,
    own_directory,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.report_html import comparison_page, run_names
from ansible_collections.memstretch.density.plugins.plugin_utils.run_directory import RunDirectory


class ActionModule(ControllerAction):
    """Compare runs from their files."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "runs": {"type": "list", "elements": "str", "required": True},
        "name": {"type": "str", "default": "comparison"},
        "prices": PRICES,
        "cost_example": COST_EXAMPLE,
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        directory = own_directory("name", options["results_dir"], options["name"])
        paid = cost.prices("prices", options["prices"], options["cost_example"])
        runs = [measured_run("runs", options["results_dir"], run) for run in options["runs"]]
        document, details = compare(runs)
        names = run_names(document["runs"])
        document["cost"] = paid and cost.of_runs(paid, [
            (run, names[each["run_id"]], each["verdict"], each["fleet"]) for run, each in zip(runs, document["runs"])
        ])
        lines = report_text.comparison(document) + cost_text.lines(document["cost"])
        page = comparison_page(document, details)
        changed = False if self._task.check_mode else self._write(directory, document, lines, page)
        for line in lines:
            Display().display(line)
        return {"changed": changed, "comparison": document}

    @staticmethod
    def _write(directory: RunDirectory, document: dict[str, t.Any], lines: list[str], page: str) -> bool:
        os.makedirs(directory.path, exist_ok=True)
        changed = directory.write_text("comparison.json", json.dumps(document, indent=1) + "\n")
        changed |= directory.write_text("comparison.html", page)
        return directory.write_text("comparison.txt", "\n".join(lines).strip() + "\n") or changed
