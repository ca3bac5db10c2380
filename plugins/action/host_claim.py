# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. Claim a host for this playbook, and say who has it if another playbook does."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.claimant import Claimant, is_running, this_playbook


class ActionModule(ActionBase):
    """Only the controller knows whether a playbook still runs. Nothing but a message is taken from the host."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        claimant = this_playbook()
        try:
            result.update(self._claim(claimant, task_vars))
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        if self._discovered_interpreter_key:
            result["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        return result

    def _claim(self, claimant: Claimant, task_vars: t.Any) -> dict[str, t.Any]:
        answer = self._ask(claimant._asdict(), "", task_vars)
        holder = _checked(answer.get("holder"))
        if holder and holder["controller"] == claimant.controller and not is_running(holder["process"]):
            answer = self._ask(claimant._asdict(), holder["process"], task_vars)
            holder = _checked(answer.get("holder"))
        if answer.get("failed") or answer.get("unreachable"):
            kept = {name: bool(answer.get(name)) for name in ("failed", "unreachable")}
            return {**kept, "msg": _line(answer.get("msg"))}
        if holder:
            return {"failed": True, "msg": refusal(holder)}
        return {"changed": False}

    def _ask(self, claimant: dict[str, t.Any], replaces: str, task_vars: t.Any) -> dict[str, t.Any]:
        arguments = {**self._task.args, "claimant": claimant, "replaces": replaces}
        return self._execute_module(module_args=arguments, task_vars=task_vars)


def refusal(holder: t.Mapping[str, t.Any]) -> str:
    """Return the message for a host that another playbook is changing."""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(holder["since"]))
    return (
        f"another playbook is changing this host since {since}: {holder['text']}. Nothing was changed. Wait until it "
        "ends. If it does not run any more, take the host over with -e host_tuning_take_over=true"
    )


def _checked(holder: t.Any) -> dict[str, t.Any] | None:
    """Describe what the host says about another playbook, with all texts as single lines."""
    if not isinstance(holder, dict):
        return None
    since = holder.get("since")
    return {
        **{name: _line(holder.get(name)) for name in ("controller", "process", "text")},
        "since": since if isinstance(since, (int, float)) and 0 <= since < 2**33 else 0,
    }


def _line(text: t.Any) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(text))[:1000]
