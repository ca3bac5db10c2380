# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. Run a module on a host that is not trusted; meta/runtime.yml leads all modules for hosts here."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.documentation import documented_results
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import accepted as headroom
from ansible_collections.memstretch.density.plugins.plugin_utils.host_action import HostAction
from ansible_collections.memstretch.density.plugins.plugin_utils.run import (
    charged_dram,
    measurement,
    pressure,
    site_check,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.untrusted_module import accepted_answer


class ActionModule(HostAction):
    """Run the module on the host, and return only what is accepted of its answer.

    Attributes:
        RESULTS: the keys of the module's answer, if they have been read already.
    """

    RESULTS: t.ClassVar[list[str] | None] = None

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        module = self._task.action.rpartition(".")[2]
        result = super().run(tmp, task_vars)
        return {**result, **self.ask(task_vars, lambda answer: _accepted(module, answer, self.RESULTS))}


def _accepted(module: str, answer: dict[str, t.Any], keys: list[str] | None) -> dict[str, t.Any]:
    """Return the accepted part of what a module returned.

    Raises:
        MeasurementError: it does not fit.
    """
    if module == "headroom_info":
        return headroom.result(answer)
    if module == "site_noise":
        return site_check.result(answer)
    if module == "solotest":
        return measurement.result(answer)
    accepted = accepted_answer(answer, documented_results(module) if keys is None else keys)
    if module == "dram_budget":
        return charged_dram.reading(accepted)
    return pressure.reading(accepted) if module == "host_memory_info" else accepted
