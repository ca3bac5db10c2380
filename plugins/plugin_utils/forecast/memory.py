# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many servers or VMs fit into the memory of one machine under one profile: its DRAM, and the tier beyond it."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.settings import in_percent
from ansible_collections.memstretch.density.plugins.module_utils.options import size_in_bytes, size_text
from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD, Capacity, Demand, admit
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.records import value_bytes
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import listed

# A page that compresses to this share or more is stored uncompressed (zsmalloc's largest class below a page).
INCOMPRESSIBLE = 0.8
# What a compressed page takes in addition to its random part, as a share of the page, in zram with lz4 (docs/plan.md).
COMPRESSION_OVERHEAD = 0.05
# The same of the pages of a Redis that hold no records: buffers, arenas, mostly zeros (docs/plan.md).
COMPRESSED_REST = 0.12


class Server(t.NamedTuple):
    """One of a fleet, a Redis server or a VM.

    Attributes:
        bytes: its memory.
        resident: the part of it that cannot leave DRAM.
        compressed: what its pages take in zram and zswap, as a share; 1 if they are stored uncompressed.
        is_vm: whether the role vm_fleet makes it, and may refuse to.
    """

    bytes: float
    resident: float
    compressed: float
    is_vm: bool


class DoesNotFit(Exception):
    """The fleet does not fit; the text names what is missing."""


class HostMemory:
    """The memory of a machine under one profile.

    Args:
        compressed: what the pages of the fleet take in zram and zswap, as a share, unless they hold the load's values.

    Attributes:
        total: bytes of memory of the machine.
        budget: bytes of the DRAM budget; None without one.
        dram: bytes of DRAM for the fleet.
        kind: kind of the tier beyond the DRAM.
        capacity: bytes of the fleet's pages that the tier holds, with zram in front of it.
        zram: bytes of them in zram in front of the tier.
        unknown: why nothing can be said, or an empty text.
    """

    def __init__(
        self,
        name: str,
        record: t.Mapping[str, t.Any],
        arm: t.Mapping[str, t.Any],
        load: t.Mapping[str, t.Any],
        reserve: str,
        compressed: float | None = None,
    ) -> None:
        self.name, self._arm = name, arm
        self._incompressible = (
            "this memory does not compress"
            if compressed is not None
            else f"these values do not compress (latency_benchmark_compressibility {load['compressibility']:g})"
        )
        self.total = record["memory"]["total_bytes"]
        self._reserve = size_in_bytes("density_plan_host_reserve", reserve, self.total)
        self.notes: list[str] = (
            []
            if arm["tuned"]
            else [f"{name} is not tuned, so all profiles are the same there: the plan uses its present swap"]
        )
        nodes = sum(node["total_bytes"] or 0 for node in record["numa"]["nodes"] if node["memory_only"])
        self._budget = arm["dram_budget"]
        self.budget = None
        if self._budget:
            option = self._budget.get("option", "host_tuning_dram_budget.size")
            self.budget = size_in_bytes(option, self._budget["size"], self.total)
        self._free = 0.0
        self.dram = self._fleets_dram(record, nodes)
        self._compresses = (compression(load) if compressed is None else compressed) < 1
        self.kind, self.capacity = self._beyond(record, nodes)
        self.zram = self._zram_first()
        self.unknown = ""
        if "memory_only_node" in arm["needs"] and not nodes:
            self.notes.append(
                f"{name} has no NUMA node without processors (such as CXL memory), which this profile needs"
            )
        if "imdt" in arm["needs"]:
            if record["imdt"]["detected"]:
                self.unknown = (
                    f"{name} runs on IMDT, which presents drives as memory: the size of its DRAM is not visible"
                )
            else:
                self.notes.append(f"IMDT not detected: {name} runs natively, and this profile uses DRAM only")

    def _fleets_dram(self, record: t.Mapping[str, t.Any], nodes: int) -> float:
        """Return the DRAM budget, or what the kernel's watermarks and the host's own programs leave."""
        scale = (
            self._arm["sysctl"].get("vm.watermark_scale_factor") or record["sysctl"]["vm.watermark_scale_factor"] or 10
        )
        # kswapd starts at the factor and stops at twice the factor (admin-guide/sysctl/vm.rst); free memory averages
        # between.
        self._free = free = self.total * 1.5 * scale / 10_000
        room = self.total - nodes - self._reserve - free
        if self.budget is None:
            return max(0.0, room)
        if self._in_cgroup:
            return max(0.0, float(min(self.budget, room)))
        return max(0.0, min(self.budget, self.total) - self._reserve - free)

    @property
    def _in_cgroup(self) -> bool:
        return bool(self._budget) and self._budget.get("mechanism", "cgroup") == "cgroup"

    def _beyond(self, record: t.Mapping[str, t.Any], nodes: int) -> tuple[str, float]:
        areas = [area["size_bytes"] for area in (self._arm["areas"] if self._arm["tuned"] else record["swap"]["areas"])]
        if not self._arm["tuned"]:
            compressed = any(area["name"].startswith("/dev/zram") for area in record["swap"]["areas"])
            return ("zram" if compressed else "devices" if areas else "none"), float(sum(areas))
        if "memory_only_node" in self._arm["needs"]:
            return "memory_node", float(nodes)
        kind = self._arm["swap"]["kind"]
        if self._pool and kind != "none":
            if self._compresses:
                return "zswap", float(sum(areas))
            self.notes.append(f"zswap: {self._incompressible}, so pages that do not fit go to the drives")
        return kind, float(sum(areas))

    def _zram_first(self) -> float:
        """Return the size of zram in front of the drives or the file: the areas with the higher priority."""
        swap, areas = self._arm["swap"], self._arm["areas"] if self._arm["tuned"] else []
        if not swap.get("zram_first"):
            return 0.0
        return float(sum(area["size_bytes"] for area in areas if area["priority"] > swap["priority"]))

    @property
    def tierless(self) -> bool:
        """Whether there is nothing beyond the DRAM."""
        return self.kind == "none" or not self.capacity

    def stored(self, compressed: float) -> float:
        """Return the bytes of pages that zram or the pool of zswap holds, if they compress to such a share."""
        if self.kind == "zswap":
            return self._pool / compressed
        return self.capacity if self.kind == "zram" else self.zram

    @property
    def drives(self) -> str:
        """The kind of the drives, also behind zram or zswap."""
        return str(self._arm["swap"]["kind"]) if self.kind == "zswap" else self.kind

    @property
    def _pool(self) -> float:
        """The bytes that zswap's pool may take under this profile."""
        place = "/sys/module/zswap/parameters/"
        if self._arm["sysfs"].get(place + "enabled") is not True:
            return 0.0
        percent = in_percent(str(self._arm["sysfs"].get(place + "max_pool_percent") or 20), self.total)
        return float(percent) / 100 * self.total

    def check(self, size: int, server: Server) -> None:
        """Accept this many servers.

        Raises:
            DoesNotFit: there is too little memory of some kind, or the profile cannot be applied.
        """
        if self._arm["refused"]:
            raise DoesNotFit(f"{self.name} refuses the profile's swap: {self._arm['refused']}")
        if server.is_vm:
            self._admit(size, server)
        needs, resident = size * server.bytes, size * server.resident
        # Without a tier kswapd finds nothing to reclaim, so what it would keep free is the fleet's, too.
        dram = self.dram + (self._free if self.tierless and self.budget is None else 0)
        beyond = needs - dram
        if beyond <= 0:
            return
        if self.tierless:
            raise DoesNotFit(
                f"{self.name}: the fleet needs {size_text(needs)}, "
                f"but has {size_text(dram)} of DRAM and no tier beyond it"
            )
        if resident > dram:
            raise DoesNotFit(
                f"{self.name}: {size_text(resident)} of the fleet cannot leave DRAM, of which it has {size_text(dram)}"
            )
        if self.kind == "zram":
            self._check_zram(needs, resident, server.compressed)
        else:
            self._check_drives(needs, resident, server.compressed)

    def most(self, server: Server, limit: int) -> tuple[int, str]:
        """Return how many servers fit, at most a limit, and why not one more; an empty text at the limit."""
        low, high, why = 0, limit + 1, ""
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self.check(middle, server)
            except DoesNotFit as error:
                high, why = middle, str(error)
            else:
                low = middle
        return low, why

    def _admit(self, vms: int, server: Server) -> None:
        """Refuse VMs that the role vm_fleet would not admit on this machine."""
        size = self.total if self.budget is None else self.budget
        swap = self.capacity if self.kind not in ("none", "memory_node") else 0
        # The other mechanism of a budget reserves the rest of the memory as huge pages.
        huge_pages = 0 if self._in_cgroup else max(0, self.total - size)
        refused, _warnings = admit(
            Capacity(
                memory=self.total,
                budget=size if self._in_cgroup else None,
                swap=int(swap),
                reserve=self._reserve,
                foreign=0,
                cpus=vms,
                disk_free=0,
                addresses=None,
                huge_pages=huge_pages,
            ),
            Demand(vms, 0, round(server.bytes) - OVERHEAD, OVERHEAD, 1, 0, 0, ""),
        )
        if refused:
            raise DoesNotFit("; ".join(f"{self.name}: {text}" for text in refused))

    def _check_zram(self, needs: float, resident: float, compressed: float) -> None:
        """Compressed pages take the fleet's own DRAM; a budget by control group means the charged DRAM, too."""
        if compressed >= 1:
            raise DoesNotFit(
                f"{self.name}: the fleet needs {size_text(needs)}, but has {size_text(self.dram)} of DRAM, "
                f"and zram adds nothing because {self._incompressible}"
            )
        least = resident + (needs - resident) * compressed
        if least > self.dram:
            raise DoesNotFit(
                f"{self.name}: with all in zram that may leave DRAM, the fleet still needs {size_text(least)}, "
                f"but has {size_text(self.dram)}"
            )
        stored = (needs - self.dram) / (1 - compressed)
        if stored > self.capacity:
            raise DoesNotFit(
                f"{self.name}: zram would have to store {size_text(stored)} of {size_text(needs)}, "
                f"but holds {size_text(self.capacity)}"
            )

    def _check_drives(self, needs: float, resident: float, compressed: float) -> None:
        """Drives hold what is neither in DRAM nor in zram before them. What zswap holds has a place on them, too."""
        zram = packed = 0.0
        room = (self.dram - resident) / compressed  # for compressed pages
        wanted = (needs - self.dram) / (1 - compressed) if compressed < 1 else room
        if self.zram:  # the kernel fills it first, whatever its pages compress to
            zram = min(self.zram, room, wanted)
            packed = zram * compressed
        elif self.kind == "zswap":
            packed = min(self._pool, room * compressed, wanted * compressed)
        beyond, drives = needs - (self.dram - packed) - zram, self.capacity - self.zram
        if beyond > drives:
            parts = [f"{size_text(self.dram - packed)} of DRAM", f"{size_text(drives)} of {self._drives}"]
            if zram:
                parts.insert(1, f"{size_text(zram)} of zram")
            pool = "" if zram or not packed else f", where the pool of {size_text(packed)} has its places, too"
            raise DoesNotFit(f"{self.name}: the fleet needs {size_text(needs)}, but has {listed(parts)}{pool}")

    @property
    def _drives(self) -> str:
        names = {"file": "the swap file", "devices": "drives", "memory_node": "the other NUMA node"}
        return names.get(self.drives, self.drives)


def compression(load: t.Mapping[str, t.Any]) -> float:
    """Return the compressed size of a page of values as a share; 1 if it would be stored uncompressed."""
    random_part = (1 - load["compressibility"]) * load["value_size"] / value_bytes(load["value_size"])
    return 1.0 if random_part > INCOMPRESSIBLE else random_part + COMPRESSION_OVERHEAD
