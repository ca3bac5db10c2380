# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a study of N VMs under some profiles will come to, before anything is touched: does it fit, what pages in, can it meet the SLO, how long.

Everything here is arithmetic on what the hosts said about themselves; docs/plan.md gives the assumptions and how far they were off when measured.
"""

from __future__ import annotations

import functools
import math
import random
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    SettingError,
    number,
    size_in_bytes,
    size_text,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.access_model import (
    AccessModel,
    data_bytes,
    moved_share,
    value_bytes,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.options import FIGURES
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA

# What it takes to bring one page back, in microseconds. Examples of hardware of today, to be replaced by what was measured on the host's own.
TIERS: dict[str, dict[str, float | None]] = {
    "devices": {"avg_us": 90, "p99_us": 400, "page_ins_per_second": None},
    "file": {"avg_us": 90, "p99_us": 400, "page_ins_per_second": None},
    "zram": {"avg_us": 15, "p99_us": 120, "page_ins_per_second": None},
    "zswap": {"avg_us": 15, "p99_us": 120, "page_ins_per_second": None},
    "memory_node": {"avg_us": 2, "p99_us": 5, "page_ins_per_second": None},
}
BASE = {"avg_us": 25, "p99_us": 60}

# A page that compresses to more than this share is kept as it is (zsmalloc's largest class below a page).
INCOMPRESSIBLE = 0.8
# CPU time of a request, client and Redis together, and the client's spin before each in the pacing hybrid (docs/bench/client.md, defaults).
REQUEST_CPU_US, SPIN_US = 25, 40
CPU_WARNING = 0.75
SAMPLES = 4_000
LARGEST = 100_000

MEETS, MISSES, NO_FIT, UNKNOWN = "meets", "misses", "does not fit", "unknown"


class Level(t.NamedTuple):
    """Memory of one kind: so many bytes of the fleet's pages are there or in a faster level."""

    kind: str
    upto_bytes: float


class DoesNotFit(Exception):
    """The fleet does not fit; the text says what is missing."""


def tiers(option: str, given: t.Mapping[str, t.Any]) -> dict[str, dict[str, float | None]]:
    """Return TIERS with what the user gave; a p99 that is not given is four times the average.

    Raises:
        SettingError: an unknown kind or figure, or a number out of range.
    """
    found = {kind: dict(figures) for kind, figures in TIERS.items()}
    for kind, figures in given.items():
        if kind not in TIERS:
            raise SettingError(f"{option}: {kind!r} is not a tier; it takes {', '.join(TIERS)}")
        if not isinstance(figures, dict) or not figures or set(figures) - set(TIERS[kind]):
            raise SettingError(
                f"{option}.{kind}: {figures!r} is not allowed; it takes a dictionary with {', '.join(TIERS[kind])}"
            )
        checked = {name: number(f"{option}.{kind}.{name}", value, FIGURES[name]) for name, value in figures.items()}
        if "avg_us" in checked:
            checked.setdefault("p99_us", 4 * checked["avg_us"])
        found[kind].update(checked)
        if found[kind]["p99_us"] < found[kind]["avg_us"]:
            raise SettingError(
                f"{option}.{kind}: p99_us {found[kind]['p99_us']:g} is below avg_us {found[kind]['avg_us']:g}"
            )
    return found


def make(
    config: t.Mapping[str, t.Any],
    phases: t.Sequence[t.Mapping[str, t.Any]],
    machines: t.Mapping[str, t.Mapping[str, t.Any]],
    options: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """Return the plan, which docs/plan.md explains.

    Args:
        config: of a run, as configuration.checked() returns it.
        phases: of a run.
        machines: for each host that carries VMs its C(record) (host_memory_info) and C(arms): by profile C(tuned), C(swap), C(areas), C(refused), C(needs),
            C(sysctl), C(sysfs), C(dram_budget).
        options: fleet_sizes, tiers, base, overhead, overhead_used, host_reserve, rounds, phase_overhead_seconds, run_overhead_seconds.

    Raises:
        SettingError: a size that is none.
    """
    profiles = list(next(iter(machines.values()))["arms"])
    arms = {profile: _Arm(profile, config, machines, options) for profile in profiles}
    return {
        "schema": SCHEMA,
        "load": config["load"],
        "slo": config["slo"],
        "machines": {
            name: {"dram_bytes": each["record"]["memory"]["total_bytes"], "cpus": each["record"]["cpu"]["online"]}
            for name, each in machines.items()
        },
        "vm_bytes": round(next(iter(arms.values())).vm_bytes),
        "fleets": [arm.fleet(size) for arm in arms.values() for size in options["fleet_sizes"]],
        "largest": {profile: arm.largest() for profile, arm in arms.items()},
        "duration": _duration(phases, len(profiles), options),
        "notes": sorted({note for arm in arms.values() for note in arm.notes}),
    }


def _duration(
    phases: t.Sequence[t.Mapping[str, t.Any]], profiles: int, options: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    run = (
        sum(phase["seconds"] + options["phase_overhead_seconds"] for phase in phases) + options["run_overhead_seconds"]
    )
    runs = profiles * options["rounds"] * len(options["fleet_sizes"])
    return {"phases": len(phases), "run_seconds": round(run), "runs": runs, "seconds": round(run * runs)}


class _Arm:
    """One profile on all machines, the fleet spread over them evenly."""

    def __init__(
        self,
        profile: str,
        config: t.Mapping[str, t.Any],
        machines: t.Mapping[str, t.Mapping[str, t.Any]],
        options: t.Mapping[str, t.Any],
    ) -> None:
        self.profile, self.config, self.options = profile, config, options
        load = config["load"]
        self.data = data_bytes(load["key_count"], load["value_size"])
        self.vm_bytes = self.data + options["overhead"]
        self.hosts = [
            _Host(name, each["record"], each["arms"][profile], load, options) for name, each in machines.items()
        ]
        self.notes = [note for host in self.hosts for note in host.notes]
        self._models = _models(config)

    def fleet(self, size: int) -> dict[str, t.Any]:
        """Return what is expected of a fleet of that size, judged by the machine that is worst off."""
        found = [self._on(host, math.ceil(size / len(self.hosts))) for host in self.hosts]
        worst = max(
            found, key=lambda each: (each["verdict"] == NO_FIT, each["verdict"] == MISSES, each["page_ins_per_second"])
        )
        return {"profile": self.profile, "size": size, **worst}

    def largest(self) -> int | None:
        """Return the largest fleet that fits and meets the SLO; None if nobody can tell, or if there is no end to it."""

        def good(size: int) -> bool:
            return self.fleet(size)["verdict"] == MEETS

        if self.fleet(1)["verdict"] == UNKNOWN:
            return None
        low, high = 0, 1
        while good(high):
            low, high = high, 2 * high
            if high > LARGEST:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if good(middle) else (low, middle)
        return low

    def _on(self, host: _Host, size: int) -> dict[str, t.Any]:
        needs = size * self.vm_bytes
        answer: dict[str, t.Any] = {
            "machine": host.name,
            "on_machine": size,
            "needs_bytes": round(needs),
            "dram_bytes": round(host.dram),
            "tier": host.kind,
            "tier_bytes": round(host.capacity),
            "cpus_needed": None,
            "page_ins_per_second": 0.0,
            "cells": [],
            "warnings": [],
            "reasons": [],
        }
        if host.opaque:
            return {**answer, "verdict": UNKNOWN, "reasons": [host.opaque]}
        try:
            levels = host.levels(needs)
        except DoesNotFit as error:
            return {**answer, "verdict": NO_FIT, "reasons": [str(error)]}
        cells = [self._cell(cell, model, size, levels) for cell, model in self._models]
        cpus = size * host.cpu_seconds(max(cell["page_ins_per_request"] for cell in cells))
        answer.update(
            cells=cells,
            cpus_needed=round(cpus, 2),
            page_ins_per_second=max(cell["page_ins_per_second"] for cell in cells),
        )
        if cpus > host.cpus:
            return {
                **answer,
                "verdict": NO_FIT,
                "reasons": [f"clients and Redis take about {cpus:.1f} CPUs, {host.name} has {host.cpus}"],
            }
        if cpus > CPU_WARNING * host.cpus:
            answer["warnings"].append(
                f"clients and Redis take about {cpus:.1f} of {host.cpus} CPUs: expect latency from that alone"
            )
        reasons = [reason for cell in cells for reason in cell["reasons"]]
        return {**answer, "verdict": MISSES if reasons else MEETS, "reasons": reasons}

    def _cell(
        self, cell: t.Mapping[str, t.Any], model: AccessModel, size: int, levels: t.Sequence[Level]
    ) -> dict[str, t.Any]:
        """Return what is expected of one cell: each level takes the requests that the faster ones do not answer."""
        used = self.options["overhead_used"]
        beyond = [model.hits(level.upto_bytes / size - used) for level in levels[:-1]]
        misses = [each.misses for each in beyond] + [0.0]
        shares = [
            (
                levels[number + 1].kind,
                beyond[number].waiting - (beyond[number + 1].waiting if number + 1 < len(beyond) else 0.0),
            )
            for number in range(len(beyond))
        ]
        rate, slo = self.config["load"]["rate"], self.config["slo"]
        estimate = latency(
            self.options["base"], tuple((share, *self._figures(kind)) for kind, share in shares if share > 0), rate
        )
        per_second = [
            (levels[number + 1].kind, size * rate * (misses[number] - misses[number + 1]))
            for number in range(len(beyond))
        ]
        reasons = []
        where = f"influence {cell['influence']:g}, {cell['read_mix']:g} % GET"
        for kind, wanted in per_second:
            limit = self.options["tiers"][kind]["page_ins_per_second"]
            if limit is not None and wanted > limit:
                reasons.append(f"{where}: {wanted:,.0f} page-ins a second, {kind} gives {limit:,.0f}")
        if estimate["busy"] >= 1:
            reasons.append(
                f"{where}: a request takes {estimate['service_us']:,.0f} us, {rate:g} a second leave {1e6 / rate:,.0f} us for each"
            )
        elif estimate["avg_us"] > slo["avg_us"] or estimate["p99_us"] > slo["p99_us"]:
            reasons.append(f"{where}: expected average {estimate['avg_us']:,.0f} us, p99 {estimate['p99_us']:,.0f} us")
        return {
            "influence": cell["influence"],
            "read_mix": cell["read_mix"],
            "hit_rate": round(1 - (beyond[0].waiting if beyond else 0), 4),
            "hit_rate_at_best": round(1 - min(1.0, beyond[0].best if beyond else 0), 4),
            "page_ins_per_request": round(misses[0], 4),
            "page_ins_per_second": round(sum(wanted for dummy, wanted in per_second), 1),
            "waiting_share": {kind: round(share, 4) for kind, share in shares},
            **{name: estimate[name] for name in ("avg_us", "p99_us", "busy")},
            "meets_slo": not reasons,
            "reasons": reasons,
        }

    def _figures(self, kind: str) -> tuple[float, float]:
        tier = self.options["tiers"][kind]
        return tier["avg_us"], tier["p99_us"]


def _models(config: t.Mapping[str, t.Any]) -> list[tuple[dict[str, t.Any], AccessModel]]:
    """Return each cell with its model; SETs of the cells before, and half of its own, have moved keys to other pages."""
    load, matrix = config["load"], config["matrix"]
    found, sets = [], 0.0
    for influence in matrix["influences"]:
        for read_mix in matrix["read_mixes"]:
            # floor(100 V) > READ_MIX, as the client has it
            own = (matrix["warmups"] + matrix["iterations"]) * load["requests"] * max(0, 99 - read_mix) / 100
            cell = {"influence": influence, "read_mix": read_mix}
            found.append((cell, AccessModel(load, influence, moved_share(sets + own / 2, load["key_count"]))))
            sets += own
    return found


class _Host:
    """A machine under one profile.

    Attributes:
        dram: bytes of DRAM that the fleet may have.
        kind: of the memory beyond it.
        capacity: bytes of the fleet's pages that go there.
        opaque: why nothing can be said, or an empty text.
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
        self._total = record["memory"]["total_bytes"]
        self._reserve = size_in_bytes("density_plan_host_reserve", options["host_reserve"], self._total)
        self.notes: list[str] = (
            []
            if arm["tuned"]
            else [f"{name} is not tuned, so every profile is the same there: it is planned with the swap that it has"]
        )
        nodes = sum(node["total_bytes"] or 0 for node in record["numa"]["nodes"] if node["memory_only"])
        self._budget = arm["dram_budget"]
        self.dram = self._fleets_dram(record, nodes)
        self.ratio = compression(load)
        self.kind, self.capacity = self._beyond(record, nodes)
        self.opaque = ""
        if "memory_only_node" in arm["needs"] and not nodes:
            self.notes.append(
                f"{name} has no NUMA node without processors, such as CXL memory, which this profile needs"
            )
        if "imdt" in arm["needs"]:
            if record["imdt"]["detected"]:
                self.opaque = (
                    f"{name} runs on IMDT, which shows drives as memory: how much of it is DRAM cannot be seen"
                )
            else:
                self.notes.append(f"IMDT not detected: {name} runs natively, and this profile is DRAM alone")

    def _fleets_dram(self, record: t.Mapping[str, t.Any], nodes: int) -> float:
        """The DRAM budget, or what the kernel's watermarks and the host's own programs leave."""
        scale = (
            self._arm["sysctl"].get("vm.watermark_scale_factor") or record["sysctl"]["vm.watermark_scale_factor"] or 10
        )
        # kswapd stops at twice the factor and begins at it (admin-guide/sysctl/vm.rst): between the two is what is free in the long run.
        free = self._total * 1.5 * scale / 10_000
        room = self._total - nodes - self._reserve - free
        if not self._budget:
            return max(0.0, room)
        size = size_in_bytes("host_tuning_dram_budget.size", self._budget["size"], self._total)
        if self._in_cgroup:
            return float(min(size, room))
        return max(0.0, min(size, self._total) - self._reserve - free)

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
                "zswap: these values do not compress (latency_benchmark_compressibility), so what does not fit goes to the drives"
            )
        return kind, float(sum(areas))

    @property
    def _pool(self) -> float:
        """The share of memory that zswap may have under this profile."""
        place = "/sys/module/zswap/parameters/"
        if self._arm["sysfs"].get(place + "enabled") is not True:
            return 0.0
        return float(self._arm["sysfs"].get(place + "max_pool_percent") or 20) / 100

    def levels(self, needs: float) -> list[Level]:
        """Return where the fleet's pages are, from the fastest to the slowest level.

        Raises:
            DoesNotFit: they are more than all levels hold, or the profile cannot be applied.
        """
        if self._arm["refused"]:
            raise DoesNotFit(f"{self.name} refuses the profile's swap: {self._arm['refused']}")
        if needs <= self.dram:
            return [Level("dram", needs)]
        beyond = needs - self.dram
        if self.kind == "none" or not self.capacity:
            raise DoesNotFit(
                f"{self.name}: the fleet takes {size_text(needs)}, and there are {size_text(self.dram)} of DRAM for it, nothing beyond"
            )
        if self.kind == "zram":
            return self._with_zram(needs, beyond)
        if beyond > self.capacity:
            raise DoesNotFit(
                f"{self.name}: the fleet takes {size_text(needs)}; DRAM has {size_text(self.dram)} for it, {self.kind} {size_text(self.capacity)}"
            )
        if self.kind == "zswap":
            return self._with_zswap(needs, beyond)
        return [Level("dram", self.dram), Level(self.kind, needs)]

    def _with_zram(self, needs: float, beyond: float) -> list[Level]:
        """What is compressed takes DRAM too: of the fleet's own, unless a control group caps that and zram lies outside of it."""
        if self._in_cgroup:
            stored, outside = beyond, self._total - self.dram - self._reserve
            if stored * self.ratio > outside:
                raise DoesNotFit(
                    f"{self.name}: zram would take {size_text(stored * self.ratio)} of the host's memory, {size_text(outside)} are there"
                )
        elif self.ratio >= 1:
            raise DoesNotFit(
                f"{self.name}: the fleet takes {size_text(needs)}, DRAM has {size_text(self.dram)}, and zram adds nothing since these values do not compress "
                f"(latency_benchmark_compressibility {self._load['compressibility']:g})"
            )
        else:
            stored = beyond / (1 - self.ratio)
        if stored > min(needs, self.capacity):
            raise DoesNotFit(
                f"{self.name}: zram would have to store {size_text(stored)} of {size_text(needs)}, it takes {size_text(min(needs, self.capacity))}"
            )
        return [Level("dram", needs - stored), Level("zram", needs)]

    def _with_zswap(self, needs: float, beyond: float) -> list[Level]:
        pool = min(self._pool * self._total, self.dram, beyond / (1 - self.ratio) * self.ratio)
        resident = self.dram - pool
        return [
            Level("dram", resident),
            Level("zswap", min(needs, resident + pool / self.ratio)),
            Level(self._arm["swap"]["kind"], needs),
        ]

    def cpu_seconds(self, page_ins: float) -> float:
        """Return the CPU time that one VM's client and Redis take in a second."""
        pacing = self._load["pacing"]
        spin = 1e6 / self._load["rate"] if pacing == "spin" else SPIN_US if pacing == "hybrid" else 0
        # A page-in from compressed memory is CPU time, from a drive little.
        return min(2.0, self._load["rate"] * (REQUEST_CPU_US + spin + 5 * page_ins) / 1e6)


def compression(load: t.Mapping[str, t.Any]) -> float:
    """Return the share of a page of values that is left after compression; 1 if it would be kept as it is."""
    random_part = (1 - load["compressibility"]) * load["value_size"] / value_bytes(load["value_size"])
    return 1.0 if random_part > INCOMPRESSIBLE else random_part + 0.03


def latency(
    base: t.Mapping[str, float], waits: tuple[tuple[float, float, float], ...], rate: float
) -> dict[str, float]:
    """Return the expected response time of one VM's requests.

    Requests come at a steady rate and are answered one after another; each takes the base and, with a probability, the time of a tier, both lognormal. The
    queue is simulated with fixed random numbers.

    Args:
        base: avg_us and p99_us of a request whose pages are all in DRAM.
        waits: for each tier its share of the requests, avg_us and p99_us.
        rate: requests a second.

    Returns:
        C(avg_us) and C(p99_us) of the response time, C(service_us), and C(busy): the share of the time in which a request is in service. With 1 and more the
        queue grows without end, and the two are None.
    """
    service = base["avg_us"] + sum(share * average for share, average, dummy in waits)
    busy = service * rate / 1e6
    if busy >= 1:
        return {"avg_us": None, "p99_us": None, "service_us": service, "busy": round(busy, 3)}
    times, queue, interval = [], 0.0, 1e6 / rate
    tiers_times = [(share, _times(average, p99, 1)) for share, average, p99 in waits]
    for sample, (took, drawn) in enumerate(zip(_times(base["avg_us"], base["p99_us"], 0), _draws(2))):
        for share, tier_times in tiers_times:
            if drawn < share:
                took += tier_times[sample]
                break
            drawn -= share
        took += queue
        times.append(took)
        queue = took - interval if took > interval else 0.0
    times.sort()
    return {
        "avg_us": round(sum(times) / SAMPLES, 1),
        "p99_us": round(times[math.ceil(0.99 * SAMPLES) - 1], 1),
        "service_us": service,
        "busy": round(busy, 3),
    }


@functools.lru_cache(maxsize=64)
def _times(average: float, p99: float, seed: int) -> list[float]:
    """Return SAMPLES times of a lognormal distribution."""
    mu, sigma = lognormal(average, p99)
    chance = random.Random(seed)
    return [math.exp(mu + sigma * chance.gauss(0, 1)) for dummy in range(SAMPLES)]


@functools.lru_cache(maxsize=1)
def _draws(seed: int) -> list[float]:
    """Return SAMPLES numbers from 0 to 1."""
    chance = random.Random(seed)
    return [chance.random() for dummy in range(SAMPLES)]


def lognormal(average: float, p99: float) -> tuple[float, float]:
    """Return mu and sigma of the lognormal distribution with that average and 99th percentile."""
    z = 2.3263478740408408
    # p99 / average = exp(z sigma - sigma^2 / 2), which has its largest value at sigma = z.
    sigma = z - math.sqrt(max(0.0, z * z - 2 * math.log(max(1.0, p99 / average))))
    return math.log(average) - sigma * sigma / 2, sigma
