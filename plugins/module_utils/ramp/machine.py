# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the machine does while a ramp looks: CPUs, stolen time, charged DRAM, page-ins, and the work of the tier."""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import charged_watch, pressure
from ansible_collections.memstretch.density.plugins.module_utils.host.charged import ChargedDram
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import (
    Ticks,
    each_cpu,
    kswapd_pids,
    process_ticks,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.disks import swap_disks
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CgroupFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, swap_areas
from ansible_collections.memstretch.density.plugins.module_utils.host.group_reclaim import GroupReclaim


class Moment(t.NamedTuple):
    """What is read at one moment.

    Attributes:
        clock: monotonic, in seconds.
        cpus: ticks of each.
        counters: pressure.snapshot().
        charged: charged_watch.sample().
        tier_cpu: CPU time that reclaim in the background and kswapd have taken, in seconds.
        used: bytes of each swap area in use, by name.
        written: bytes that swap has written to drives since the boot.
    """

    clock: float
    cpus: list[Ticks]
    counters: dict[str, t.Any]
    charged: dict[str, t.Any]
    tier_cpu: float | None
    used: dict[str, int]
    written: int


class Machine:
    """Reads it.

    Args:
        name: of the fleet's group below the root of the memory controller.
        group: its files.
        root: the directory with /proc and /sys; tests use another one than /.

    Attributes:
        reclaim: the reclaim in the background, once there is one.
    """

    def __init__(self, name: str, group: CgroupFiles, root: str = "/") -> None:
        self._files, self._root, self._group = HostFiles(root), root, group
        self._charged = ChargedDram({"mechanism": "cgroup", "group": name}, root)
        self.reclaim: GroupReclaim | None = None
        self._kswapd = kswapd_pids(self._files)

    def cpus(self) -> list[Ticks]:
        """Return the ticks of each CPU."""
        return each_cpu(self._files)

    def charged_bytes(self) -> int | None:
        """Return the charged DRAM of the fleet."""
        return self._charged.read()["charged_bytes"]

    def outside(self) -> int:
        """Return the part of it that is not in the group, 0 for what this kernel does not report."""
        figures = self._charged.read()
        return sum(value or 0 for name, value in figures.items() if name in ("zram_bytes", "zram_table_bytes")) + (
            figures["zswap_bytes"] or 0
        )

    def paging(self) -> tuple[float, int, int]:
        """Return the monotonic clock and the pages that were read from and written to swap, zswap included."""
        counters = pressure.snapshot(self._root)
        ins, outs = (sum(int(counters.get(name, 0)) for name in names) for names in (_PAGE_INS, _PAGE_OUTS))
        return float(counters["clock_s"]), ins, outs

    def tier_used(self, tier: t.Collection[str]) -> float:
        """Return the used share of the swap areas that are measured, 0 without any."""
        found = [area for area in swap_areas(self._files) if area["name"] in tier]
        return sum(area["used_bytes"] for area in found) / max(1, sum(area["size_bytes"] for area in found))

    def written_bytes(self) -> int:
        """Return how much swap has written to drives since the boot: all that went to swap but not to zram."""
        names = (os.path.basename(area["name"]) for area in swap_areas(self._files))
        zram = sum(self._written_sectors(name) for name in names if name.startswith("zram"))
        pages = int(pressure.snapshot(self._root).get("pswpout", 0))
        return pages * os.sysconf("SC_PAGE_SIZE") - zram * _SECTOR

    def _written_sectors(self, disk: str) -> int:
        # Documentation/block/stat.rst: the seventh number is that of the sectors written, of 512 bytes on any disk.
        return int((self._files.text(f"/sys/block/{disk}/stat") or "").split()[6])

    def moment(self) -> Moment:
        """Return all of it."""
        charged = charged_watch.sample(self._charged, self._group, self.reclaim)
        return Moment(
            time.monotonic(),
            self.cpus(),
            pressure.snapshot(self._root),
            charged,
            self._tier_cpu(charged["reclaim_cpu_s"]),
            self.used(),
            self.written_bytes(),
        )

    def used(self) -> dict[str, int]:
        """Return the bytes in use of each swap area."""
        return {area["name"]: area["used_bytes"] for area in swap_areas(self._files)}

    def drives(self) -> list[str]:
        """Return the names of the disks with swap that are not memory."""
        return [name for name in swap_disks(self._files) if not name.startswith("zram")]

    def _tier_cpu(self, reclaim: float) -> float | None:
        total = 0
        for pid in self._kswapd:
            stat = self._files.text(f"/proc/{pid}/stat")
            if stat is None:
                return None
            total += process_ticks(stat)
        return reclaim + total / os.sysconf("SC_CLK_TCK")


_SECTOR = 512
_PAGE_INS, _PAGE_OUTS = ("pswpin", "zswpin"), ("pswpout", "zswpout")


def sample(
    moments: t.Sequence[Moment],
    tier: t.Collection[str],
    tier_bytes: int,
    drives: t.Sequence[str],
    used_before: t.Mapping[str, int],
) -> dict[str, t.Any]:
    """Return what happened between the first and the last moment, for the record of a ramp.

    Args:
        moments: about one a second.
        tier: names of the swap areas that are measured.
        tier_bytes: their size.
        drives: disks with swap.
        used_before: bytes in use of each swap area at the beginning of the ramp.

    Returns:
        C(stolen_worst) is the largest share of one CPU between two moments, C(stolen_cpu) and C(stolen_ticks) what the
        CPU lost in all this time that lost most, and C(memory_some_share) the share of the time in which some task
        waited for memory (PSI). What is unknown is None.
    """
    first, last = moments[0], moments[-1]
    change = pressure.difference(first.counters, last.counters)["counters"]
    whole = _spent(first, last)
    total = sum(spent.total for spent in whole)
    worst = max(whole, key=lambda spent: spent.stolen / max(1, spent.total), default=Ticks(0, 0, 0))
    each = [spent for before, after in zip(moments, moments[1:]) for spent in _spent(before, after) if spent.total]
    charged = [moment.charged["charged_bytes"] for moment in moments]
    compressed = [last.charged[name] for name in ("zram_bytes", "zram_table_bytes", "zswap_bytes")]
    hits = [moment.charged["limit_hits"] for moment in moments]
    others = [(name, used) for name, used in last.used.items() if name not in tier]
    cpu = None if first.tier_cpu is None or last.tier_cpu is None else last.tier_cpu - first.tier_cpu
    return {
        "cpus": len(whole),
        "busy": _share(total - sum(spent.idle for spent in whole), total),
        "stolen": _share(sum(spent.stolen for spent in whole), total),
        "stolen_worst": max((_share(spent.stolen, spent.total) or 0.0 for spent in each), default=None),
        "stolen_cpu": _share(worst.stolen, worst.total),
        "stolen_ticks": worst.stolen,
        "charged_bytes": None if None in charged else max(charged),
        "tier_bytes": None if None in compressed else sum(compressed),
        "swap_used_bytes": sum(used for name, used in last.used.items() if name in tier),
        "swap_bytes": tier_bytes if tier else None,
        "page_ins": _sum(change, _PAGE_INS),
        "page_outs": _sum(change, _PAGE_OUTS),
        "memory_some_share": _waiting(change, last.clock - first.clock),
        "tier_cpu_seconds": None if cpu is None else round(cpu, 4),
        "drive_reads": _sum(change, [f"disk.{name}.reads" for name in drives]) if drives else 0,
        "drive_read_seconds": round((_sum(change, [f"disk.{name}.read_ms" for name in drives]) or 0) / 1000, 3),
        "drive_written_bytes": max(0, last.written - first.written) if drives else 0,
        "limit_hits": None if None in hits else hits[-1] - hits[0],
        "other_swap_grew": any(used > used_before.get(name, 0) for name, used in others),
    }


def _spent(before: Moment, after: Moment) -> list[Ticks]:
    return [Ticks(*(b - a for a, b in zip(*both))) for both in zip(before.cpus, after.cpus)]


def _waiting(change: t.Mapping[str, t.Any], seconds: float) -> float | None:
    waited = change.get("psi_memory_some_us")
    return None if waited is None or seconds <= 0 else round(min(1.0, waited / 1e6 / seconds), 5)


def _share(part: int, total: int) -> float | None:
    return round(part / total, 5) if total > 0 else None


def _sum(change: t.Mapping[str, t.Any], names: t.Iterable[str]) -> int | None:
    known = [int(change[name]) for name in names if name in change]
    return sum(known) if known else None
