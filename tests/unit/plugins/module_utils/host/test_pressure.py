# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of a recorded host, which swaps between the two recordings, and of this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import pressure as memory_pressure
from ansible_collections.memstretch.density.plugins.module_utils.host.disks import real_disks
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

MB = 1024 * 1024


def test_snapshot_of_a_recorded_host(pressed):
    snapshot = memory_pressure.snapshot(pressed)

    with open(pressed + "/proc/vmstat", encoding="ascii") as file:
        vmstat = dict(line.split() for line in file)
    assert snapshot["pswpin"] == int(vmstat["pswpin"]) > 100_000
    assert snapshot["pgmajfault"] == int(vmstat["pgmajfault"])
    assert 90 * MB < snapshot["swap_used_bytes"] < 110 * MB
    assert snapshot["psi_memory_some_us"] >= snapshot["psi_memory_full_us"] > 1_000_000
    # Half of each page was random.
    assert 0.4 < snapshot["zram_compressed_bytes"] / snapshot["zram_stored_bytes"] < 0.6
    assert snapshot["zram_used_bytes"] >= snapshot["zram_compressed_bytes"]
    with open(pressed + "/proc/diskstats", encoding="ascii") as file:
        nvme = next(line.split() for line in file if " nvme1n1 " in line)
    assert [snapshot[f"disk.nvme1n1.{name}"] for name in ("reads", "read_ms", "writes", "write_ms")] == [
        int(nvme[column]) for column in (3, 6, 7, 10)
    ]


def test_stalled_allocations_of_all_zones_are_added_up(quiet, write):
    write(quiet, "/proc/vmstat", "allocstall_dma 1\nallocstall_normal 20\npgscan_kswapd 7\nallocstall_movable 300\n")

    assert memory_pressure.snapshot(quiet)["allocstall"] == 321


def test_disks_with_swap_come_first_and_idle_loop_devices_are_left_out(quiet):
    disks = [name.split(".")[1] for name in memory_pressure.snapshot(quiet) if name.endswith(".reads")]

    assert disks == ["zram0", "nvme0n1", "nvme1n1", "sda"]


def test_difference_subtracts_counters_and_keeps_gauges(quiet, pressed):
    before, after = memory_pressure.snapshot(quiet), memory_pressure.snapshot(pressed)

    result = memory_pressure.difference(before, after)

    assert result["doubtful"] == []
    assert set(result["gauges"]) == memory_pressure.GAUGES
    assert set(result["counters"]) | set(result["gauges"]) == set(after)
    assert result["gauges"]["swap_used_bytes"] == [0, after["swap_used_bytes"]]
    assert result["counters"]["pswpout"] == after["pswpout"] - before["pswpout"] > 100_000
    assert result["counters"]["disk.zram0.writes"] > 50_000
    assert result["counters"]["disk.sda.reads"] == 0


def test_many_disks_are_added_up_and_the_size_is_bounded(quiet, write):
    lines = []
    for number in range(40):
        name = f"nvme{number}n1"
        os.makedirs(f"{quiet}/sys/block/{name}/device", exist_ok=True)
        lines.append(f"259 {number} {name} {10**9 + number} 0 0 4294967295 {10**9} 0 0 4294967295 0 0 0")
    write(quiet, "/proc/diskstats", "\n".join(lines) + "\n")
    vmstat = "".join(f"{name} {10**12}\n" for name in (*memory_pressure._VMSTAT, "allocstall_normal"))
    write(quiet, "/proc/vmstat", vmstat)

    snapshot = memory_pressure.snapshot(quiet)

    assert snapshot["disk.others.reads"] == sum(10**9 + number for number in range(5, 40))
    assert len([name for name in snapshot if name.endswith(".reads")]) == memory_pressure.NAMED_DISKS + 1
    assert len(json.dumps(snapshot)) < 1500


def test_a_disk_that_appears_makes_the_sum_of_the_others_doubtful(quiet):
    before = {"disk.a.reads": 1, "disk.others.reads": 5, "pswpin": 1}
    after = {"disk.a.reads": 2, "disk.b.reads": 9, "disk.others.reads": 4, "pswpin": 3}

    assert memory_pressure.difference(before, after) == {
        "counters": {"disk.a.reads": 1, "pswpin": 2},
        "gauges": {},
        "doubtful": ["disk.b.reads", "disk.others.reads"],
    }


def test_a_counter_of_milliseconds_may_wrap():
    result = memory_pressure.difference({"disk.vda.read_ms": 2**32 - 10}, {"disk.vda.read_ms": 5})

    assert result["counters"] == {"disk.vda.read_ms": 15}


def test_a_counter_that_decreased_is_doubtful():
    result = memory_pressure.difference({"pswpin": 10, "clock_s": 1.5}, {"pswpin": 3, "clock_s": 2.0})

    assert result == {"counters": {"clock_s": 0.5}, "gauges": {}, "doubtful": ["pswpin"]}


def test_figures_that_the_kernel_lacks_are_absent(quiet):
    shutil.rmtree(quiet + "/proc/pressure")
    shutil.rmtree(quiet + "/sys/devices/virtual/block/zram0")
    os.remove(quiet + "/sys/block/zram0")

    snapshot = memory_pressure.snapshot(quiet)

    assert not [name for name in snapshot if name.startswith(("psi_", "zram_"))]
    assert "mem_available_bytes" in snapshot


def test_this_machine():
    before = memory_pressure.snapshot()
    after = memory_pressure.snapshot()

    result = memory_pressure.difference(before, after)

    assert {"clock_s", "mem_available_bytes", "swap_used_bytes", "pswpin", "pgmajfault", "allocstall"} <= set(after)
    assert result["doubtful"] == []
    assert result["counters"]["clock_s"] > 0
    assert len(json.dumps(after)) < 1500


def test_a_write_on_this_machine_is_counted(tmp_path):
    disks = real_disks(HostFiles())
    number = os.stat(tmp_path).st_dev
    disk = os.path.basename(os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"))
    if disk not in disks:
        pytest.skip(f"{tmp_path} is not on a whole disk")
    before = memory_pressure.snapshot()

    subprocess.run(
        ["dd", "if=/dev/zero", f"of={tmp_path}/written", "bs=64k", "count=4", "conv=fsync"],
        check=True,
        capture_output=True,
    )

    assert memory_pressure.difference(before, memory_pressure.snapshot())["counters"][f"disk.{disk}.writes"] > 0
