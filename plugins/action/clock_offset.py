# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number
from ansible_collections.memstretch.density.plugins.plugin_utils.run import clocks

SAMPLES = Range(int, 1, 100, "exchanges")
ARGUMENTS = {"samples": {"type": "int", "default": 3}}


class ActionModule(ActionBase):
    """Measure the offset of the host's clock from the controller's.

    The host's time is read several times over the open connection. The fastest of these exchanges has the smallest
    possible error, half of its duration (the estimate that NTP makes).
    """

    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(ARGUMENTS)
        try:
            number("samples", options["samples"], SAMPLES)
        except SettingError as error:
            raise AnsibleActionFail(str(error)) from None
        best = min((self._sample() for _sample in range(options["samples"])), key=lambda sample: sample.uncertainty)
        return {
            **result,
            "changed": False,
            "clock_offset": best.offset,
            "clock_uncertainty": best.uncertainty,
            "clock_read_at": best.at,
            # An offset within its uncertainty does not show that the clocks differ.
            "clock_correction": best.offset if abs(best.offset) > best.uncertainty else 0.0,
        }

    def _sample(self) -> clocks.Reading:
        before = time.time()
        answer = self._low_level_execute_command(clocks.COMMAND, sudoable=False)
        reading = clocks.read(before, time.time(), answer["stdout"])
        if reading is None:
            raise AnsibleActionFail(
                f"the host's date command does not print nanoseconds: {answer['stdout'][:200]!r} "
                f"{answer['stderr'][:200]!r}"
            )
        return reading
