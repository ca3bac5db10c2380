# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes in definitions of libvirt. tests/fleet gives the same masters to a real libvirt."""

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.sizes import (
    DomainError,
    Sizes,
    max_memory_of,
    set_memory,
    set_vcpus,
    sizes_of_command,
)

MASTERS = pathlib.Path(__file__).parents[4] / "fleet" / "masters"
NUMA = """<domain><memory unit='GiB'>6</memory><maxMemory slots='4' unit='GiB'>32</maxMemory>
<memtune><hard_limit unit='GiB'>7</hard_limit><min_guarantee unit='GiB'>1</min_guarantee></memtune>
<vcpu placement='static' cpuset='0-15' current='2'>8</vcpu><vcpus><vcpu id='0' enabled='yes'/></vcpus>
<cputune><shares>1024</shares><vcpupin vcpu='1' cpuset='4'/><vcpupin vcpu='5' cpuset='5'/>
<vcpusched vcpus='0-7,^1' scheduler='batch'/><vcpusched vcpus='4-7' scheduler='idle'/></cputune>
<cpu><topology sockets='2' dies='2' cores='1' threads='2'/><numa><cell id='0' cpus='0-3' memory='2' unit='GiB'/>
<cell id='1' cpus='4-7' memory='4' unit='GiB'/></numa></cpu>
<devices><memory model='dimm'><target><size unit='MiB'>512</size></target></memory>
<memory model='nvdimm'><target><size unit='MiB'>256</size></target></memory></devices></domain>"""


def resized(text: str, memory: int = 0, vcpus: int = 0) -> ET.Element:
    root = ET.fromstring(text)
    if memory:
        set_memory(root, memory)
    if vcpus:
        set_vcpus(root, vcpus)
    return root


def cells(root: ET.Element) -> list[tuple[str | None, str | None]]:
    return [(cell.get("cpus"), f"{cell.get('memory')} {cell.get('unit')}") for cell in root.iterfind("./cpu/numa/cell")]


def topology(root: ET.Element) -> dict[str, str]:
    return root.find("./cpu/topology").attrib


def test_memory_is_set_wherever_it_is_repeated() -> None:
    root = resized(NUMA, memory=3 * 2**30)
    assert max_memory_of(ET.tostring(root, encoding="unicode")) == 3 * 2**30
    assert root.find("maxMemory") is None and root.find("currentMemory") is None
    assert cells(root) == [("0-3", "1024 MiB"), ("4-7", "2048 MiB")]
    assert [each.tag for each in root.find("memtune")] == ["min_guarantee"]
    assert [each.get("model") for each in root.iterfind("./devices/memory")] == ["nvdimm"]


def test_the_cells_have_all_of_a_memory_that_they_cannot_share_evenly() -> None:
    assert cells(resized(NUMA, memory=100 * 2**20 + 1)) == [("0-3", "33 MiB"), ("4-7", "68 MiB")]


@pytest.mark.parametrize(
    ("count", "parts", "numa"),
    [
        (8, {"sockets": "2", "dies": "1", "cores": "2", "threads": "2"}, ["0-3", "4-7"]),
        (2, {"sockets": "1", "dies": "1", "cores": "1", "threads": "2"}, ["0", "1"]),
        (3, {"sockets": "1", "dies": "1", "cores": "3", "threads": "1"}, ["0", "1-2"]),
        (12, {"sockets": "2", "dies": "1", "cores": "3", "threads": "2"}, ["0-5", "6-11"]),
    ],
)
def test_topology_and_cells_follow_the_number_of_vcpus(count: int, parts: dict[str, str], numa: list[str]) -> None:
    root = resized(NUMA, vcpus=count)
    assert topology(root) == parts
    assert [cpus for cpus, _memory in cells(root)] == numa


def test_what_is_said_of_single_vcpus_ends_with_them() -> None:
    root = resized(NUMA, vcpus=2)
    assert root.find("vcpu").attrib == {"placement": "static", "cpuset": "0-15"} and root.findtext("vcpu") == "2"
    assert root.find("vcpus") is None
    assert [(each.tag, dict(each.attrib)) for each in root.find("cputune")] == [
        ("shares", {}),
        ("vcpupin", {"vcpu": "1", "cpuset": "4"}),
        ("vcpusched", {"vcpus": "0", "scheduler": "batch"}),
    ]


def test_fewer_vcpus_than_cells_are_refused() -> None:
    with pytest.raises(DomainError, match="vcpus: 1 is too few for the 2 NUMA cells"):
        resized(NUMA, vcpus=1)


def test_a_definition_without_repetitions_gets_the_sizes_alone() -> None:
    root = resized("<domain/>", memory=2**30, vcpus=4)
    assert (
        ET.tostring(root, encoding="unicode")
        == '<domain><memory unit="bytes">1073741824</memory><vcpu>4</vcpu></domain>'
    )


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("master-numa-cell", {"sockets": "2", "dies": "1", "cores": "2", "threads": "1"}),
        ("master-topology", {"sockets": "2", "cores": "2", "threads": "1"}),
    ],
)
def test_masters_of_other_managers_get_four_vcpus(case: str, expected: dict[str, str]) -> None:
    root = resized((MASTERS / f"{case}.xml").read_text(encoding="utf-8"), memory=2**31, vcpus=4)
    assert topology(root) == expected
    assert (root.findtext("vcpu"), root.find("vcpu").get("current")) == ("4", None)
    assert cells(root) in ([], [("0-3", "2048 MiB")])


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ("-m 8192 -smp 4,maxcpus=8,sockets=2", Sizes(2**33, 4, 8)),
        ("-m size=2097152k -smp 2,sockets=2", Sizes(2**31, 2, 2)),
        ("-m size=1048576k,slots=2,maxmem=8388608k -smp cpus=1", Sizes(2**30, 1, 1)),
        ("-m 1G -smp 1", Sizes(2**30, 1, 1)),
    ],
)
def test_sizes_are_read_from_the_command_of_qemu(options: str, sizes: Sizes) -> None:
    command = f"LC_ALL=C /usr/bin/qemu-system-x86_64 -name 'guest=a b' {options} -device '{{\"driver\":\"x\"}}'"
    assert sizes_of_command(command, "<domain/>") == sizes
    modules = "<domain><devices><memory><target><size unit='GiB'>1</size></target></memory></devices></domain>"
    assert sizes_of_command(command, modules) == sizes._replace(memory=sizes.memory + 2**30)


@pytest.mark.parametrize("command", ["", "qemu -m", "qemu -m lots -smp 2", "qemu -m 512", "qemu -m 512 -smp cores=2"])
def test_a_command_without_sizes_is_an_error(command: str) -> None:
    with pytest.raises(DomainError, match="has no sizes"):
        sizes_of_command(command, "<domain/>")
