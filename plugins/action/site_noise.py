# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.untrusted_module import UntrustedModule


class ActionModule(UntrustedModule):
    """Run the module on the host and return only what site_check.result() accepts of its answer."""

    def accept(self, answer: dict[str, t.Any]) -> dict[str, t.Any]:
        return site_check.result(answer)
