# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of the modules whose action plugin does all the work on the controller."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    support: full
    description: Changes nothing on any host either way; in check mode it writes no file on the controller either.
  diff_mode:
    support: none
    description: There is no state of a host that would differ.
  platform:
    support: full
    description: Works on the controller.
    platforms: posix
"""
