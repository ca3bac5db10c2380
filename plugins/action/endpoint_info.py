# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import host_clock
from ansible_collections.memstretch.density.plugins.plugin_utils.host_action import HostAction
from ansible_collections.memstretch.density.plugins.plugin_utils.run import endpoint, measurement


class ActionModule(HostAction):
    """Compare the clock of a host with the controller's, and ask the Redis that it will load for its state."""

    ARGUMENTS = {
        "client": {"type": "dict"},
        "password": {"type": "str", "no_log": True},
        "observer": {"type": "dict"},
    }

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(self.ARGUMENTS)
        client = options["client"]
        try:
            names = _names(client, options["observer"]) if client else {}
        except SettingError as error:
            raise AnsibleActionFail(str(error)) from None
        clock = host_clock.figures(host_clock.compare(self))
        if not client:
            return {**result, "changed": False, **clock}
        secret = {"password": options["password"]} if options["password"] else {}
        # An impossible CPU is refused here, before the fill empties the Redis. A run needs no other module of a client:
        # Ansible takes half a second to pack each.
        answer = self.ask(
            task_vars,
            lambda answer: _accepted(answer, {**names, **clock}),
            module_name="memstretch.density.solotest_schedule",
            module_args={"state": "asked", "client": client, **secret},
        )
        return {**result, **answer, **clock}


def _names(client: t.Mapping[str, t.Any], observer: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    return {"endpoint": endpoint.name(client), "observer": endpoint.observer(observer, client)}


def _accepted(answer: dict[str, t.Any], known: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the state of an endpoint, or why it did not answer.

    Args:
        answer: of the module C(solotest_schedule).
        known: what is known of the endpoint already.
    """
    measured = measurement.result(answer)
    state = measured.pop("solotest", None)
    accepted = {**measured, "changed": False}
    if state and not accepted.get("failed"):
        accepted["endpoint_info"] = {
            "redis_version": state["server"]["before"].get("redis_version"),
            "kernel": state["kernel"] or {},
            "machine": state["machine"],
            "keys": state["server"]["before"].get("dbsize"),
            "memory": _memory(state),
            "wall_offset": state["wall_offset"],
            **known,
        }
    return accepted


def _memory(state: dict[str, t.Any]) -> dict[str, int] | None:
    """Return the free memory of the host, and the memory of its Redis; None if the Redis is on another host."""
    free = state.get("memory")
    if not free or not (state.get("placement") or {}).get("server_pid"):
        return None
    return {
        "free_bytes": free["available_bytes"] + free["swap_free_bytes"],
        "used_bytes": state["server"]["before"].get("used_memory") or 0,
    }
