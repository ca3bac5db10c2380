# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the clock of a host with the controller's over the connection of an action."""

from __future__ import annotations

import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.run import clocks


def compare(action: ActionBase, samples: int = 3) -> clocks.Reading:
    """Return the offset of the host's clock.

    The host's time is read several times over the open connection. The fastest of these exchanges has the smallest
    possible error, half of its duration (the estimate that NTP makes).

    Raises:
        AnsibleActionFail: the host's date command prints no time.
    """
    return min((_sample(action) for _sample_number in range(samples)), key=lambda sample: sample.uncertainty)


def figures(reading: clocks.Reading) -> dict[str, t.Any]:
    """Return a reading as the actions return it."""
    return {
        "clock_offset": reading.offset,
        "clock_uncertainty": reading.uncertainty,
        "clock_read_at": reading.at,
        # An offset within its uncertainty does not show that the clocks differ.
        "clock_correction": reading.offset if abs(reading.offset) > reading.uncertainty else 0.0,
    }


def _sample(action: ActionBase) -> clocks.Reading:
    before = time.time()
    answer = action._low_level_execute_command(clocks.COMMAND, sudoable=False)
    reading = clocks.read(before, time.time(), answer["stdout"])
    if reading is None:
        raise AnsibleActionFail(
            f"the host's date command does not print nanoseconds: {answer['stdout'][:200]!r} {answer['stderr'][:200]!r}"
        )
    return reading
