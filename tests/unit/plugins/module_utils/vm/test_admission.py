# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD, Host, Wish, judge

GIB = 2**30
HOST = Host(
    memory=192 * GIB, budget=None, swap=0, reserve=2 * GIB, foreign=0, cpus=64, disk_free=500 * GIB, addresses=1000
)
WISH = Wish(
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
    assert judge(HOST, WISH) == ([], [])


@pytest.mark.parametrize(
    "host, wish, said",
    [
        ({}, {"vms": 32}, "memory: 32 VMs"),
        ({"foreign": 100 * GIB}, {}, "100 GiB belong to VMs of others"),
        ({"budget": 10 * GIB}, {}, "its DRAM budget"),
        ({"swap": GIB}, {"unswappable": "its memory is locked"}, "its memory is locked"),
        ({"disk_free": 30 * GIB}, {}, "disk: 31 new clones"),
        ({"addresses": 30}, {}, "the network can give 30"),
    ],
)
def test_refusals_name_the_figures(host, wish, said):
    refusals, dummy = judge(HOST._replace(**host), WISH._replace(**wish))
    assert len(refusals) == 1 and said in refusals[0]


def test_swap_makes_room():
    assert judge(HOST._replace(swap=1500 * GIB), WISH._replace(vms=108, new_disks=0, vcpus=0)) == ([], [])


def test_locked_memory_is_fine_without_swap():
    assert judge(HOST, WISH._replace(unswappable="its memory is locked")) == ([], [])


@pytest.mark.parametrize(
    "host, wish, said", [({"cpus": 16}, {}, "1.9 VCPUs for each"), ({"disk_free": 100 * GIB}, {}, "could grow to")]
)
def test_warnings_name_the_figures(host, wish, said):
    refusals, warnings = judge(HOST._replace(**host), WISH._replace(**wish))
    assert not refusals and len(warnings) == 1 and said in warnings[0]


def test_unknown_addresses_are_not_judged():
    assert judge(HOST._replace(addresses=None), WISH) == ([], [])
