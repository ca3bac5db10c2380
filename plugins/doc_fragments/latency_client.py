# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The attributes of modules that run the latency client."""

    DOCUMENTATION = r"""
attributes:
  async:
    support: none
    description: The answer of the host must pass through the action of this module. Use C(detach) instead.
  check_mode:
    support: full
    description: Checks the options and returns whether Redis would be written to; sends nothing.
  diff_mode:
    support: none
    description: The values are random bytes.
  platform:
    support: full
    description: Any architecture. Each needs its own build of the client.
    platforms: linux
"""
