# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The attributes of modules that change nothing."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    support: full
    description: It only reads in either mode.
  diff_mode:
    support: none
    description: It never changes anything.
"""
