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
# With more reads than this for each page-in, most of them are somebody else's.
_MOST_READS = 2
# A line of /proc/PID/maps whose memory is shared: of memfd_create(), shm_open() or shmget(), or without a file.
_SHARED = re.compile(r"^\S+ ..[-x]s .* (/memfd:|/dev/shm/|/SYSV|/dev/zero)", re.MULTILINE)
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
        "drive_page_in_us": _page_in_us(counters, swap_disks(files)),
    }


def _page_in_us(counters: t.Mapping[str, t.Any], disks: t.Sequence[str]) -> float | None:
    """Return how long a read of the slowest drive with swap took; None if too few of their reads can be page-ins."""
    reads = {disk: counters.get(f"disk.{disk}.reads", 0) for disk in disks}
    of_zram = sum(count for disk, count in reads.items() if disk.startswith("zram"))
    drives = {disk: count for disk, count in reads.items() if not disk.startswith("zram")}
    page_ins = counters.get("pswpin", 0) - of_zram
    # Somebody else reads a drive, too: a backup, for example. A page-in is one read, or a part of one.
    if page_ins < LEAST_READS or sum(drives.values()) > _MOST_READS * page_ins:
        return None
    found = [counters[f"disk.{disk}.read_ms"] * 1000 / count for disk, count in drives.items() if count >= LEAST_READS]
    return round(max(found), 1) if found else None


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
    # A device with a file system is no tier, and what it takes cannot be evicted.
    zram = dict(pressure.zram(files, [os.path.basename(area["name"]) for area in areas if area["kind"] == "zram"]))
    zswap_on = files.text("/sys/module/zswap/parameters/enabled") == "Y"
    nodes = [name for name in files.names("/sys/devices/system/node") if re.match(r"^node\d+$", name)]
    return {
        "dram_bytes": info.get("MemTotal"),
        "available_bytes": info.get("MemAvailable"),
        "in_use_bytes": ChargedDram({"mechanism": "hugepages", "original_pages": 0}, files.root).host_in_use(),
        "hugepages_bytes": info.get("Hugetlb"),
        "tiers": areas,
        "drives": endurance.swap_drives(files),
        "zram": _compressed(zram, "zram_stored_bytes", "zram_used_bytes"),
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
    resident memory that its processes have locked or that a device uses. C(shared_swapped) is the part of C(swapped)
    that is shared memory, such as that of a VM with virtiofs.
    """
    found = dict.fromkeys(("resident", "swapped", "shared_swapped", "hugetlb", "locked"), 0)
    several = len(unit.pids) > 1
    shared_hugetlb = 0
    for pid in unit.pids:
        status = _kib(files.text(f"/proc/{pid}/status"))
        parts: dict[str, int] = {}
        if several or _SHARED.search(files.text(f"/proc/{pid}/maps") or ""):
            parts = _kib(files.text(f"/proc/{pid}/smaps_rollup"))
        if several:
            # Processes of one program share pages after a fork: each has its part of them.
            resident = parts.get("Pss_Anon", 0) + parts.get("Pss_Shmem", 0)
            found["swapped"] += parts.get("SwapPss", 0)
            found["hugetlb"] += parts.get("Private_Hugetlb", 0)
            shared_hugetlb = max(shared_hugetlb, parts.get("Shared_Hugetlb", 0))
        else:
            resident = status.get("RssAnon", 0) + status.get("RssShmem", 0)
            found["swapped"] += status.get("VmSwap", 0)
            found["hugetlb"] += status.get("HugetlbPages", 0)
        found["resident"] += resident
        # Shared memory in swap is in Swap alone, and each process that maps it has all of it there.
        found["shared_swapped"] = max(found["shared_swapped"], parts.get("Swap", 0) - status.get("VmSwap", 0))
        found["locked"] += min(resident, status.get("VmLck", 0) + status.get("VmPin", 0))
    found["swapped"] += found["shared_swapped"]
    found["hugetlb"] += shared_hugetlb
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
