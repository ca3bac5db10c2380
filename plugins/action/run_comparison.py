# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.plugin_utils.comparison import Arm, publish
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    RESULTS_DIR,
    ControllerAction,
    measured_run,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run_directory import RunDirectory, RunError


class ActionModule(ControllerAction):
    """Compare runs from their files."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "runs": {"type": "list", "elements": "str", "required": True},
        "name": {"type": "str", "default": "comparison"},
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        if os.path.basename(options["name"]) != options["name"] or options["name"] in ("", ".", "..", "latest"):
            raise RunError(f"name: {options['name']!r} is not a name for a directory below {options['results_dir']}")
        arms = [Arm(None, [measured_run("runs", options["results_dir"], run)]) for run in options["runs"]]
        directory = RunDirectory(options["results_dir"], options["name"])
        document, changed = publish(directory, arms, Display().display, write=not self._task.check_mode)
        return {"changed": changed, "comparison": document}
