# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. Do what a module on the controller documents; meta/runtime.yml leads all of these modules here."""

from __future__ import annotations

import importlib
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils import controller
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import ControllerAction, Task
from ansible_collections.memstretch.density.plugins.plugin_utils.documentation import documented_options
from ansible_collections.memstretch.density.plugins.plugin_utils.study import typed_passwords


class ActionModule(ControllerAction):
    """Check the options that the module documents, and call C(work) of plugin_utils/controller/<its name>.py."""

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        self.ARGUMENTS = documented_options(self._module)
        return super().run(tmp, task_vars)

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        typed_passwords.keep(self._play_context)
        code = importlib.import_module(f"{controller.__name__}.{self._module}")
        task = Task(bool(self._task.check_mode), frozenset(self._task.args), task_vars, self._task.get_play())
        result: dict[str, t.Any] = code.work(options, task)
        return result

    @property
    def _module(self) -> str:
        return str(self._task.action).rpartition(".")[2]
