# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.measurement import MeasurementError


class ActionModule(ActionBase):
    """Run the module on the host and return only what charged_dram.result() accepts of its answer."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        answer = self._execute_module(task_vars=task_vars)
        try:
            accepted = {**result, **charged_dram.result(answer)}
        except MeasurementError as error:
            accepted = {**result, "failed": True, "msg": f"the host's result cannot be used: {error}"}
        if answer.get("unreachable") is True:
            accepted["unreachable"] = True
        if self._discovered_interpreter_key:
            accepted["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return accepted
