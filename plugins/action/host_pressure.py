# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement, pressure


class ActionModule(ActionBase):
    """Run the module on the host and return only what pressure.reading() accepts of its answer.

    A host that cannot be read does not fail the task: its figures are unknown, and the phase itself decides whether its
    VMs were measured.
    """

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        name = str(self._task.delegate_to or (task_vars or {}).get("inventory_hostname"))
        try:
            answer = self._execute_module(task_vars=task_vars)
            accepted = pressure.reading(answer)
            self._remove_tmp_path(self._connection._shell.tmpdir)
        except (AnsibleError, measurement.MeasurementError) as error:
            accepted = {"unknown": measurement.message(str(error))}
        result.update(changed=False, host_pressure={"host": name, "moment": self._moment(), **accepted})
        if self._discovered_interpreter_key:
            result["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        return result

    def _moment(self) -> str:
        """Return which part of a run the options of the task belong to."""
        given = self._task.args
        if given.get("raw"):
            return "begin"
        return "after" if "since" in given else "end" if "log_after" in given else "before"
