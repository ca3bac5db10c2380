# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. Run a module on a host that is not trusted; meta/runtime.yml leads all modules for hosts here."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.documentation import documented_results
from ansible_collections.memstretch.density.plugins.plugin_utils.run import (
    charged_dram,
    measurement,
    pressure,
    site_check,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError, unusable
from ansible_collections.memstretch.density.plugins.plugin_utils.untrusted_module import accepted_answer


class ActionModule(ActionBase):
    """Run the module on the host, and return only what is accepted of its answer.

    Answers of async jobs would not pass through here, so async is refused.
    """

    _supports_check_mode = True
    _supports_async = False

    def accept(self, module: str, answer: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the accepted part of what the module returned.

        Raises:
            MeasurementError: it does not fit; the task then fails on this host.
        """
        if module == "charged_dram":
            return charged_dram.result(answer)
        if module == "site_noise":
            return site_check.result(answer)
        if module == "solotest":
            return measurement.result(answer)
        accepted = accepted_answer(answer, documented_results(module))
        return pressure.reading(accepted) if module == "host_memory_info" else accepted

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        answer = self._execute_module(task_vars=task_vars)
        try:
            accepted = {**result, **self.accept(self._task.action.rpartition(".")[2], answer)}
        except MeasurementError as error:
            accepted = {**result, **unusable(error)}
        if answer.get("unreachable") is True:
            accepted["unreachable"] = True
        if self._discovered_interpreter_key:
            accepted["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return accepted
