# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number
from ansible_collections.memstretch.density.plugins.plugin_utils import host_clock

SAMPLES = Range(int, 1, 100, "exchanges")
ARGUMENTS = {"samples": {"type": "int", "default": 3}}


class ActionModule(ActionBase):
    """Measure the offset of the host's clock from the controller's."""

    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(ARGUMENTS)
        try:
            number("samples", options["samples"], SAMPLES)
        except SettingError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": False, **host_clock.figures(host_clock.compare(self, options["samples"]))}
