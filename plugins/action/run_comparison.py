# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils import report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.comparison import compare
from ansible_collections.memstretch.density.plugins.plugin_utils.report_html import comparison_page
from ansible_collections.memstretch.density.plugins.plugin_utils.run_directory import RunDirectory, RunError

ARGUMENTS = {
    "results_dir": {"type": "str", "default": "results"},
    "runs": {"type": "list", "elements": "str", "required": True},
    "name": {"type": "str", "default": "comparison"},
}


class ActionModule(ActionBase):
    """Compare runs from their files."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        dummy, options = self.validate_argument_spec(ARGUMENTS)
        if os.path.basename(options["name"]) != options["name"] or options["name"] in ("", ".", "..", "latest"):
            raise AnsibleActionFail(f"name: {options['name']!r} is not a name for a directory below {options['results_dir']}")
        results = os.path.expanduser(options["results_dir"])
        missing = [run for run in options["runs"] if not os.path.isfile(os.path.join(results, run, "run.json"))]
        if missing:
            raise AnsibleActionFail(f"runs: there is no run {', '.join(missing)} below {options['results_dir']}; measure it first")
        try:
            document, details = compare([RunDirectory.at(os.path.join(results, run)) for run in options["runs"]])
            lines = report_text.comparison(document)
            page = comparison_page(document, details)
            changed = False if self._task.check_mode else self._write(RunDirectory(results, options["name"]), document, lines, page)
        except (RunError, OSError) as error:
            raise AnsibleActionFail(str(error)) from error
        for line in lines:
            Display().display(line)
        return {**result, "changed": changed, "comparison": document}

    @staticmethod
    def _write(directory: RunDirectory, document: dict[str, t.Any], lines: list[str], page: str) -> bool:
        if os.path.exists(directory.file("run.json")):
            raise RunError(f"name: {directory.run_id} is a run; choose another name for the comparison")
        os.makedirs(directory.path, exist_ok=True)
        changed = directory.write_text("comparison.json", json.dumps(document, indent=1) + "\n")
        changed |= directory.write_text("comparison.html", page)
        return directory.write_text("comparison.txt", "\n".join(lines).strip() + "\n") or changed
