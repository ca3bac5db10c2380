# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap drives and VMs on the wrong node."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import numa as numa_placement
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

COST = " (measured)"


def warnings(drives=(), machines=(), cpu_nodes=(0, 1)):
    return numa_placement.warnings(
        cpu_nodes,
        [{"disk": f"nvme{number}n1", "node": node} for number, node in enumerate(drives)],
        machines,
        lambda cpu_node, memory_node: COST,
    )


def machine(cpu_nodes, **gib):
    return {
        "pid": 7,
        "name": "vm1",
        "cpu_nodes": cpu_nodes,
        "bytes": {int(node[1:]): int(size * 2**30) for node, size in gib.items()},
    }


@pytest.mark.parametrize("drives, warned", [((0, 0), True), ((0, 1), False), ((), False), ((None, None), False)])
def test_drives_on_one_of_two_nodes(drives, warned):
    assert bool(warnings(drives)) == warned
    assert not warned or warnings(drives) == [f"node 1 has no swap drive: its pages are swapped to node 0{COST}"]


def test_a_vm_with_its_memory_away_from_its_cpus():
    found = warnings(machines=[machine([0], n0=1, n1=3)])

    assert found == [f"VM vm1 (pid 7): 75% of its memory is on node 1, its CPUs are on node 0{COST}"]


@pytest.mark.parametrize("vm", [machine([0], n0=4), machine([0], n0=4, n1=0.2), machine([0, 1], n0=4), machine([0])])
def test_a_vm_on_the_right_node(vm):
    assert warnings(machines=[vm]) == []


def test_a_vm_spread_over_two_nodes():
    assert warnings(machines=[machine([0, 1], n0=2, n1=2)]) == [
        "VM vm1 (pid 7): 50% of its memory is not on the node that has most of it, "
        "and it may run on nodes 0, 1; pin it to one node if it fits there"
    ]


def test_with_one_node_nothing_is_misplaced():
    assert warnings((0,), [machine([0], n0=4)], cpu_nodes=(0,)) == []


def test_a_vm_is_found_by_its_process(tmp_path):
    process = tmp_path / "proc" / "42"
    process.mkdir(parents=True)
    (process / "comm").write_text("qemu-system-x86\n")
    (process / "cmdline").write_text("qemu-system-x86_64\0-name\0guest=db1,debug-threads=on\0")
    (process / "status").write_text("Name:\tqemu-system-x86\nCpus_allowed_list:\t2-3\n")
    (process / "numa_maps").write_text(
        "7f00 default anon=300 dirty=300 N0=100 N1=200 kernelpagesize_kB=4\n"
        "7f80 bind:1 huge anon=2 N1=2 kernelpagesize_kB=2048\n"
        "7fff default stack\n"
    )
    for node, cpus in enumerate(("0-1", "2-3")):
        directory = tmp_path / f"sys/devices/system/node/node{node}"
        directory.mkdir(parents=True)
        (directory / "cpulist").write_text(cpus)

    assert numa_placement.virtual_machines(HostFiles(str(tmp_path))) == [
        {"pid": 42, "name": "db1", "cpu_nodes": [1], "bytes": {0: 100 * 4096, 1: 200 * 4096 + 2 * 2**21}}
    ]
