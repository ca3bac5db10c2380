# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.memstretch.density.plugins.plugin_utils.run import clocks
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import failure_message

# The longest message that is kept of a host whose clock could not be measured, in characters.
LONGEST_MESSAGE = 400


class ActionModule(ControllerAction):
    """Return the clocks that were measured after the last phase. The callback writes them to run.json."""

    ARGUMENTS = {"clocks": {"type": "dict", "required": True}}

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        measured = {host: _after(answer) for host, answer in options["clocks"].items()}
        return {"changed": False, "benchmark_end": {"clocks": measured}}


def _after(answer: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the reading of a host from its registered result, or why there is none."""
    if "clock_offset" not in answer:
        return {"error": failure_message(answer, LONGEST_MESSAGE)}
    return clocks.reading_of(answer)._asdict()
