# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The attribute of modules whose action accepts only what it expects of the answer of a host."""

    DOCUMENTATION = r"""
attributes:
  async:
    support: none
    description: The answer of the host must pass through the action of this module.
"""
