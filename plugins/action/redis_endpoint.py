# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import host_clock
from ansible_collections.memstretch.density.plugins.plugin_utils.run import endpoint, measurement

_CLIENT = "memstretch.density.solotest"


class ActionModule(ActionBase):
    """Ask a Redis from the host that will load it for its state, and compare the clocks; one task for each host."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        arguments = {
            "client": {"type": "dict", "required": True},
            "password": {"type": "str", "no_log": True},
            "observer": {"type": "dict"},
        }
        _validation, options = self.validate_argument_spec(arguments)
        try:
            names = {
                "endpoint": endpoint.name(options["client"]),
                "observer": endpoint.observer(options["observer"], options["client"]),
            }
        except SettingError as error:
            raise AnsibleActionFail(str(error)) from None
        clock = host_clock.compare(self)
        secret = {"password": options["password"]} if options["password"] else {}
        # An impossible CPU is refused here, before the fill empties the Redis.
        arguments = {**options["client"], **secret, "mode": "ping"}
        answer = self._execute_module(module_name=_CLIENT, module_args=arguments, task_vars=task_vars)
        accepted = measurement.result(answer)
        result: dict[str, t.Any] = {"changed": False}
        for name in ("failed", "msg", "skipped"):
            if name in accepted:
                result[name] = accepted[name]
        if answer.get("unreachable") is True:
            result["unreachable"] = True
        if self._discovered_interpreter_key:
            result["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        self._remove_tmp_path(self._connection._shell.tmpdir)
        if not result.get("failed") and accepted.get("solotest"):
            state = accepted["solotest"]
            result["redis_endpoint"] = {
                **names,
                "redis_version": state["server"]["before"].get("redis_version"),
                "kernel": state["kernel"] or {},
                "machine": state["machine"],
                "keys": state["server"]["before"].get("dbsize"),
                "wall_offset": state["wall_offset"],
                **host_clock.figures(clock),
            }
        return result
