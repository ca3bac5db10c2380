# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

# The output of the command. float() would also take nan and inf, which pass every comparison with a limit.
_SECONDS = re.compile(r"[0-9]{1,11}\.[0-9]{1,9}")

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
        if not 1 <= options["samples"] <= 100:
            raise AnsibleActionFail(
                f"samples: {options['samples']} is out of range; it must be a whole number from 1 to 100"
            )
        offset, uncertainty = min(
            (self._sample() for _sample in range(options["samples"])), key=lambda sample: sample[1]
        )
        return {
            **result,
            "changed": False,
            "clock_offset": round(offset, 6),
            "clock_uncertainty": round(uncertainty, 6),
            # An offset within its uncertainty does not show that the clocks differ.
            "clock_correction": round(offset, 6) if abs(offset) > uncertainty else 0.0,
        }

    def _sample(self) -> tuple[float, float]:
        before = time.time()
        answer = self._low_level_execute_command("date +%s.%N", sudoable=False)
        after = time.time()
        lines = answer["stdout"].strip().splitlines()[-1:]
        if not lines or not _SECONDS.fullmatch(lines[0]):
            raise AnsibleActionFail(
                f"the host's date command does not print nanoseconds: {answer['stdout'][:200]!r} "
                f"{answer['stderr'][:200]!r}"
            )
        return float(lines[0]) - (before + after) / 2, (after - before) / 2
