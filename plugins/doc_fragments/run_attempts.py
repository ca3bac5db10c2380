# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option of modules that repeat an invalid run."""

    DOCUMENTATION = r"""
options:
  attempts:
    description:
      - Attempts at each run, 1 to 99, of which all but the last may be invalid. Not a setting of the study or search,
        which another number continues.
    type: raw
    default: 3
"""
