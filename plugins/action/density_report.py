# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.settings import SettingError, number
from ansible_collections.memstretch.density.plugins.plugin_utils.run_directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run_recorder import publish

ARGUMENTS = {
    "results_dir": {"type": "str", "default": "results"},
    "run_id": {"type": "str", "default": "latest"},
    "slo_avg_us": {"type": "raw"},
    "slo_p99_us": {"type": "raw"},
    "slo_enforce": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    """Judge a run from its files. This fails the play where the callback, which wrote them, cannot."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        dummy, options = self.validate_argument_spec(ARGUMENTS)
        path = os.path.join(os.path.expanduser(options["results_dir"]), options["run_id"])
        if not os.path.isdir(path):
            raise AnsibleActionFail(f"run_id: there is no run {options['run_id']!r} below {options['results_dir']}; measure one first")
        directory = RunDirectory.at(path)
        try:
            slo = {
                name: number(f"slo_{name}", options[f"slo_{name}"], name)
                for name in ("avg_us", "p99_us")
                if options[f"slo_{name}"] not in (None, "")
            }
            if self._task.check_mode:
                return {**result, "changed": False, "skipped": True, "msg": "check mode: the report was not written"}
            summary, changed = publish(directory, Display().display, slo)
        except (RunError, SettingError, OSError) as error:
            raise AnsibleActionFail(str(error)) from error
        report = {"run_id": directory.run_id, "directory": directory.path, "verdict": summary["verdict"]}
        result.update(changed=changed, density_report=report)
        if summary["verdict"] == "invalid":
            result.update(failed=True, msg=f"run {directory.run_id} is not valid, for the reasons above")
        elif summary["verdict"] == "fail" and options["slo_enforce"]:
            result.update(failed=True, msg=f"run {directory.run_id} misses the SLO, for the reasons above")
        return result
