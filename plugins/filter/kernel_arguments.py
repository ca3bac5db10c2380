# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter C(kernel_arguments)."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.profile import kernel_arguments


class FilterModule:
    """Filters on profiles."""

    def filters(self):
        """Return the filters by name."""
        return {"kernel_arguments": kernel_arguments}
