# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fits into the memory of a machine under a profile."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.memory import (
    DoesNotFit,
    HostMemory,
    Server,
    compression,
)
from ansible_collections.memstretch.density.tests.unit.fixtures.arms import ARM

GIB = 2**30
RECORD = {
    "memory": {"total_bytes": 10 * GIB},
    "numa": {"nodes": []},
    "sysctl": {"vm.watermark_scale_factor": 100},
    "imdt": {"detected": False},
    "swap": {"areas": []},
}
DRIVES = {**ARM, "swap": {"kind": "devices"}, "areas": [{"size_bytes": 20 * GIB}]}
ZRAM = {**ARM, "swap": {"kind": "zram"}, "areas": [{"size_bytes": 8 * GIB}]}
LOAD = {"compressibility": 0.75, "value_size": 1024}
COMPRESSED = 0.3
# kswapd keeps 1.5 times the factor free, and the host's own programs get 1 GiB.
FREE = 0.15 * GIB
DRAM = 9 * GIB - FREE


def memory(arm, load=None, record=None):
    return HostMemory("kvm", {**RECORD, **(record or {})}, arm, {**LOAD, **(load or {})}, "1G")


def test_the_hosts_programs_and_free_memory_are_not_the_fleets():
    assert memory(DRIVES).dram == pytest.approx(DRAM)
    assert memory({**DRIVES, "sysctl": {"vm.watermark_scale_factor": 200}}).dram == pytest.approx(DRAM - FREE)


@pytest.mark.parametrize(
    "budget, dram",
    [
        ({"mechanism": "cgroup", "size": "4G", "group": "fleet"}, 4 * GIB),
        ({"mechanism": "cgroup", "size": "20G", "group": "fleet"}, DRAM),
        ({"mechanism": "hugepages", "size": "4G"}, 3 * GIB - FREE),
    ],
)
def test_a_budget_by_huge_pages_is_for_the_whole_host(budget, dram):
    assert memory({**DRIVES, "dram_budget": budget}).dram == pytest.approx(dram)


def test_a_budget_that_is_no_size_is_named_as_the_user_has_set_it():
    with pytest.raises(SettingError, match="^density_budget: 'much' is not a size"):
        memory({**DRIVES, "dram_budget": {"size": "much", "option": "density_budget"}})


def test_a_machine_without_room_has_no_dram_for_the_fleet_with_a_budget_too():
    small = {"memory": {"total_bytes": GIB // 2}}
    budget = {"mechanism": "cgroup", "size": "4G", "group": "fleet"}
    assert memory(DRIVES, record=small).dram == memory({**DRIVES, "dram_budget": budget}, record=small).dram == 0


def server(size, resident=0, compressed=COMPRESSED):
    """One server that is the whole fleet."""
    return Server(size, resident, compressed, False)


def test_without_a_tier_kswapd_keeps_nothing_free_from_the_fleet():
    memory(ARM).check(1, server(9 * GIB))
    with pytest.raises(DoesNotFit, match="needs 9.001 GiB, but has 9 GiB of DRAM and no tier beyond it"):
        memory(ARM).check(1, server(9.001 * GIB))


def test_pages_beyond_dram_are_on_the_drives_until_these_are_full():
    memory(DRIVES).check(1, server(DRAM + 20 * GIB))
    with pytest.raises(DoesNotFit, match="of DRAM and 20 GiB of drives"):
        memory(DRIVES).check(1, server(DRAM + 20.01 * GIB))


def test_what_cannot_leave_dram_is_not_on_the_drives():
    memory(DRIVES).check(8, server(2 * GIB, GIB))
    with pytest.raises(DoesNotFit, match="9 GiB of the fleet cannot leave DRAM, of which it has 8.85 GiB"):
        memory(DRIVES).check(9, server(2 * GIB, GIB))


def test_zram_takes_the_dram_that_its_compressed_pages_need():
    host = memory({**ZRAM, "areas": [{"size_bytes": 100 * GIB}]})
    host.check(1, server(0.999 * DRAM / COMPRESSED))
    with pytest.raises(DoesNotFit, match="with all in zram that may leave DRAM, the fleet still needs .* has 8.85 GiB"):
        host.check(1, server(1.001 * DRAM / COMPRESSED))
    resident = GIB
    largest = resident + (DRAM - resident) / COMPRESSED
    host.check(1, server(0.999 * largest, resident))
    with pytest.raises(DoesNotFit):
        host.check(1, server(1.001 * largest, resident))


def test_zram_holds_no_more_than_its_size():
    host = memory(ZRAM)
    largest = DRAM + 8 * GIB * (1 - COMPRESSED)
    host.check(1, server(0.999 * largest))
    with pytest.raises(DoesNotFit, match="zram would have to store .* but holds 8 GiB"):
        host.check(1, server(1.001 * largest))


def test_zram_adds_nothing_if_the_values_do_not_compress():
    with pytest.raises(DoesNotFit, match="do not compress .latency_benchmark_compressibility 0.$"):
        memory(ZRAM, {"compressibility": 0, "value_size": 1000}).check(1, server(DRAM + GIB, compressed=1))


def test_zram_before_the_drives_is_filled_first_and_takes_its_share_of_dram():
    areas = [{"size_bytes": 4 * GIB, "priority": 11}, {"size_bytes": 20 * GIB, "priority": 10}]
    host = memory({**ARM, "swap": {"kind": "devices", "priority": 10, "zram_first": True}, "areas": areas})
    largest = DRAM - 4 * GIB * COMPRESSED + 24 * GIB
    host.check(1, server(0.999 * largest))
    with pytest.raises(DoesNotFit, match="of DRAM, 4 GiB of zram and 20 GiB of drives$"):
        host.check(1, server(1.001 * largest))


def test_pages_in_the_pool_of_zswap_take_dram_and_a_place_on_the_drives():
    place = "/sys/module/zswap/parameters/"
    host = memory({**DRIVES, "sysfs": {place + "enabled": True, place + "max_pool_percent": 40}})
    host.check(1, server(DRAM - 4 * GIB + 19.9 * GIB))
    with pytest.raises(DoesNotFit, match="20 GiB of drives, where the pool of 4 GiB has its places, too"):
        host.check(1, server(DRAM - 4 * GIB + 20.1 * GIB))


def test_the_pool_of_zswap_may_be_given_in_bytes():
    place = "/sys/module/zswap/parameters/"
    found = [
        memory({**DRIVES, "sysfs": {place + "enabled": True, place + "max_pool_percent": pool}}).most(server(GIB), 99)
        for pool in (10, f"{{percent:{GIB}}}")
    ]
    assert found[0] == found[1] and found[0][0] == 27


def test_most_is_the_last_fleet_that_fits():
    host = memory(DRIVES)
    count, why = host.most(server(GIB), 1000)
    assert count == 28 and "the fleet needs 29 GiB" in why
    assert host.most(server(GIB), 5) == (5, "")
    assert host.most(server(100 * GIB), 5)[0] == 0


def test_memory_on_a_node_without_processors_is_the_tier_and_not_dram():
    nodes = [{"memory_only": False, "total_bytes": 6 * GIB}, {"memory_only": True, "total_bytes": 4 * GIB}]
    host = memory({**ARM, "needs": ["memory_only_node"]}, record={"numa": {"nodes": nodes}})
    assert (host.kind, host.capacity, host.dram) == ("memory_node", 4 * GIB, pytest.approx(DRAM - 4 * GIB))
    assert host.notes == []
    assert "no NUMA node without processors" in memory({**ARM, "needs": ["memory_only_node"]}).notes[0]


def test_a_profile_that_the_host_refuses_fits_nothing():
    with pytest.raises(DoesNotFit, match="^kvm refuses the profile's swap: no such disk$"):
        memory({**DRIVES, "refused": "no such disk"}).check(1, server(1))


@pytest.mark.parametrize(
    ("value_size", "measured"),
    [
        (1000, {0: 1.04, 0.5: 1.92, 0.6: 2.30, 0.667: 2.70, 0.7: 2.90, 0.72: 3.09, 0.75: 3.26}),
        (1024, {0: 1.22, 0.5: 2.28, 0.667: 3.20, 0.75: 3.94}),
    ],
)
def test_the_compression_is_the_one_that_zram_was_measured_with(value_size, measured):
    """docs/plan.md has the measurement."""
    for share, ratio in measured.items():
        found = 1 / compression({"compressibility": share, "value_size": value_size})
        assert found == pytest.approx(ratio, rel=0.06), share
