# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.client_result import answer_of
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import ControllerAction


class ActionModule(ControllerAction):
    """Return the answer of one host's client."""

    ARGUMENTS = {"answers": {"type": "dict", "required": True}}

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return answer_of(options["answers"], task_vars["inventory_hostname"])
