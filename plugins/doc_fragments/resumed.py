# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option of modules that can be interrupted."""

    DOCUMENTATION = r"""
options:
  resume:
    description: Whether to continue an unfinished study or search.
    type: bool
    default: true
"""
