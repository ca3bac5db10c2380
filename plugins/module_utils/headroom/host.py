# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of a host and of its units, as the kernel counts it. Nothing is changed."""

from __future__ import annotations

import os
import re
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom import endurance
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host import pressure
from ansible_collections.memstretch.density.plugins.module_utils.host.charged import ChargedDram
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import kswapd_pids, process_ticks
from ansible_collections.memstretch.density.plugins.module_utils.host.disks import swap_disks
from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    HostFiles,
    meminfo,
    swap_areas,
    vmstat,
)

# Counters of /proc/vmstat: pages that were dropped or swapped out, and came back so soon that they were still in use.
REFAULTS = ("workingset_refault_anon", "workingset_refault_file")
# Fewer page-ins than this from a drive say little about its latency.
LEAST_READS = 20
_PSI = re.compile(r"^(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+)", re.MULTILINE)


class Moment(t.NamedTuple):
    """The counters at one time."""

    at: float
    pressure: dict[str, int | float]
    refaults: dict[str, int]
    kswapd_ticks: int


def moment(files: HostFiles) -> Moment:
    """Read the counters."""
    counters = vmstat(files)
    kswapd = sum(process_ticks(files.text(f"/proc/{pid}/stat") or "") for pid in kswapd_pids(files))
    refaults = {name: counters[name] for name in REFAULTS if name in counters}
    return Moment(time.time(), pressure.snapshot(files.root), refaults, kswapd)


def rates(before: Moment, after: Moment, files: HostFiles) -> dict[str, t.Any]:
    """Return the rates between two moments. What this kernel does not count is None."""
    difference = pressure.difference(before.pressure, after.pressure)
    counters = difference["counters"]
    seconds = counters["clock_s"]

    def each_second(*names: str) -> float | None:
        known = [counters[name] for name in names if name in counters]
        return round(sum(known) / seconds, 3) if known and seconds else None

    refaults = [after.refaults[name] - value for name, value in before.refaults.items() if name in after.refaults]
    page_in_us = [
        counters[f"disk.{disk}.read_ms"] * 1000 / counters[f"disk.{disk}.reads"]
        for disk in swap_disks(files)
        if not disk.startswith("zram") and counters.get(f"disk.{disk}.reads", 0) >= LEAST_READS
    ]
    return {
        "seconds": round(seconds, 3),
        "page_ins": each_second("pswpin", "zswpin"),
        "page_outs": each_second("pswpout", "zswpout"),
        "major_faults": each_second("pgmajfault"),
        "refaults": round(sum(refaults) / seconds, 3) if refaults and seconds else None,
        "memory_some_share": _share(counters, "psi_memory_some_us", seconds),
        "memory_full_share": _share(counters, "psi_memory_full_us", seconds),
        "io_some_share": _share(counters, "psi_io_some_us", seconds),
        "kswapd_cpu_share": round((after.kswapd_ticks - before.kswapd_ticks) / os.sysconf("SC_CLK_TCK") / seconds, 4),
        "drive_page_in_us": round(max(page_in_us), 1) if page_in_us else None,
    }


def memory(files: HostFiles) -> dict[str, t.Any]:
    """Return the DRAM of a host and its tiers: what can hold memory beyond DRAM, and how full it is."""
    info = meminfo(files)
    areas = [
        {
            "kind": _kind(area),
            "name": area["name"],
            "size_bytes": area["size_bytes"],
            "used_bytes": area["used_bytes"],
            "priority": area["priority"],
        }
        for area in swap_areas(files)
    ]
    stats = pressure.snapshot(files.root)
    zswap_on = files.text("/sys/module/zswap/parameters/enabled") == "Y"
    nodes = [name for name in files.names("/sys/devices/system/node") if re.match(r"^node\d+$", name)]
    return {
        "dram_bytes": info.get("MemTotal"),
        "available_bytes": info.get("MemAvailable"),
        "in_use_bytes": ChargedDram({"mechanism": "hugepages", "original_pages": 0}, files.root).host_in_use(),
        "hugepages_bytes": info.get("Hugetlb"),
        "tiers": areas,
        "drives": endurance.swap_drives(files),
        "zram": _compressed(stats, "zram_stored_bytes", "zram_used_bytes"),
        "zswap": {
            "enabled": zswap_on,
            **_compressed(stats, "zswap_stored_bytes", "zswap_compressed_bytes"),
        },
        "psi": {resource: _psi(files, resource) for resource in ("memory", "io")},
        "ksm_saved_bytes": _pages(files.number("/sys/kernel/mm/ksm/pages_sharing")),
        "numa_nodes": [
            {
                "id": int(name[4:]),
                "dram_bytes": _node(files, name, "MemTotal"),
                "free_bytes": _node(files, name, "MemFree"),
            }
            for name in nodes
        ],
    }


def unit_memory(files: HostFiles, unit: Unit) -> dict[str, int]:
    """Return the memory of a unit in bytes, without files that it has mapped or cached.

    C(resident) is in DRAM, C(swapped) beyond it, C(hugetlb) in huge pages that are never swapped, and C(locked) is
    resident memory that its processes have locked or that a device uses.
    """
    found = dict.fromkeys(("resident", "swapped", "hugetlb", "locked"), 0)
    for pid in unit.pids:
        status = _kib(files.text(f"/proc/{pid}/status"))
        if len(unit.pids) == 1:
            resident = status.get("RssAnon", 0) + status.get("RssShmem", 0)
            swapped = status.get("VmSwap", 0)
        else:
            # Processes of one program share pages after a fork: each has its part of them.
            parts = _kib(files.text(f"/proc/{pid}/smaps_rollup"))
            resident = parts.get("Pss_Anon", 0) + parts.get("Pss_Shmem", 0)
            swapped = parts.get("SwapPss", 0)
        found["resident"] += resident
        found["swapped"] += swapped
        found["hugetlb"] += status.get("HugetlbPages", 0)
        found["locked"] += min(resident, status.get("VmLck", 0) + status.get("VmPin", 0))
    return found


def _kib(text: str | None) -> dict[str, int]:
    return {name: int(value) * 1024 for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text or "", re.MULTILINE)}


def _kind(area: t.Mapping[str, t.Any]) -> str:
    if re.match(r"^/dev/zram\d+$", area["name"]):
        return "zram"
    return "file" if area["type"] == "file" else "drive"


def _compressed(stats: t.Mapping[str, t.Any], stored: str, used: str) -> dict[str, t.Any]:
    return {"stored_bytes": stats.get(stored), "used_bytes": stats.get(used)}


def _psi(files: HostFiles, resource: str) -> dict[str, float] | None:
    """Return the pressure of a resource in percent of the time; None if this kernel does not measure it."""
    lines = _PSI.findall(files.text(f"/proc/pressure/{resource}") or "")
    return {
        f"{share}_avg{seconds}": float(value)
        for share, *values in lines
        for seconds, value in zip((10, 60, 300), values)
    } or None


def _share(counters: t.Mapping[str, t.Any], name: str, seconds: float) -> float | None:
    return round(counters[name] / 1e6 / seconds, 6) if name in counters and seconds else None


def _node(files: HostFiles, name: str, figure: str) -> int | None:
    text = files.text(f"/sys/devices/system/node/{name}/meminfo") or ""
    match = re.search(rf"{figure}:\s+(\d+) kB", text)
    return int(match[1]) * 1024 if match else None


def _pages(count: int | None) -> int | None:
    return None if count is None else count * os.sysconf("SC_PAGE_SIZE")
