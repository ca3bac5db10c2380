# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prices that a user may give. Sums are for one server."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges

_PRICE = Range(float, 0, 1e12, "in the currency of the prices")
_GIGABYTES = Range(float, 0, 1e9, "GB")

PRICES: Ranges = {
    "server": _PRICE,
    "dram_per_gb": _PRICE,
    "tier_per_gb": _PRICE,
    "licences": _PRICE,
    "licences_per_month": _PRICE,
    "power_w": Range(float, 0, 1e6, "watts of one server"),
    "price_per_kwh": _PRICE,
    "months": Range(float, 1, 600, "months that a server is used"),
    "dram_gb": _GIGABYTES,
    "tier_gb": _GIGABYTES,
    "target_saving": Range(float, 0, 0.99, "share"),
    "dram_vms": Range(int, 1, 100_000, "VMs on one server"),
    "servers": Range(int, 1, 100_000, "servers of a cluster"),
    "tier_terabytes_written": Range(float, 0.001, 1e9, "TB"),
    "tier_drive_writes_per_day": Range(float, 0.001, 1000, "writes of the whole drive per day"),
    "tier_warranty_years": Range(float, 0.1, 100, "years"),
    "write_amplification": Range(float, 1, 1000, "bytes written in the drive for each byte sent to it"),
}

# Those that may differ by arm, as prices.arms: a server with IMDT or CXL memory is another server.
OF_AN_ARM = (
    "server",
    "dram_per_gb",
    "tier_per_gb",
    "licences",
    "licences_per_month",
    "power_w",
    "dram_gb",
    "tier_gb",
    "tier_terabytes_written",
    "tier_drive_writes_per_day",
)
