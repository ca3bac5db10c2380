# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. Claim a host for this playbook, and say who has it if another playbook does."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.claimant import Claimant, is_running, this_playbook
from ansible_collections.memstretch.density.plugins.plugin_utils.host_action import HostAction


class ActionModule(HostAction):
    """Only the controller knows whether a playbook still runs. Nothing but a message is taken from the host."""

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        answer = self._claim(this_playbook(), task_vars)
        holder = answer.pop("holder", None)
        if holder and not answer.get("failed"):
            answer.update(failed=True, msg=refusal(holder))
        return {**result, **answer}

    def _claim(self, claimant: Claimant, task_vars: t.Any) -> dict[str, t.Any]:
        """Claim the host, also in place of a playbook of this controller that no longer runs."""
        answer = self._ask(claimant, "", task_vars)
        holder = answer.get("holder")
        if holder and holder["controller"] == claimant.controller and not is_running(holder["process"]):
            answer = self._ask(claimant, holder["process"], task_vars)
        return answer

    def _ask(self, claimant: Claimant, replaces: str, task_vars: t.Any) -> dict[str, t.Any]:
        arguments = {**self._task.args, "claimant": claimant._asdict(), "replaces": replaces}
        return self.ask(task_vars, _accepted, module_args=arguments)


def refusal(holder: t.Mapping[str, t.Any]) -> str:
    """Return the message for a host that another playbook is changing."""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(holder["since"]))
    return (
        f"another playbook is changing this host since {since}: {holder['text']}. Nothing was changed. Wait until it "
        "ends. If it no longer runs, take the host over with -e host_tuning_take_over=true"
    )


def _accepted(answer: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return who has the host, if somebody has, or why it could not be asked."""
    if answer.get("failed") or answer.get("unreachable"):
        return {"failed": bool(answer.get("failed")), "msg": _line(answer.get("msg"))}
    return {"changed": False, "holder": _checked(answer.get("holder"))}


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
