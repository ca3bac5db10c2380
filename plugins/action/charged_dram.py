# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.untrusted_module import UntrustedModule


class ActionModule(UntrustedModule):
    """Run the module on the host and return only what charged_dram.result() accepts of its answer."""

    def accept(self, answer: dict[str, t.Any]) -> dict[str, t.Any]:
        return charged_dram.result(answer, time.time())
