# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement


class ActionModule(ActionBase):
    """Run the module on the host and return only what measurement.result() accepts of its answer.

    Ansible obeys keys such as add_host in the result of any module, and the host is not trusted. Results of async jobs
    would not pass through here, so async is refused; the option detach replaces it.
    """

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        answer = self._execute_module(task_vars=task_vars)
        accepted = {**result, **measurement.result(answer)}
        if "solotest" not in accepted and accepted.get("failed"):
            # The module did not even start; its output is the only explanation.
            for stream in ("module_stderr", "module_stdout"):
                if answer.get(stream):
                    accepted[stream] = measurement.message(answer[stream])
        if answer.get("unreachable") is True:
            accepted["unreachable"] = True
        if self._discovered_interpreter_key:
            accepted["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return accepted
