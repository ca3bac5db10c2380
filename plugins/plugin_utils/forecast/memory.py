# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the pages of a fleet are on one machine under one profile: DRAM, and the tier beyond it."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.settings import in_percent
from ansible_collections.memstretch.density.plugins.module_utils.options import size_in_bytes, size_text
from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD, Capacity, Demand, admit
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.access_model import value_bytes

# CPU time of a request (client and Redis), and of the client's spin before it with pacing hybrid
# (docs/bench/client.md).
REQUEST_CPU_US, SPIN_US = 25, 40
# A page that compresses to this share or more is stored uncompressed (zsmalloc's largest class below a page).
INCOMPRESSIBLE = 0.8
# What a compressed page takes in addition to its random part, as a share of the page, in zram with lz4 (docs/plan.md).
COMPRESSION_OVERHEAD = 0.05


class Level(t.NamedTuple):
    """Memory of one kind, and how many bytes of the fleet's pages are in it or in faster levels."""

    kind: str
    upto_bytes: float


class DoesNotFit(Exception):
    """The fleet does not fit; the text names what is missing."""


class HostMemory:
    """The memory of a machine under one profile.

    Attributes:
        total: bytes of memory of the machine.
        dram: bytes of DRAM for the fleet.
        kind: kind of the tier beyond it.
        capacity: bytes of the fleet's pages that the tier holds, with zram in front of it.
        zram: bytes of them in zram in front of the tier.
        unknown: why there is no forecast, or an empty text.
    """

    def __init__(
        self,
        name: str,
        record: t.Mapping[str, t.Any],
        arm: t.Mapping[str, t.Any],
        load: t.Mapping[str, t.Any],
        options: t.Mapping[str, t.Any],
    ) -> None:
        self.name, self._arm, self._load = name, arm, load
        self.cpus = record["cpu"]["online"] or 1
        self.total = record["memory"]["total_bytes"]
        self._reserve = size_in_bytes("density_plan_host_reserve", options["host_reserve"], self.total)
        self.notes: list[str] = (
            []
            if arm["tuned"]
            else [f"{name} is not tuned, so all profiles are the same there: the forecast uses its present swap"]
        )
        nodes = sum(node["total_bytes"] or 0 for node in record["numa"]["nodes"] if node["memory_only"])
        self._budget = arm["dram_budget"]
        self._free = 0.0
        self._given_pool: float | None = None
        self.dram = self._fleets_dram(record, nodes)
        self.ratio = compression(load)
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
        if not self._budget:
            return max(0.0, room)
        size = size_in_bytes("host_tuning_dram_budget.size", self._budget["size"], self.total)
        if self._in_cgroup:
            return max(0.0, float(min(size, room)))
        return max(0.0, min(size, self.total) - self._reserve - free)

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
            if self.ratio < 1:
                return "zswap", float(sum(areas))
            self.notes.append(
                "zswap: these values do not compress (latency_benchmark_compressibility), "
                "so pages that do not fit go to the drives"
            )
        return kind, float(sum(areas))

    def _zram_first(self) -> float:
        """Return the size of zram in front of the drives or the file: the areas with the higher priority."""
        swap, areas = self._arm["swap"], self._arm["areas"] if self._arm["tuned"] else []
        if not swap.get("zram_first"):
            return 0.0
        return float(sum(area["size_bytes"] for area in areas if area["priority"] > swap["priority"]))

    @property
    def _pool(self) -> float:
        """The bytes that zswap's pool may take under this profile."""
        if self._given_pool is not None:
            return self._given_pool
        place = "/sys/module/zswap/parameters/"
        if self._arm["sysfs"].get(place + "enabled") is not True:
            return 0.0
        percent = in_percent(str(self._arm["sysfs"].get(place + "max_pool_percent") or 20), self.total)
        return float(percent) / 100 * self.total

    def with_pool(self, pool: float) -> HostMemory:
        """Return the same memory with another limit of zswap's pool, in bytes."""
        other = copy.copy(self)
        other._given_pool = pool
        return other

    def refusals(self, vms: int, vm_memory: int) -> list[str]:
        """Explain why the role vm_fleet would not admit this many VMs on this machine."""
        size = self.total
        if self._budget:
            size = size_in_bytes("host_tuning_dram_budget.size", self._budget["size"], self.total)
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
            Demand(vms, 0, vm_memory, OVERHEAD, 1, 0, 0, ""),
        )
        return [f"{self.name}: {text}" for text in refused]

    def levels(self, needs: float) -> list[Level]:
        """Return the levels that hold the fleet's pages, the fastest first.

        Raises:
            DoesNotFit: all levels together are too small, or the profile cannot be applied.
        """
        if self._arm["refused"]:
            raise DoesNotFit(f"{self.name} refuses the profile's swap: {self._arm['refused']}")
        # Without a tier kswapd finds nothing to reclaim, so what it would keep free is the fleet's, too.
        tierless = self.kind == "none" or not self.capacity
        dram = self.dram + (self._free if tierless and not self._budget else 0)
        if needs <= dram:
            return [Level("dram", needs)]
        beyond = needs - self.dram
        if tierless:
            raise DoesNotFit(
                f"{self.name}: the fleet needs {size_text(needs)}, "
                f"but has {size_text(dram)} of DRAM and no tier beyond it"
            )
        if self.kind == "zram":
            return self._with_zram(needs, beyond)
        if self.zram:
            return self._with_zram_first(needs, beyond)
        if beyond > self.capacity:
            raise DoesNotFit(
                f"{self.name}: the fleet needs {size_text(needs)}, but has {size_text(self.dram)} of DRAM "
                f"and {size_text(self.capacity)} of {self.kind}"
            )
        if self.kind == "zswap":
            return self._with_zswap(needs, beyond)
        return [Level("dram", self.dram), Level(self.kind, needs)]

    def _with_zram(self, needs: float, beyond: float) -> list[Level]:
        """Compressed pages take the fleet's own DRAM; a budget by control group means the charged DRAM, too."""
        if self.ratio >= 1:
            raise DoesNotFit(
                f"{self.name}: the fleet needs {size_text(needs)}, but has {size_text(self.dram)} of DRAM, "
                "and zram adds nothing because these values do not compress "
                f"(latency_benchmark_compressibility {self._load['compressibility']:g})"
            )
        stored = beyond / (1 - self.ratio)
        if stored > min(needs, self.capacity):
            raise DoesNotFit(
                f"{self.name}: zram would have to store {size_text(stored)} of {size_text(needs)}, "
                f"but holds {size_text(min(needs, self.capacity))}"
            )
        return [Level("dram", needs - stored), Level("zram", needs)]

    def _with_zram_first(self, needs: float, beyond: float) -> list[Level]:
        """The kernel fills zram, whatever its pages compress to, and writes to the tier behind it what is left."""
        zram = min(self.zram, self.dram / self.ratio, beyond / (1 - self.ratio) if self.ratio < 1 else self.zram)
        resident = self.dram - zram * self.ratio
        left, capacity = needs - resident - zram, self.capacity - self.zram
        if left > capacity:
            raise DoesNotFit(
                f"{self.name}: the fleet needs {size_text(needs)}, but has {size_text(resident)} of DRAM, "
                f"{size_text(zram)} of zram and {size_text(capacity)} of {self.kind}"
            )
        return [Level("dram", resident), Level("zram", min(needs, resident + zram)), Level(self.kind, needs)]

    def _with_zswap(self, needs: float, beyond: float) -> list[Level]:
        pool = min(self._pool, self.dram, beyond / (1 - self.ratio) * self.ratio)
        resident = self.dram - pool
        return [
            Level("dram", resident),
            Level("zswap", min(needs, resident + pool / self.ratio)),
            Level(self._arm["swap"]["kind"], needs),
        ]

    def cpu_seconds(self, page_ins: float) -> float:
        """Return the CPU time of one VM's client and Redis per second."""
        pacing = self._load["pacing"]
        spin = 1e6 / self._load["rate"] if pacing == "spin" else SPIN_US if pacing == "hybrid" else 0
        # A page-in from compressed memory costs CPU time; one from a drive costs little.
        return min(2.0, self._load["rate"] * (REQUEST_CPU_US + spin + 5 * page_ins) / 1e6)


def compression(load: t.Mapping[str, t.Any]) -> float:
    """Return the compressed size of a page of values as a share; 1 if it would be stored uncompressed."""
    random_part = (1 - load["compressibility"]) * load["value_size"] / value_bytes(load["value_size"])
    return 1.0 if random_part > INCOMPRESSIBLE else random_part + COMPRESSION_OVERHEAD
