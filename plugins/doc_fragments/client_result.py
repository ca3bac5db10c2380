# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The options of modules that fetch what a client in the background has written."""

    DOCUMENTATION = r"""
options:
  job:
    description: What P(memstretch.density.solotest#module) returned as C(job).
    type: dict
    suboptions:
      path:
        description: File on the host for the result.
        type: str
        required: true
      pid:
        description: Process on the host that writes the file.
        type: int
        required: true
  not_before:
    description: When the phase should be over, in seconds since the epoch.
    type: float
    default: 0
  timeout:
    description: Seconds after O(not_before) within which the result must be there.
    type: float
    required: true
"""
