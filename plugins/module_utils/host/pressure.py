# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of the kernel's figures on memory pressure, taken before and after a measured phase.

A snapshot takes well below 3 ms and fits into 1.5 KB of JSON on any host. A figure that this kernel does not have or
does not let us read is absent, never zero.

Counters count from the boot on; C(difference) subtracts them:

============================== ======= =====================================================
clock_s                        s       monotonic clock; the difference is the time between snapshots
pswpin, pswpout                pages   read from and written to swap (of the kernel's page size)
zswpin, zswpout                pages   the same from and to zswap, without a device
pgmajfault                     faults  page faults that found their page in swap or in a file
allocstall                     stalls  allocations that had to reclaim memory themselves
pgscan_kswapd, pgsteal_kswapd  pages   scanned, and reclaimed, by kswapd in the background
pgscan_direct, pgsteal_direct  pages   the same by the process that allocated memory
psi_{memory,io}_{some,full}_us us      time in which some, or all, tasks waited for it
disk.NAME.reads, .writes       I/Os    completed
disk.NAME.read_ms, .write_ms   ms      total time that these took
============================== ======= =====================================================

Gauges are present values; C(difference) keeps them as [before, after]:

============================== ======= =====================================================
mem_available_bytes            bytes   memory that programs can still get without swapping
swap_used_bytes                bytes   swap space in use, zram included
zswap_stored_bytes             bytes   pages in zswap, before compression
zswap_compressed_bytes         bytes   memory that zswap uses for them
zram_stored_bytes              bytes   pages in all zram devices, before compression
zram_compressed_bytes          bytes   the same, compressed
zram_used_bytes                bytes   memory that zram uses for them
============================== ======= =====================================================

The pgscan, pgsteal and allocstall counters do not include what a memory cgroup reclaims from itself; pswpin, pswpout,
zswpin, zswpout and pgmajfault do.

NAME is a whole disk. Disks with swap come first, loop, zram and dm devices included, then real disks by name. All disks
after the fifth are added up as disk.others.
"""

from __future__ import annotations

import re
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import real_disks, swap_disks
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo

GAUGES = frozenset(
    (
        "mem_available_bytes",
        "swap_used_bytes",
        "zswap_stored_bytes",
        "zswap_compressed_bytes",
        "zram_stored_bytes",
        "zram_compressed_bytes",
        "zram_used_bytes",
    )
)
NAMED_DISKS = 5

_VMSTAT = (
    "pswpin",
    "pswpout",
    "zswpin",
    "zswpout",
    "pgmajfault",
    "pgscan_kswapd",
    "pgsteal_kswapd",
    "pgscan_direct",
    "pgsteal_direct",
)
# /proc/diskstats prints these as unsigned 32-bit numbers: they wrap after 49 days of I/O.
_DISK_MS = re.compile(r"^disk\..+\.(read|write)_ms$")


def snapshot(root: str = "/") -> dict[str, int | float]:
    """Return the present counters and gauges, as listed above.

    Args:
        root: the directory with /proc and /sys; tests use another one than /.
    """
    files = HostFiles(root)
    result: dict[str, int | float] = {"clock_s": round(time.monotonic(), 6)}
    result.update(_memory(files))
    result.update(_paging(files))
    result.update(_stalls(files))
    result.update(zram(files, [name for name in files.names("/sys/block") if name.startswith("zram")]))
    result.update(_disks(files))
    return result


def page_ins(files: HostFiles) -> int | None:
    """Return the pages that were read from swap, zswap included, since the boot; None if this kernel does not count."""
    paging = dict(_paging(files))
    return paging["pswpin"] + paging.get("zswpin", 0) if "pswpin" in paging else None


def difference(before: dict[str, int | float], after: dict[str, int | float]) -> dict[str, t.Any]:
    """Return the difference between two snapshots.

    Returns:
        C(counters): by name, after minus before, in the units above.
        C(gauges): by name, [before, after].
        C(doubtful): names without a usable difference, because only one snapshot has them or because they decreased
        (a replaced device, a reboot). Normally empty.
    """
    counters: dict[str, int | float] = {}
    gauges: dict[str, list[int | float]] = {}
    doubtful = set(before) ^ set(after)
    if any(name.startswith("disk.") for name in doubtful):
        doubtful.update(name for name in before if name.startswith("disk.others."))
    for name in sorted(set(before) & set(after) - doubtful):
        if name in GAUGES:
            gauges[name] = [before[name], after[name]]
            continue
        change = after[name] - before[name]
        if change < 0 and _DISK_MS.match(name):
            change += 2**32
        if change < 0:
            doubtful.add(name)
        else:
            counters[name] = round(change, 6) if isinstance(change, float) else change
    return {"counters": counters, "gauges": gauges, "doubtful": sorted(doubtful)}


def _memory(files: HostFiles) -> t.Iterator[tuple[str, int]]:
    info = meminfo(files)
    if "MemAvailable" in info:
        yield "mem_available_bytes", info["MemAvailable"]
    if "SwapTotal" in info:
        yield "swap_used_bytes", info["SwapTotal"] - info["SwapFree"]
    if "Zswapped" in info:
        yield "zswap_stored_bytes", info["Zswapped"]
        yield "zswap_compressed_bytes", info["Zswap"]


def _paging(files: HostFiles) -> t.Iterator[tuple[str, int]]:
    # The file has 200 lines and is read twice per phase: split it once, convert only the figures in use.
    words = (files.raw("/proc/vmstat") or b"").split()
    values = dict(zip(words[::2], words[1::2]))
    for name in _VMSTAT:
        value = values.get(name.encode())
        if value is not None:
            yield name, int(value)
    stalls = [int(value) for name, value in values.items() if name.startswith(b"allocstall")]
    if stalls:
        yield "allocstall", sum(stalls)


def _stalls(files: HostFiles) -> t.Iterator[tuple[str, int]]:
    for resource in ("memory", "io"):
        for line in (files.text(f"/proc/pressure/{resource}") or "").splitlines():
            share, total = line.split(" ", 1)[0], line.rsplit("total=", 1)[-1]
            yield f"psi_{resource}_{share}_us", int(total)


def zram(files: HostFiles, devices: t.Iterable[str]) -> t.Iterator[tuple[str, int]]:
    """Yield what zram devices hold together, and the DRAM that they take; nothing if there are none."""
    # Documentation/admin-guide/blockdev/zram.rst: orig_data_size compr_data_size mem_used_total ...
    stats = [
        [int(word) for word in content.split()[:3]]
        for content in (files.text(f"/sys/block/{name}/mm_stat") for name in devices)
        if content
    ]
    if stats:
        names = ("zram_stored_bytes", "zram_compressed_bytes", "zram_used_bytes")
        yield from zip(names, (sum(column) for column in zip(*stats)))


def _disks(files: HostFiles) -> t.Iterator[tuple[str, int]]:
    swap = swap_disks(files)
    wanted = swap + [name for name in real_disks(files) if name not in swap]
    # Documentation/admin-guide/iostats.rst: major minor name reads merged sectors ms writes merged sectors ms ...
    lines = {}
    for line in (files.text("/proc/diskstats") or "").splitlines():
        words = line.split()
        lines[words[2]] = words[3:]
    figures = {name: [int(lines[name][field]) for field in (0, 3, 4, 7)] for name in wanted if name in lines}
    named = list(figures)[:NAMED_DISKS]
    rest = list(figures)[NAMED_DISKS:]
    rows = {name: figures[name] for name in named}
    if rest:
        rows["others"] = [sum(column) for column in zip(*(figures[name] for name in rest))]
    for disk, row in rows.items():
        for figure, value in zip(("reads", "read_ms", "writes", "write_ms"), row):
            yield f"disk.{disk}.{figure}", value
