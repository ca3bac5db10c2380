# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of a host and of a unit, from recorded files."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import host
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

VMSTAT = "pswpin {swap_in}\npswpout 5\npgmajfault 9\nworkingset_refault_anon {anon}\nworkingset_refault_file 7\n"
PSI = "some avg10=1.50 avg60=0.75 avg300=0.10 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


@pytest.fixture
def write(tmp_path):
    """A function that writes files of a recorded tree."""

    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return HostFiles(str(tmp_path))

    return write


def at(moment, seconds):
    """Return the moment as if it had been so much later than the clock says."""
    return moment._replace(pressure={**moment.pressure, "clock_s": seconds})


def test_rates_are_for_each_second(write):
    files = write(proc__vmstat=VMSTAT.format(swap_in=100, anon=1), proc__pressure__memory=PSI.format(total=0))
    before = at(host.moment(files), 0)
    write(proc__vmstat=VMSTAT.format(swap_in=300, anon=41), proc__pressure__memory=PSI.format(total=500_000))
    found = host.rates(before, at(host.moment(files), 10), files)

    assert found["page_ins"] == 20 and found["refaults"] == 4 and found["page_outs"] == 0
    assert found["memory_some_share"] == 0.05 and found["memory_full_share"] == 0


def test_what_the_kernel_does_not_count_is_unknown(write):
    files = write(proc__vmstat="nr_free_pages 1\n")
    found = host.rates(at(host.moment(files), 0), at(host.moment(files), 10), files)

    names = ("page_ins", "page_outs", "major_faults", "refaults", "memory_some_share", "io_some_share")
    assert {found[name] for name in (*names, "drive_page_in_us")} == {None}
    assert host.memory(files)["psi"] == {"memory": None, "io": None}


def test_the_tiers_of_a_host(write):
    swaps = (
        "Filename Type Size Used Priority\n/dev/zram0 partition 1000 10 100\n"
        "/dev/nvme0n1p1 partition 2000 0 5\n/swap file 3000 0 -2\n"
    )
    files = write(proc__swaps=swaps, sys__block__zram0__mm_stat="800000 300000 400000 0 400000 0 0 0 0\n")
    found = host.memory(files)

    assert [(tier["kind"], tier["used_bytes"]) for tier in found["tiers"]] == [
        ("zram", 10240),
        ("drive", 0),
        ("file", 0),
    ]
    assert found["zram"] == {"stored_bytes": 800000, "used_bytes": 400000}


def test_zram_with_a_file_system_is_no_tier(write):
    swaps = "Filename Type Size Used Priority\n/dev/zram1 partition 1000 10 100\n"
    figures = {
        "sys__block__zram0__mm_stat": "8000000 3000000 4000000 0 4000000 0 0 0 0\n",
        "sys__block__zram1__mm_stat": "800000 300000 400000 0 400000 0 0 0 0\n",
    }
    files = write(proc__swaps=swaps, **figures)
    assert host.memory(files)["zram"] == {"stored_bytes": 800000, "used_bytes": 400000}
    write(proc__swaps="Filename Type Size Used Priority\n")
    assert host.memory(files)["zram"] == {"stored_bytes": None, "used_bytes": None}


DISKSTATS = "259 0 nvme0n1 {reads} 0 {sectors} {ms} 0 0 0 0 0 0 0\n"


@pytest.mark.parametrize(
    ("page_ins", "reads", "found"),
    [(8000, 1000, 80.0), (8000, 10000, 80.0), (0, 30000, None), (500, 30000, None), (15, 15, None)],
    ids=["in clusters", "some are others'", "a backup", "most are others'", "too few"],
)
def test_the_latency_of_page_ins_is_not_that_of_a_backup(write, page_ins, reads, found):
    swaps = "Filename Type Size Used Priority\n/dev/nvme0n1 partition 1000 10 1\n"
    write(proc__swaps=swaps, sys__block__nvme0n1__size="1000\n", sys__class__block__nvme0n1__size="1000\n")

    def counted(page_ins, reads):
        text = DISKSTATS.format(reads=reads, sectors=8 * reads, ms=round(0.08 * reads))
        files = write(proc__vmstat=VMSTAT.format(swap_in=page_ins, anon=0), proc__diskstats=text)
        return host.moment(files), files

    before, _files = counted(0, 0)
    after, files = counted(page_ins, reads)
    assert host.rates(at(before, 0), at(after, 10), files)["drive_page_in_us"] == found


def test_what_else_shapes_the_memory_of_a_host(write):
    """Huge pages, what KSM saves, and the nodes."""
    nodes = {
        f"sys__devices__system__node__node{number}__meminfo": (
            f"Node {number} MemTotal: 1000 kB\nNode {number} MemFree: {number} kB\n"
        )
        for number in (0, 1)
    }
    files = write(
        proc__meminfo="MemTotal: 2000 kB\nHugetlb: 64 kB\n", sys__kernel__mm__ksm__pages_sharing="3\n", **nodes
    )
    found = host.memory(files)

    assert found["ksm_saved_bytes"] == 3 * os.sysconf("SC_PAGE_SIZE") and found["hugepages_bytes"] == 64 * 1024
    assert found["numa_nodes"] == [
        {"id": number, "dram_bytes": 1000 * 1024, "free_bytes": number * 1024} for number in (0, 1)
    ]


def test_the_memory_of_one_process(write):
    status = "RssAnon:\t100 kB\nRssFile:\t900 kB\nRssShmem:\t20 kB\nVmSwap:\t30 kB\nVmLck:\t7 kB\nHugetlbPages:\t4 kB\n"
    files = write(proc__5__status=status)

    assert host.unit_memory(files, Unit("a", "process", (5,))) == {
        "resident": 120 * 1024,
        "swapped": 30 * 1024,
        "shared_swapped": 0,
        "hugetlb": 4 * 1024,
        "locked": 7 * 1024,
    }


def test_processes_that_share_pages_have_their_part_of_them(write):
    status, parts = "RssAnon:\t100 kB\nRssShmem:\t0 kB\n", "Pss_Anon:  50 kB\nPss_Shmem:  1 kB\nSwapPss:  3 kB\n"
    files = write(
        proc__5__status=status, proc__6__status=status, proc__5__smaps_rollup=parts, proc__6__smaps_rollup=parts
    )
    found = host.unit_memory(files, Unit("a", "systemd unit", (5, 6)))

    assert (found["resident"], found["swapped"]) == (102 * 1024, 6 * 1024)


def test_huge_pages_that_processes_share_count_once(write):
    """The kernel counts all that a process maps: three backends of a database have its 16 MiB each."""
    files = write()
    for pid in (5, 6, 7):
        write(
            **{
                f"proc__{pid}__status": "RssAnon:\t0 kB\nHugetlbPages:\t16384 kB\n",
                f"proc__{pid}__smaps_rollup": "Shared_Hugetlb:  16384 kB\nPrivate_Hugetlb:  2048 kB\n",
            }
        )
    found = host.unit_memory(files, Unit("db.service", "systemd unit", (5, 6, 7)))
    assert found["hugetlb"] == (16 + 3 * 2) * 2**20


MAPS = "7f0000000000-7f0100000000 rw-{kind} 00000000 00:01 12 {path}\n"


@pytest.mark.parametrize(
    "path", ["/memfd:memory-backend-memfd (deleted)", "/dev/shm/libvirt/qemu/1-web/ram", "/SYSV0000cafe (deleted)"]
)
def test_shared_memory_in_swap_is_out(write, path):
    """The kernel does not count it in VmSwap, but in the areas."""
    status = "RssAnon:\t10 kB\nRssShmem:\t100 kB\nVmSwap:\t30 kB\n"
    areas = {"proc__5__smaps_rollup": "Swap:  430 kB\nSwapPss:  430 kB\n"}
    files = write(proc__5__status=status, proc__5__maps=MAPS.format(kind="s", path=path), **areas)
    vm = Unit("web", "vm", (5,))

    found = host.unit_memory(files, vm)
    assert (found["swapped"], found["shared_swapped"], found["resident"]) == (430 * 1024, 400 * 1024, 110 * 1024)
    write(proc__5__maps=MAPS.format(kind="p", path="/usr/bin/qemu"))
    assert host.unit_memory(files, vm)["swapped"] == 30 * 1024


def test_shared_memory_in_swap_counts_once_for_all_its_processes(write):
    files = write()
    for pid in (5, 6):
        write(
            **{
                f"proc__{pid}__status": "VmSwap:\t30 kB\n",
                f"proc__{pid}__smaps_rollup": "Swap:  430 kB\nSwapPss:  30 kB\n",
            }
        )
    assert host.unit_memory(files, Unit("db.service", "systemd unit", (5, 6)))["swapped"] == (30 + 30 + 400) * 1024


def test_a_process_that_has_ended_has_no_memory(write):
    assert set(host.unit_memory(write(proc__stat=""), Unit("a", "process", (5,))).values()) == {0}
