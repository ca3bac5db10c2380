# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured on which nodes, and what becomes of the figures; on recorded hosts. The program itself is tested in tests/membw."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import bandwidth as bandwidth
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError

OPTIONS = {
    "pattern": "all",
    "huge_pages": "none",
    "seconds": 0.5,
    "repetitions": 3,
    "readers": [],
    "buffer": "",
    "channels": None,
}
NEAR = bandwidth.Node(0, (0, 2, 1, 3), True, 2**40)
FAR = bandwidth.Node(1, (4, 5), True, 2**40)
CXL = bandwidth.Node(2, (), True, 2**40)


def write(directory, **files):
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def two_nodes(tmp_path):
    """Two sockets of two cores with two threads each; the second node is nearly full."""
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7")):
        write(
            tmp_path,
            **{
                f"sys/devices/system/node/node{node}/cpulist": f"{cpus}\n",
                f"sys/devices/system/node/node{node}/meminfo": f"Node {node} MemTotal:  8388608 kB\nNode {node} MemFree:  {(4 << 20) >> (6 * node)} kB\nNode {node} Inactive(file):  65536 kB\n",
            },
        )
    for cpu in range(8):
        write(
            tmp_path, **{f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 4},{cpu % 4 + 4}\n"}
        )
    write(
        tmp_path,
        **{
            "sys/devices/system/cpu/cpu0/cache/index0/size": "32K",
            "sys/devices/system/cpu/cpu0/cache/index3/size": "8192K",
        },
    )
    return HostFiles(str(tmp_path))


def test_a_core_is_used_once_before_its_second_thread(two_nodes):
    found = bandwidth.nodes(two_nodes, frozenset(range(8)))

    assert [node.cpus for node in found] == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert found[0].room_bytes == (4 << 30) + (64 << 20)


def test_cpus_that_may_not_be_used_are_left_out(two_nodes):
    assert [node.cpus for node in bandwidth.nodes(two_nodes, frozenset({1, 2}))] == [(1,), (2,)]


def test_a_kernel_without_numa_is_one_node(tmp_path):
    write(tmp_path, **{"proc/meminfo": "MemAvailable:  1024 kB\n"})

    assert bandwidth.nodes(HostFiles(str(tmp_path)), frozenset({0, 1})) == [bandwidth.Node(-1, (0, 1), True, 2**20)]


def test_a_node_without_room_is_refused_before_anything_is_placed_there(two_nodes):
    found = bandwidth.nodes(two_nodes, frozenset(range(8)))

    with pytest.raises(bandwidth.MeasurementError, match=r"buffer: 256 MiB .* node 1, which has 128 MiB"):
        bandwidth.check_room(two_nodes, found, {**OPTIONS, "buffer_bytes": 0})
    assert bandwidth.check_room(two_nodes, found[:1], {**OPTIONS, "buffer_bytes": 0}) == 256 << 20
    assert bandwidth.largest_cache(two_nodes) == 8 << 20


def test_every_pair_is_measured_and_memory_without_processors_is_only_read():
    found = bandwidth.plan([NEAR, FAR, CXL], OPTIONS)

    chases = {(each.cpu_node, each.memory_node) for each in found if each.pattern == "chase"}
    assert chases == {(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)}
    assert [each.cpus for each in found if each.pattern == "all" and (each.cpu_node, each.memory_node) == (0, 2)] == [
        (0,),
        (0, 2),
        (0, 2, 1, 3),
    ]


@pytest.mark.parametrize(
    "wanted, cpus, counts",
    [([], 1, [1]), ([], 6, [1, 2, 4, 6]), ([], 8, [1, 2, 4, 8]), ([1, 3, 99], 8, [1, 3]), ([], 0, [])],
)
def test_reader_counts(wanted, cpus, counts):
    assert bandwidth.reader_counts(wanted, cpus) == counts


def test_more_readers_than_any_node_has_cpus_are_refused():
    with pytest.raises(bandwidth.MeasurementError, match="readers"):
        bandwidth.plan([NEAR, FAR], {**OPTIONS, "readers": [64]})


@pytest.mark.parametrize(
    "option, value",
    [
        ("seconds", 0),
        ("seconds", "x"),
        ("repetitions", 0),
        ("readers", [0]),
        ("readers", [2, 2]),
        ("buffer", "lots"),
        ("channels", 0),
    ],
)
def test_a_setting_out_of_range_is_named(option, value):
    with pytest.raises(SettingError, match=option):
        bandwidth.checked({**OPTIONS, option: value})


def report(value, **more):
    return {
        "numa": True,
        "client": {},
        "kernel": "AVX2",
        "cache_bytes": 1,
        "cpu_share": 1.0,
        "overlap": 1.0,
        "page_faults": 0,
        "bytes_per_second": value,
        "ns_per_read": value,
        **more,
    }


def measured(**more):
    """The figures of the source: one channel a socket, 8.14 GB/s local, 6.9 GB/s remote; three remote readers saturate the link at 8.3."""
    pairs = {(0, 0, 1): 8.14e9, (1, 0, 1): 6.9e9, (1, 0, 3): 8.3e9}
    results = {
        bandwidth.Measurement("all", cpu, memory, tuple(range(readers))): [
            report(value * factor, **more) for factor in (0.9, 1, 1.3)
        ]
        for (cpu, memory, readers), value in pairs.items()
    }
    results.update(
        {
            bandwidth.Measurement("chase", cpu, 0, (0,)): [report(value, **more)]
            for cpu, value in ((0, 80.0), (1, 120.0))
        }
    )
    return results


def test_the_matrix_relates_remote_to_local():
    facts = bandwidth.facts(measured())

    local, remote = facts["pairs"]
    assert local["single"] == {"median": 8.14e9, "min": round(8.14e9 * 0.9, 3), "max": round(8.14e9 * 1.3, 3)}
    assert (remote["local"], remote["ratio"]) == (False, {"single": 0.8477, "highest": 1.0197, "latency": 1.5})
    assert local["ratio"] == {"single": 1.0, "highest": 1.0, "latency": 1.0}
    assert [row["readers"] for row in facts["readers"]] == [1, 1, 3]
    assert facts["doubts"] == []


@pytest.mark.parametrize(
    "more, text",
    [
        ({"cpu_share": 0.5}, "had its CPU for 0.50"),
        ({"overlap": 0.2}, "together for 0.20"),
        ({"page_faults": 3}, "3 page faults"),
    ],
)
def test_what_disturbs_a_reader_is_said(more, text):
    assert all(text in doubt for doubt in bandwidth.facts(measured(**more))["doubts"])
    assert len(bandwidth.facts(measured(**more))["doubts"]) == 5
