# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of actions that run a module on a host, which is not trusted."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError, unusable


class HostAction(ActionBase):
    """An action that takes from the answer of a host only what a function accepts.

    Answers of async jobs would not pass through here, so async is refused.
    """

    _supports_check_mode = True
    _supports_async = False

    def ask(
        self, task_vars: t.Any, accept: t.Callable[[dict[str, t.Any]], dict[str, t.Any]], **module: t.Any
    ) -> dict[str, t.Any]:
        """Run a module on the host, and return what is accepted of its answer.

        Args:
            task_vars: of the task.
            accept: returns the accepted part of the answer. Its MeasurementError makes the task fail on this host.
            module: C(module_name) and C(module_args), by default those of the task.
        """
        answer = self._execute_module(task_vars=task_vars, **module)
        try:
            accepted = accept(answer)
        except MeasurementError as error:
            accepted = unusable(error)
        if answer.get("unreachable") is True:
            accepted["unreachable"] = True
        if self._discovered_interpreter_key:
            accepted["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return accepted
