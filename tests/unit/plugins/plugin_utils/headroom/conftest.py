# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at hosts, as headroom_info returns them."""

from __future__ import annotations

import copy

import pytest

GIB = 2**30
SHARES = {1: 0.02, 10: 0.05, 100: 0.1, 300: 0.13}


def unit(name="vm01", size=4 * GIB, shares=None, **changes):
    ages = [
        {
            "seconds": age,
            "watched_s": float(age),
            "active_bytes": round(share * size),
            "low_bytes": round(max(0, share - 0.02) * size),
            "high_bytes": round(min(1, share + 0.02) * size),
        }
        for age, share in (SHARES if shares is None else shares).items()
    ]
    return {
        "name": name,
        "kind": "vm",
        "given_bytes": size,
        "balloon_bytes": None,
        "resident_bytes": size,
        "swapped_bytes": 0,
        "pinned_bytes": 0,
        "stretchable_bytes": size,
        "ages": ages,
        "reason": None,
        **changes,
    }


@pytest.fixture
def look():
    """A function that returns the look at a host of 64 GiB with some VMs of 4 GiB."""

    def make(count=10, units=None, **host):
        units = [unit(f"vm{number:02}") for number in range(count)] if units is None else units
        resident = sum(each["resident_bytes"] for each in units)
        document = {
            "taken_at": 1_800_000_000.0,
            "method": "damon" if units else None,
            "reason": None,
            "host": {
                "dram_bytes": 64 * GIB,
                "available_bytes": 20 * GIB,
                "in_use_bytes": resident + 2 * GIB,
                "hugepages_bytes": 0,
                "ksm_saved_bytes": 0,
                "tiers": [],
                "drives": [],
                "zram": {"stored_bytes": None, "used_bytes": None},
                "zswap": {"enabled": False, "stored_bytes": None, "used_bytes": None},
                "psi": {"memory": {"some_avg10": 0.0, "some_avg60": 0.0}, "io": None},
                "numa_nodes": [{"id": 0, "dram_bytes": 64 * GIB, "free_bytes": GIB}],
                "rates": {
                    "seconds": 300.0,
                    **dict.fromkeys(("page_ins", "page_outs", "major_faults", "refaults"), 0.0),
                    **dict.fromkeys(("memory_some_share", "memory_full_share", "io_some_share"), 0.0),
                    "kswapd_cpu_share": 0.0,
                    "drive_page_in_us": None,
                },
                **host,
            },
            "units": units,
            "cost": {"cpu_s": 0.5, "kernel_cpu_s": 0.1, "seconds": 300.0},
        }
        return copy.deepcopy(document)

    return make
