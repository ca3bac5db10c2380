# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private. The filter C(content_digest)."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.program import content_digest


class FilterModule:
    """Filters on the programs that are built."""

    def filters(self):
        """Return the filters by name."""
        return {"content_digest": content_digest}
