# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine did between moments."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import Ticks
from ansible_collections.memstretch.density.plugins.module_utils.ramp import groups
from ansible_collections.memstretch.density.plugins.module_utils.ramp.machine import Machine, Moment, sample

MIB = 2**20
CHARGED = {
    "charged_bytes": 250 * MIB,
    "zram_bytes": 90 * MIB,
    "zram_table_bytes": 4 * MIB,
    "zswap_bytes": 0,
    "limit_hits": 7,
}


def moment(clock, cpus, page_ins=0, charged=None, tier_cpu=0.0, used=None):
    counters = {"clock_s": clock, "pswpin": page_ins, "pswpout": 2 * page_ins, "disk.sda.reads": page_ins}
    counters["disk.sda.read_ms"] = page_ins * 2
    counters["psi_memory_some_us"] = 1000 * page_ins
    return Moment(clock, cpus, counters, {**CHARGED, **(charged or {})}, tier_cpu, used or {}, 4096 * page_ins)


MOMENTS = [
    moment(0.0, [Ticks(0, 0, 0), Ticks(0, 0, 0)]),
    moment(1.0, [Ticks(50, 0, 100), Ticks(40, 3, 100)], 100, {"charged_bytes": 255 * MIB}, 0.1),
    moment(2.0, [Ticks(100, 1, 200), Ticks(80, 3, 200)], 300, {"limit_hits": 9}, 0.25, {"/dev/zram0": 7, "/swap": 1}),
]


def test_a_sample_has_shares_of_the_cpus_and_those_of_the_one_that_lost_most():
    found = sample(MOMENTS, ["/dev/zram0"], 100, [], {})
    assert (found["cpus"], found["busy"], found["stolen"]) == (2, 0.55, 0.01)
    assert (found["stolen_worst"], found["stolen_cpu"], found["stolen_ticks"]) == (0.03, 0.015, 3)


def test_a_sample_has_what_the_tier_did():
    found = sample(MOMENTS, ["/dev/zram0"], 100, ["sda"], {})
    assert (found["page_ins"], found["page_outs"], found["tier_cpu_seconds"]) == (300, 600, 0.25)
    assert (found["charged_bytes"], found["tier_bytes"]) == (255 * MIB, 94 * MIB)
    assert (found["swap_used_bytes"], found["swap_bytes"]) == (7, 100)
    assert found["limit_hits"] == 2 and found["memory_some_share"] == 0.15
    assert (found["drive_reads"], found["drive_read_seconds"]) == (300, 0.6)
    assert found["drive_written_bytes"] == 300 * 4096
    assert sample(MOMENTS, ["/dev/zram0"], 100, [], {})["drive_written_bytes"] == 0, "zram is no drive"


def test_swap_of_the_machines_own_that_grew_is_seen():
    assert sample(MOMENTS, ["/dev/zram0"], 100, [], {})["other_swap_grew"] is True
    assert sample(MOMENTS[1:], ["/dev/zram0"], 100, [], {"/swap": 0})["other_swap_grew"] is True
    assert sample(MOMENTS, ["/dev/zram0", "/swap"], 100, [], {})["other_swap_grew"] is False
    assert sample(MOMENTS, ["/dev/zram0"], 100, [], {"/swap": 1})["other_swap_grew"] is False, "it was in use before"


def test_what_is_unknown_is_not_zero():
    unknown = moment(3.0, [Ticks(0, 0, 0)], charged={"charged_bytes": None, "zram_bytes": None}, tier_cpu=None)
    unknown.counters.pop("pswpin")
    unknown.counters.pop("psi_memory_some_us")
    found = sample([MOMENTS[0], unknown], [], 0, [], {})
    names = ("charged_bytes", "tier_bytes", "tier_cpu_seconds", "page_ins", "swap_bytes", "memory_some_share")
    assert [found[name] for name in names] == [None] * 6


def test_what_went_to_zram_was_not_written_to_a_drive_and_counts_as_used(tmp_path):
    lines = ["Filename Type Size Used Priority", "/dev/zram0 partition 1024 256 100", "/dev/sda2 partition 1024 0 10"]
    for name, text in (
        ("proc/swaps", "\n".join(lines)),
        ("proc/vmstat", "pswpin 0\npswpout 1000"),
        ("sys/block/zram0/stat", "1 0 8 0 900 0 7200 0 0 0 0"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    machine = Machine("fleet", groups.RampGroup("fleet", str(tmp_path)), str(tmp_path))
    assert machine.written_bytes() == 100 * 4096
    assert [machine.tier_used(tier) for tier in ([], ["/dev/zram0"], ["/dev/zram0", "/dev/sda2"])] == [0, 0.25, 0.125]
