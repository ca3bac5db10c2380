# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which measurements are made on which nodes, and the figures, on recorded hosts. tests/programs/membw tests membw."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import bandwidth
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError

OPTIONS = {
    "pattern": "all",
    "huge_pages": "none",
    "seconds": 0.5,
    "repetitions": 3,
    "readers": [],
    "buffer": "",
    "cache": "",
    "cache_bytes": 0,
    "channels": None,
    "link": None,
}
WITHOUT_BUFFER = {**OPTIONS, "buffer_bytes": 0}
NEAR = bandwidth.NumaNode(0, (0, 2, 1, 3), True, 2**40)
FAR = bandwidth.NumaNode(1, (4, 5), True, 2**40)
CXL = bandwidth.NumaNode(2, (), True, 2**40)


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
                f"sys/devices/system/node/node{node}/meminfo": f"Node {node} MemTotal:  8388608 kB\n"
                f"Node {node} MemFree:  {(4 << 20) >> (6 * node)} kB\n"
                f"Node {node} Inactive(file):  65536 kB\n",
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


def test_second_threads_of_cores_come_last(two_nodes):
    found = bandwidth.nodes(two_nodes, frozenset(range(8)))

    assert [node.cpus for node in found] == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert found[0].room_bytes == (4 << 30) + (64 << 20)


def test_only_allowed_cpus_are_used(two_nodes):
    assert [node.cpus for node in bandwidth.nodes(two_nodes, frozenset({1, 2}))] == [(1,), (2,)]


def test_a_kernel_without_numa_support_has_one_node(tmp_path):
    write(tmp_path, **{"proc/meminfo": "MemAvailable:  1024 kB\n"})

    assert bandwidth.nodes(HostFiles(str(tmp_path)), frozenset({0, 1})) == [bandwidth.NumaNode(-1, (0, 1), True, 2**20)]


def test_a_node_without_enough_free_memory_is_refused(two_nodes):
    found = bandwidth.nodes(two_nodes, frozenset(range(8)))

    with pytest.raises(bandwidth.MeasurementError, match=r"buffer: 256 MiB .* node 1, which has 128 MiB without"):
        bandwidth.check_room(two_nodes, found, bandwidth.measurements(found, OPTIONS), WITHOUT_BUFFER)
    near = found[:1]
    assert bandwidth.check_room(two_nodes, near, bandwidth.measurements(near, OPTIONS), WITHOUT_BUFFER) == 256 << 20


# Sixteen last-level caches of 32 MiB for eight CPUs each, as on an EPYC with two sockets.
@pytest.fixture
def many_caches(tmp_path):
    for cpu in range(128):
        directory = f"sys/devices/system/cpu/cpu{cpu}/cache"
        first = cpu // 8 * 8
        write(
            tmp_path,
            **{
                f"{directory}/index0/size": "32K",
                f"{directory}/index0/shared_cpu_list": f"{cpu}\n",
                f"{directory}/index3/size": "32768K",
                f"{directory}/index3/shared_cpu_list": f"{first}-{first + 7}\n",
            },
        )
    return HostFiles(str(tmp_path))


@pytest.mark.parametrize(
    "cpus, caches", [([5], 1), (range(8), 1), (range(9), 2), (range(1, 128, 8), 16), (range(64), 8), ([500], 0)]
)
def test_each_last_level_cache_of_the_readers_counts_once(many_caches, cpus, caches):
    assert bandwidth.last_level_caches(many_caches, cpus) == caches * 32 << 20


def test_the_buffer_exceeds_the_caches_of_all_readers(many_caches):
    node = bandwidth.NumaNode(0, tuple(range(64)), True, 6 << 30)
    wanted = bandwidth.measurements([node], OPTIONS)

    assert bandwidth.check_room(many_caches, [node], wanted, WITHOUT_BUFFER) == 16 * 8 * 32 << 20
    full = bandwidth.NumaNode(0, node.cpus, True, 4 << 30)
    with pytest.raises(
        bandwidth.MeasurementError, match=r"buffer: 4 GiB and a quarter .* caches of the readers, 256 MiB"
    ):
        bandwidth.check_room(many_caches, [full], wanted, WITHOUT_BUFFER)
    # 64 GiB on a node of 32 GiB would wake the OOM killer.
    half = bandwidth.NumaNode(0, node.cpus, True, 32 << 30)
    with pytest.raises(bandwidth.MeasurementError, match=r"buffer: 64 GiB .* node 0, which has 32 GiB"):
        bandwidth.check_room(many_caches, [half], wanted, {**OPTIONS, "buffer_bytes": 64 << 30})


@pytest.mark.parametrize("speed, share", [(9.6, 0.8646), (None, None)])
def test_the_share_of_the_link_is_that_of_the_best_remote_readers(speed, share):
    pairs = bandwidth.facts(measured())["pairs"]

    assert bandwidth.link(pairs, speed)["share"] == share and bandwidth.link(pairs, speed)["highest"] == 8.3e9
    assert "the speed of the link; give it" in bandwidth.link(pairs, None)["reason"]
    assert bandwidth.link(pairs[:1], 9.6)["reason"] == "no node reads another node's memory"


def test_every_pair_is_measured_and_a_node_without_cpus_is_only_read():
    found = bandwidth.measurements([NEAR, FAR, CXL], OPTIONS)

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
    with pytest.raises(bandwidth.MeasurementError, match=r"readers: \[64\] is not possible"):
        bandwidth.measurements([NEAR, FAR], {**OPTIONS, "readers": [64]})


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
        ("link", 0),
        ("link", "QPI"),
    ],
)
def test_the_message_names_an_option_that_is_not_allowed(option, value):
    with pytest.raises(SettingError, match=f"^{option}: "):
        bandwidth.check_options({**OPTIONS, option: value})


def report(value, **more):
    return {
        "numa": True,
        "client": {},
        "kernel": "AVX2",
        "cache_bytes": 1,
        "cache_given": False,
        "cpu_share": 1.0,
        "overlap": 1.0,
        "page_faults": 0,
        "bytes_per_second": value,
        "ns_per_read": value,
        **more,
    }


def measured(**more):
    """The source's figures: one channel per socket, 8.14 GB/s local, 6.9 remote, 8.3 with three remote readers."""
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


def test_remote_figures_are_relative_to_local_ones():
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
        ({"cpu_share": 0.5}, "had its CPU for only 0.50"),
        ({"overlap": 0.2}, "at the same time for 0.20"),
        ({"page_faults": 3}, "3 page faults"),
    ],
)
def test_a_disturbed_reader_makes_figures_doubtful(more, text):
    doubts = bandwidth.facts(measured(**more))["doubts"]

    assert len(doubts) == 5 and all(text in doubt for doubt in doubts)
    assert doubts[1].startswith("bandwidth with 1 reader, CPUs of node 1, memory of node 0: ")
    assert doubts[2].startswith("bandwidth with 3 readers, CPUs of node 1, memory of node 0: ")


def test_a_cache_that_was_given_is_passed_on_and_makes_figures_doubtful():
    options = bandwidth.check_options({**OPTIONS, "buffer": "16M", "cache": "1M"})
    wanted = bandwidth.measurements([NEAR], options)
    assert "--cache=1048576" in bandwidth.command(wanted[0], options, "membw")
    given = [report(1, cache_bytes=2**20, cache_given=True)]
    assert bandwidth.doubts({wanted[0]: given}) == [
        "the size of the cache, 1 MiB, was given and not read from the kernel"
    ]
