# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.untrusted_module import UntrustedModule


class ActionModule(UntrustedModule):
    """Run the module on the host and return what measurement.result() accepts of the answer of each client."""

    def accept(self, answer: dict[str, t.Any]) -> dict[str, t.Any]:
        answers = answer.get("clients")
        if not isinstance(answers, dict):
            return {"failed": True, "msg": "the host returned no answers of its clients", **measurement.result(answer)}
        clients = {name: measurement.result(answers.get(name)) for name in self._task.args["clients"]}
        return {"changed": any(each.get("changed") for each in clients.values()), "clients": clients}
