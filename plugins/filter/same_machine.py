# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.run.same_machine import same_machine


class FilterModule:
    """Filters on hosts."""

    def filters(self):
        """Return the filters by name."""
        return {"same_machine": same_machine}
