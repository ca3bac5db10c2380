# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.run import host_facts, same_machine


class FilterModule:
    """Filters on the hosts of a play."""

    def filters(self):
        """Return the filters by name."""
        return {
            "host_facts": host_facts.host_facts,
            "same_machine": same_machine.same_machine,
        }
