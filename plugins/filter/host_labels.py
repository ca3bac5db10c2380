# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.run.host_labels import host_labels


class FilterModule:
    """Filters on labels."""

    def filters(self):
        """Return the filters by name."""
        return {"host_labels": host_labels}
