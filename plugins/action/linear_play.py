# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import ControllerAction

# The last parts of their names. The strategy debug is linear too.
LINEAR = ("linear", "mitogen_linear", "debug")


class ActionModule(ControllerAction):
    """Refuse a play whose hosts do not go through its tasks together."""

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        play = self._task.get_play()
        if play.strategy.split(".")[-1] not in LINEAR:
            raise SettingError(
                f"strategy: {play.strategy} is not allowed for the play {play.get_name()!r}; it must be linear, "
                "because all hosts have to be at the same task. Remove the strategy from the play, from "
                "ansible.cfg and from the environment (ANSIBLE_STRATEGY)"
            )
        if play.serial:
            raise SettingError(
                f"serial: {', '.join(map(str, play.serial))} is not allowed for the play {play.get_name()!r}, because "
                "all hosts have to be at the same task. Remove serial from the play; forks limits how many hosts "
                "Ansible reaches at once"
            )
        return {"changed": False}
