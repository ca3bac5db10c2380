# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The attributes of modules that bring Redis servers into a state."""

    DOCUMENTATION = r"""
attributes:
  idempotent:
    support: partial
    details:
      - C(state=restarted) always restarts.
    description: A second run changes nothing.
  platform:
    support: full
    description: Systems with C(/proc).
    platforms: linux
"""
