# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The option for the settings that all runs of a study have in common."""

    DOCUMENTATION = r"""
options:
  run:
    description:
      - The settings that all runs have in common, as M(memstretch.density.benchmark_run) returns them with
        O(memstretch.density.benchmark_run#module:state=checked). A study or search that was begun with another load,
        matrix, SLO or fleet is not continued.
    type: dict
    required: true
"""
