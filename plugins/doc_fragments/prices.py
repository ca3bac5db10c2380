# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The options for the cost of a VM."""

    DOCUMENTATION = r"""
options:
  prices:
    description:
      - Prices, to calculate the cost of a VM. C(date), C(currency), C(server), C(dram_per_gb) and C(months) are needed;
        docs/cost.md lists the others.
      - Without prices, no cost is shown.
    type: dict
    default: {}
  cost_example:
    description: Calculate the cost with example prices. The report labels them as examples.
    type: bool
    default: false
"""
