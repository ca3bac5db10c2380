# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. What the role host_tuning says about a host."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils import tuning


class FilterModule:
    """Filters of the role host_tuning."""

    def filters(self):
        """Return the filters by name."""
        return {
            "device_paths": tuning.device_paths,
            "tuning_labels": tuning.labels,
            "tuning_record": tuning.record,
            "imdt_missing": tuning.imdt_missing,
        }
