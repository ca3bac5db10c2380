# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The attributes of modules that bring something into a state, and report in check mode what they would change."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    support: full
    description: Reports what would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows the state before and after.
"""
