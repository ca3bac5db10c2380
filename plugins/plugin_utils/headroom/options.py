# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers of a forecast, with their ranges and the cautious values that are assumed."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges

RANGES: Ranges = {
    "compression": Range(float, 1, 100, "times"),
    "page_in_us": Range(float, 0.1, 1_000_000, "microseconds"),
    "waiting": Range(float, 0.01, 100, "percent"),
    "reserve": Range(float, 0, 90, "percent"),
}
# A tier that a host does not have yet is assumed to be zram with these.
ASSUMED_TIER = "zram"
ASSUMED_COMPRESSION = 2.0
# By kind of tier, as long as the host has not shown its own.
ASSUMED_PAGE_IN_US = {"zram": 30.0, "zswap": 30.0, "drive": 150.0, "file": 300.0}
