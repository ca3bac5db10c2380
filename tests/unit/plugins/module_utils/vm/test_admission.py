# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD, Capacity, Demand, admit

GIB = 2**30
CAPACITY = Capacity(
    memory=192 * GIB, budget=None, swap=0, reserve=2 * GIB, foreign=0, cpus=64, disk_free=500 * GIB, addresses=1000
)
DEMAND = Demand(
    vms=31,
    new_disks=31,
    memory=6 * GIB - OVERHEAD,
    overhead=OVERHEAD,
    vcpus=1,
    disk_growth=GIB,
    disk_size=4 * GIB,
    unswappable="",
)


def test_a_fleet_that_fits():
    assert admit(CAPACITY, DEMAND) == ([], [])


@pytest.mark.parametrize(
    "capacity, demand, reason",
    [
        ({}, {"vms": 32}, "memory: 32 VMs"),
        ({"foreign": 100 * GIB}, {}, "less 100 GiB for VMs outside the fleet"),
        ({"budget": 10 * GIB}, {}, "its DRAM budget"),
        ({"huge_pages": 150 * GIB}, {}, "less 150 GiB reserved as huge pages, 0 B for VMs outside the fleet"),
        ({"swap": GIB}, {"unswappable": "its memory is locked"}, "its memory is locked"),
        ({"disk_free": 30 * GIB}, {}, "disk: 31 new clones"),
        ({"addresses": 30}, {}, "the network can assign only 30"),
    ],
)
def test_refusals_name_the_figures(capacity, demand, reason):
    refusals, _warnings = admit(CAPACITY._replace(**capacity), DEMAND._replace(**demand))
    assert len(refusals) == 1 and reason in refusals[0]


def test_swap_counts_as_memory():
    assert admit(CAPACITY._replace(swap=1500 * GIB), DEMAND._replace(vms=108, new_disks=0, vcpus=0)) == ([], [])


def test_locked_memory_is_admitted_without_swap():
    assert admit(CAPACITY, DEMAND._replace(unswappable="its memory is locked")) == ([], [])


@pytest.mark.parametrize(
    "capacity, demand, reason",
    [({"cpus": 16}, {}, "1.9 vCPUs per CPU"), ({"disk_free": 100 * GIB}, {}, "can grow to 124 GiB")],
)
def test_warnings_name_the_figures(capacity, demand, reason):
    refusals, warnings = admit(CAPACITY._replace(**capacity), DEMAND._replace(**demand))
    assert not refusals and len(warnings) == 1 and reason in warnings[0]


def test_unknown_number_of_addresses_is_not_checked():
    assert admit(CAPACITY._replace(addresses=None), DEMAND) == ([], [])
