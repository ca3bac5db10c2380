# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charged DRAM: what the fleet of a host really takes from its DRAM budget. Nothing is changed.

Under a budget by control group, these parts are added up:

================= =====================================================================================================
group_bytes       what the control group is charged: the Redis or the VMs, their page cache and kernel memory
zram_bytes        mem_used_total of all zram devices, which no control group holds
zram_table_bytes  zram's table, which is allocated in full with the device: an entry for each page of its size
zswap_bytes       zswap's pool. 0 in version 2 of control groups, which charges the pool to the groups themselves
page_cache_bytes  page cache of files with swap below a loop device that does not use direct I/O. The kernel itself
                  reads and writes a swap file without the page cache
================= =====================================================================================================

zram and zswap do not report whose pages they hold, so all pages are charged to the fleet. Clients outside of the group
(several Redis instances on one machine) do not use its DRAM and are not charged; C(client_bytes) is what they take.
Clients in VMs are in the memory of their VM, so they are in the group.

Under a budget by huge pages, the rest of the host is the small host: charged is all memory in use that is not the
budget's huge pages (C(host_bytes)). That holds the host's own programs, clients, zram and zswap, so nothing can be
outside of it.

What this kernel does not report is None, and so is the sum; never 0.
"""

from __future__ import annotations

import ctypes
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import (
    CGROUP_V1,
    CGROUP_V2,
    group_directory,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo, swap_areas
from ansible_collections.memstretch.density.plugins.module_utils.host.memory import kernel_option

# The parts of the sum, by mechanism.
PARTS = {
    "cgroup": ("group_bytes", "zram_bytes", "zram_table_bytes", "zswap_bytes", "page_cache_bytes"),
    "hugepages": ("host_bytes",),
}

# drivers/block/zram/zram_drv.h, struct zram_table_entry: a handle and flags, and the time of the last access if the
# kernel keeps it.
_TABLE_ENTRY, _TABLE_ENTRY_WITH_TIME = 16, 24
_TIME_OPTIONS = ("CONFIG_ZRAM_TRACK_ENTRY_ACTIME", "CONFIG_ZRAM_MEMORY_TRACKING")

# cachestat(2), since Linux 6.5; the same number on all architectures.
_CACHESTAT = 451

Figures = t.Dict[str, t.Optional[int]]


class ChargedDram:
    """Reads the charged DRAM of a host that has a DRAM budget.

    Args:
        budget: C(mechanism), C(group), and with huge pages C(original_pages), the huge pages that are not the budget's.
        root: the directory with the host's /proc and /sys.
    """

    def __init__(self, budget: t.Mapping[str, t.Any], root: str = "/") -> None:
        self._budget, self._files = budget, HostFiles(root)
        self._group, self._version_1 = "", False
        if budget["mechanism"] == "cgroup":
            self._group, self._version_1 = group_directory(self._files, budget["group"])
        keeps_time = any(kernel_option(self._files, name) is not False for name in _TIME_OPTIONS)
        self._entry = _TABLE_ENTRY_WITH_TIME if keeps_time else _TABLE_ENTRY

    def read(self) -> Figures:
        """Return the parts of the sum by name, C(charged_bytes), and in addition:

        C(stored_bytes), C(compressed_bytes): pages in zram and zswap, and the memory that holds them.
        C(limit_bytes): the memory limit of the control group.
        """
        info = meminfo(self._files)
        zram = self._zram()
        pool = self._zswap(info)
        if self._budget["mechanism"] == "hugepages":
            parts: Figures = {"host_bytes": self._host(info)}
        else:
            held = self._files.number(f"{self._group}/memory.zswap.current")
            parts = {
                "group_bytes": self._group_figure("memory.usage_in_bytes", "memory.current"),
                "zram_bytes": zram["used"],
                "zram_table_bytes": zram["table"],
                "zswap_bytes": pool if held is None else 0,
                "page_cache_bytes": self._page_cache(),
            }
        limit = self._group_figure("memory.limit_in_bytes", "memory.max")
        return {
            **parts,
            "charged_bytes": total(parts.values()),
            "stored_bytes": total([zram["stored"], info.get("Zswapped", pool)]),
            "compressed_bytes": total([zram["used"], pool]),
            "limit_bytes": limit if limit is not None and limit < 2**62 else None,
        }

    def host_in_use(self) -> int | None:
        """Return the memory of the host that is neither free nor clean page cache nor reclaimable slab."""
        return in_use(meminfo(self._files), self._free_per_cpu())

    def unreclaimable(self) -> int | None:
        """Return the bytes of the control group that no reclaim can take: kernel memory and locked pages."""
        stat = dict(re.findall(r"^(\w+) (\d+)$", self._files.text(f"{self._group}/memory.stat") or "", re.MULTILINE))
        prefix = "total_" if "total_unevictable" in stat else ""
        kernel = (
            self._files.number(f"{self._group}/memory.kmem.usage_in_bytes") if self._version_1 else stat.get("kernel")
        )
        locked = stat.get(f"{prefix}unevictable")
        return None if locked is None or kernel is None else int(locked) + int(kernel)

    def client_bytes(self, name: str = "solotest") -> int:
        """Return the resident memory of the latency clients on this host that are not in the control group."""
        group = self._group[len(CGROUP_V1 if self._version_1 else CGROUP_V2) :]
        found = 0
        for pid in self._files.names("/proc"):
            if not pid.isdigit() or not (self._files.text(f"/proc/{pid}/comm") or "").startswith(name):
                continue
            lines = filter(None, (self._files.text(f"/proc/{pid}/cgroup") or "").split("\n"))
            groups = [line.split(":", 2)[2] for line in lines]
            if group and any(f"{path}/".startswith(f"{group}/") for path in groups):
                continue
            pages = (self._files.text(f"/proc/{pid}/statm") or "0 0").split()[1]
            found += int(pages) * os.sysconf("SC_PAGE_SIZE")
        return found

    def _group_figure(self, name_v1: str, name_v2: str) -> int | None:
        if not self._group:
            return None
        return self._files.number(f"{self._group}/{name_v1 if self._version_1 else name_v2}")

    def _host(self, info: t.Mapping[str, int]) -> int | None:
        """Return the memory in use of the small host that the huge pages leave."""
        used = self.host_in_use()
        names = ("HugePages_Total", "Hugepagesize")
        if used is None or any(name not in info for name in names):
            return None
        return used - max(0, info["HugePages_Total"] - self._budget["original_pages"]) * info["Hugepagesize"]

    def _free_per_cpu(self) -> int | None:
        """Return the free pages in the lists of the CPUs, which MemFree leaves out: 220 MiB were seen on 2 CPUs."""
        counts = re.findall(r"^ +count: +(\d+)$", self._files.text("/proc/zoneinfo") or "", re.MULTILINE)
        return sum(map(int, counts)) * os.sysconf("SC_PAGE_SIZE") if counts else None

    def _zram(self) -> dict[str, int | None]:
        """Return the memory, the table and the stored bytes of all zram devices."""
        if not self._files.exists("/sys/block"):
            return dict.fromkeys(("used", "table", "stored"))
        sums: list[list[int | None]] = [[], [], []]
        for name in self._files.names("/sys/block"):
            if not re.match(r"^zram\d+$", name):
                continue
            size = self._files.number(f"/sys/block/{name}/disksize")
            # Documentation/admin-guide/blockdev/zram.rst: orig_data_size compr_data_size mem_used_total ...
            stat = re.findall(r"\d+", self._files.text(f"/sys/block/{name}/mm_stat") or "")
            table = None if size is None else size // os.sysconf("SC_PAGE_SIZE") * self._entry
            figures = (int(stat[2]), table, int(stat[0])) if len(stat) > 2 else (None, table, None)
            for column, figure in zip(sums, figures):
                column.append(figure)
        return dict(zip(("used", "table", "stored"), map(total, sums)))

    def _zswap(self, info: t.Mapping[str, int]) -> int | None:
        """Return the size of zswap's pool."""
        if "Zswap" in info:
            return info["Zswap"]
        if not self._files.exists("/sys/module/zswap") or info.get("SwapTotal", -1) == info.get("SwapFree", -2):
            return 0  # every page in the pool has a place in swap
        return self._files.number("/sys/kernel/debug/zswap/pool_total_size")

    def _page_cache(self) -> int | None:
        """Return the page cache of the files below loop devices with swap."""
        loops = [os.path.basename(area["name"]) for area in swap_areas(self._files) if "/loop" in area["name"]]
        return total([self._cached(f"/sys/block/{name}/loop") for name in loops])

    def _cached(self, loop: str) -> int | None:
        if self._files.number(f"{loop}/dio") == 1:
            return 0
        backing = self._files.text(f"{loop}/backing_file")
        return cached_bytes(self._files.path(backing)) if backing else None


def total(values: t.Iterable[int | None]) -> int | None:
    """Return the sum; None if a value is unknown."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def in_use(info: t.Mapping[str, int], free_per_cpu: int | None) -> int | None:
    """Return MemTotal less MemFree, the CPUs' free pages, clean page cache and SReclaimable; None if one is unknown."""
    names = ("MemTotal", "MemFree", "Active(file)", "Inactive(file)", "Dirty", "Writeback", "SReclaimable")
    if free_per_cpu is None or any(name not in info for name in names):
        return None
    clean = info["Active(file)"] + info["Inactive(file)"] - info["Dirty"] - info["Writeback"]
    return info["MemTotal"] - info["MemFree"] - free_per_cpu - max(0, clean) - info["SReclaimable"]


def cached_bytes(path: str) -> int | None:
    """Compute how much of a file is in the page cache; None if this kernel does not report it (before Linux 6.5)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        whole, found = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
        if ctypes.CDLL(None).syscall(_CACHESTAT, descriptor, ctypes.byref(whole), ctypes.byref(found), 0):
            return None
        return found[0] * os.sysconf("SC_PAGE_SIZE")
    finally:
        os.close(descriptor)
