# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math

import pytest
from synthetic_ramps import ramp

from ansible_collections.memstretch.density.plugins.plugin_utils.density.cause import cause, wall
from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import CAPACITY, Curve
from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import Crossing
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import windows

CROSSING = Crossing(20.5, 20, 21, 0.0)


@pytest.mark.parametrize(
    "decided_by, changes, expected",
    [
        (None, {}, "no_hosts"),
        (CAPACITY, {}, "capacity"),
        (("fleet", "p99_us"), {"page_ins": 4000}, "memory"),
        (("fleet", "p99_us"), {"page_ins": 4000, "drive_reads": 3000}, "drive"),
        (("fleet", "p99_us"), {"page_ins": 4000, "drive_reads": 1000}, "memory"),
        (("references", "p99_us"), {}, "cpus"),
        (("references", "p99_us"), {"tier_cpu_seconds": 2.0}, "tier_cpu"),
        (("references", "p99_us"), {"tier_cpu_seconds": 0.1}, "cpus"),
    ],
)
def test_the_cause_is_what_the_windows_near_the_crossing_show(decided_by, changes, expected):
    looked = windows(ramp("zram", 1, [18, 20, 22], lambda size: 2.0, **changes))
    assert cause(Curve(CROSSING, decided_by, None), looked) == expected


@pytest.mark.parametrize(
    "decided_by, power, compressed, changes, expected",
    [
        (("references", "p99_us"), 9.5, 0.6, {"tier_cpu_seconds": 2.0}, "capacity"),
        (("references", "p99_us"), 8.5, 0.6, {"tier_cpu_seconds": 2.0}, "tier_cpu"),
        (("references", "p99_us"), 9.5, 0.4, {"tier_cpu_seconds": 2.0}, "tier_cpu"),
        (("fleet", "p99_us"), 9.5, 0.6, {}, "capacity"),
        (("fleet", "p99_us"), 9.5, 0.6, {"drive_reads": 20_000}, "drive"),
    ],
)
def test_compressed_memory_is_at_its_wall_where_page_ins_rise_steeply(decided_by, power, compressed, changes, expected):
    tier_bytes = int(compressed * 256 * 2**20)
    record = ramp("zram", 1, [18, 20, 22], lambda size: 2.0, tier_bytes=tier_bytes, **changes)
    for window in record["windows"]:
        window["machines"]["this_machine"]["page_ins"] = round(10_000 * (window["n"] / 20) ** power)
    assert cause(Curve(CROSSING, decided_by, None), windows(record)) == expected


def test_a_fleet_as_slow_as_its_references_misses_an_absolute_limit_by_the_cpus():
    looked = windows(ramp("zram", 1, [18, 20, 22], lambda size: 3.0, lambda size: 3.0, page_ins=100))
    assert cause(Curve(CROSSING, ("fleet", "avg_us"), None), looked) == "cpus"


def test_the_wall_is_the_size_that_did_not_fit():
    assert wall(ramp("dram", 1, [8, 9, 10], wall=11)) == 11
    assert wall(ramp("dram", 1, [8, 9, 10])) == math.inf
    assert wall(ramp("dram", 1, [8, 9, 10], end="missed")) == math.inf


def test_a_fleet_that_did_not_settle_within_its_budget_does_not_fit():
    record = ramp("zram", 1, [8, 9, 10])
    record["windows"][-1]["machines"]["this_machine"]["charged_bytes"] *= 1.1
    assert wall(record) == math.inf
    record["windows"][-1]["settled"] = False
    assert wall(record) == 10
