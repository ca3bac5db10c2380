# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The attributes of modules whose action plugin does the work, on the controller."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    support: full
    description: In check mode, changes no host and writes no file on the controller.
  diff_mode:
    support: none
    description: There are no settings to compare.
  platform:
    support: full
    description: Runs on the controller.
    platforms: posix
"""
