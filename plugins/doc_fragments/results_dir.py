# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option for the directory of all runs."""

    DOCUMENTATION = r"""
options:
  results_dir:
    description: Directory on the controller with the directories of all runs.
    type: str
    default: results
attributes:
  action_group:
    description: C(group/memstretch.density.results) in C(module_defaults) is for all modules with this option.
    support: full
    membership:
      - memstretch.density.results
"""
