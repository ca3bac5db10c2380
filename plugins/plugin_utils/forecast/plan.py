# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: a forecast of a study of N VMs under some profiles. Whether they fit, page-ins, the SLO, the time.

Everything here is arithmetic on the records of the hosts. docs/plan.md has the assumptions and how far measurements
were off.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.settings import in_percent
from ansible_collections.memstretch.density.plugins.module_utils.options import (
    SettingError,
    number,
)
from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.access_model import (
    GUEST_SYSTEM_BYTES,
    AccessModel,
    Hits,
    data_bytes,
    moved_share,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.latency import latency
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.memory import DoesNotFit, HostMemory, Level
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.options import FIGURES
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA

# The time of a page-in, in microseconds. Examples of present hardware; replace them with measurements of your own.
TIERS: dict[str, dict[str, t.Any]] = {
    "devices": {"avg_us": 90, "p99_us": 400, "page_ins_per_second": None},
    "file": {"avg_us": 90, "p99_us": 400, "page_ins_per_second": None},
    "zram": {"avg_us": 15, "p99_us": 120, "page_ins_per_second": None},
    "zswap": {"avg_us": 15, "p99_us": 120, "page_ins_per_second": None},
    "memory_node": {"avg_us": 2, "p99_us": 5, "page_ins_per_second": None},
}
BASE = {"avg_us": 25, "p99_us": 60}

CPU_WARNING = 0.75
# The sizes of zswap's pool that are tried, as shares of the fleet's DRAM.
_POOL_SHARES = tuple(percent / 100 for percent in range(5, 100, 5))
LARGEST = 100_000

MEETS, MISSES, NO_FIT, UNKNOWN = "meets", "misses", "does not fit", "unknown"
# A fleet on several hosts has the verdict of the worst of them.
_WORST_LAST = (MEETS, UNKNOWN, MISSES, NO_FIT)


def tiers(option: str, given: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    """Return TIERS with the user's values; a missing p99 is four times the average.

    Raises:
        SettingError: unknown kind or figure, or a number out of range.
    """
    found = {kind: dict(figures) for kind, figures in TIERS.items()}
    for kind, figures in given.items():
        if kind not in TIERS:
            raise SettingError(f"{option}: {kind!r} is not a tier; it must be one of {', '.join(TIERS)}")
        if not isinstance(figures, dict) or not figures or set(figures) - set(TIERS[kind]):
            raise SettingError(
                f"{option}.{kind}: {figures!r} is not allowed; it must be a dictionary with {', '.join(TIERS[kind])}"
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
    """Return the plan; docs/plan.md explains it.

    Args:
        config: of a run, from configuration.checked().
        phases: of a run.
        machines: for each host that carries VMs its C(record) (host_memory_info) and C(arms): by profile C(tuned),
            C(swap), C(areas), C(refused), C(needs), C(sysctl), C(sysfs), C(dram_budget).
        options: fleet_sizes, tiers, base, vm_memory (None unless they are VMs), server_bytes (the DRAM of a Redis as
            a run measured it, or None), overhead, overhead_used, host_reserve, rounds, phase_overhead_seconds,
            run_overhead_seconds.

    Raises:
        SettingError: a size cannot be parsed.
    """
    forecasts = arms(config, machines, options)
    fleets = [arm.fleet(size) for arm in forecasts.values() for size in options["fleet_sizes"]]
    kinds = {kind for fleet in fleets for cell in fleet["cells"] for kind in cell["waiting_share"]}
    return {
        "schema": SCHEMA,
        "load": config["load"],
        "slo": config["slo"],
        "machines": {
            name: {"dram_bytes": each["record"]["memory"]["total_bytes"], "cpus": each["record"]["cpu"]["online"]}
            for name, each in machines.items()
        },
        "vm_bytes": round(next(iter(forecasts.values())).vm_bytes),
        "vm_bytes_measured": bool(options["server_bytes"] and not options["vm_memory"]),
        "base": {**options["base"], "example": any(options["base"][name] == BASE[name] for name in BASE)},
        "tiers": {
            # A given average replaces the example's p99, too.
            kind: {**figures, "example": figures["avg_us"] == TIERS[kind]["avg_us"]}
            for kind, figures in options["tiers"].items()
            if kind in kinds
        },
        "fleets": fleets,
        "pools": [arm.pool(size) for arm in forecasts.values() for size in options["fleet_sizes"] if arm.has_pool],
        "largest": {profile: arm.largest() for profile, arm in forecasts.items()},
        "duration": _duration(phases, len(forecasts), options),
        "notes": sorted({note for arm in forecasts.values() for note in arm.notes}),
    }


def arms(
    config: t.Mapping[str, t.Any],
    machines: t.Mapping[str, t.Mapping[str, t.Any]],
    options: t.Mapping[str, t.Any],
) -> dict[str, ArmForecast]:
    """Return the forecast of each profile. The arguments are those of make()."""
    profiles = next(iter(machines.values()))["arms"]
    return {profile: ArmForecast(profile, config, machines, options) for profile in profiles}


def _duration(
    phases: t.Sequence[t.Mapping[str, t.Any]], profiles: int, options: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    run = (
        sum(phase["seconds"] + options["phase_overhead_seconds"] for phase in phases) + options["run_overhead_seconds"]
    )
    runs = profiles * options["rounds"] * len(options["fleet_sizes"])
    return {"phases": len(phases), "run_seconds": round(run), "runs": runs, "seconds": round(run * runs)}


class CellDemand(t.NamedTuple):
    """What one cell demands of the tiers beyond DRAM.

    Attributes:
        cell: influence and read_mix.
        waiting: the share of the requests that wait for each kind of tier.
        page_ins: page-ins per second of all VMs, by kind.
        misses: page-ins per request.
        hits: how often a request finds its pages in DRAM; None if all pages are there.
    """

    cell: t.Mapping[str, t.Any]
    waiting: dict[str, float]
    page_ins: dict[str, float]
    misses: float
    hits: Hits | None

    @property
    def name(self) -> str:
        """The cell, for sentences."""
        return f"influence {self.cell['influence']:g}, {self.cell['read_mix']:g} % GET"


class ArmForecast:
    """The forecast for one profile; the fleet is spread evenly over all machines."""

    def __init__(
        self,
        profile: str,
        config: t.Mapping[str, t.Any],
        machines: t.Mapping[str, t.Mapping[str, t.Any]],
        options: t.Mapping[str, t.Any],
    ) -> None:
        self.profile, self.config, self.options = profile, config, options
        load = config["load"]
        self.vm_memory = options["vm_memory"]
        # A VM takes its whole memory sooner or later, since its kernel uses what is left for files.
        server = options["server_bytes"] or data_bytes(load["key_count"], load["value_size"]) + options["overhead"]
        self.vm_bytes = self.vm_memory + OVERHEAD if self.vm_memory else server
        self._used = max(options["overhead_used"], GUEST_SYSTEM_BYTES if self.vm_memory else 0)
        self.hosts = [
            HostMemory(name, each["record"], each["arms"][profile], load, options) for name, each in machines.items()
        ]
        self.notes = [note for host in self.hosts for note in host.notes]
        self._models = _models(config)

    def fleet(self, size: int) -> dict[str, t.Any]:
        """Return the forecast for a fleet of this size, on the machine with the worst figures."""
        found = [self._on(host, math.ceil(size / len(self.hosts))) for host in self.hosts]
        worst = max(found, key=lambda each: (_WORST_LAST.index(each["verdict"]), each["page_ins_per_second"]))
        return {"profile": self.profile, "size": size, **worst}

    @property
    def has_pool(self) -> bool:
        """Whether zswap holds pages under this profile."""
        return any(host.kind == "zswap" for host in self.hosts)

    def pool(self, size: int) -> dict[str, t.Any]:
        """Return the size of zswap's pool with which a fleet comes closest to its SLO, or stays furthest below it.

        A larger pool keeps more pages from the drives, and takes the DRAM of those that requests use right now.

        Returns:
            C(profile), C(size), C(machine) (the one with the least DRAM), C(bytes) and C(percent) of its memory, both
            None if the fleet needs no pool, because it fits into DRAM, or if none is enough.
        """
        on_machine = math.ceil(size / len(self.hosts))
        host = min((host for host in self.hosts if host.kind == "zswap"), key=lambda each: each.dram)
        best: tuple[float, float] | None = None
        for share in _POOL_SHARES:
            distance = self._distance(host.with_pool(share * host.dram), on_machine)
            if distance < (best[0] if best else math.inf):
                best = (distance, share)
        size_of_pool = None if best is None or on_machine * self.vm_bytes <= host.dram else best[1] * host.dram
        return {
            "profile": self.profile,
            "size": size,
            "machine": host.name,
            "bytes": size_of_pool and round(size_of_pool),
            "percent": size_of_pool and int(in_percent(f"{{percent:{round(size_of_pool)}}}", host.total)),
        }

    def _distance(self, host: HostMemory, size: int) -> float:
        """Compute how far the worst cell is from the SLO, as a multiple of it; infinity if the fleet does not fit."""
        try:
            found = [self.latency(demand, self.options["tiers"]) for demand in self.demands(host, size)]
        except DoesNotFit:
            return math.inf
        slo = self.config["slo"]
        return max(
            math.inf if each["busy"] >= 1 else max(each[name] / slo[name] for name in ("avg_us", "p99_us"))
            for each in found
        )

    def largest(self) -> int | None:
        """Return the largest fleet that fits and meets the SLO; None if that is unknown or unlimited."""

        def good(size: int) -> bool:
            return self.fleet(size)["verdict"] == MEETS

        if self.fleet(len(self.hosts))["verdict"] == UNKNOWN:
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

    def _on(self, host: HostMemory, size: int) -> dict[str, t.Any]:
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
        refused = host.refusals(size, self.vm_memory) if self.vm_memory else []
        if refused:
            return {**answer, "verdict": NO_FIT, "reasons": refused}
        if host.unknown:
            return {**answer, "verdict": UNKNOWN, "reasons": [host.unknown]}
        try:
            cells = [self._judged(demand) for demand in self.demands(host, size)]
        except DoesNotFit as error:
            return {**answer, "verdict": NO_FIT, "reasons": [str(error)]}
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

    def demands(self, host: HostMemory, size: int) -> list[CellDemand]:
        """Compute what this many VMs on a host demand of its tiers, cell by cell.

        Raises:
            DoesNotFit: see HostMemory.levels().
        """
        levels = host.levels(size * self.vm_bytes)
        return [self._demand(cell, model, size, levels) for cell, model in self._models]

    def _demand(
        self, cell: t.Mapping[str, t.Any], model: AccessModel, size: int, levels: t.Sequence[Level]
    ) -> CellDemand:
        """Return the demand of one cell: each level serves the requests that the faster levels do not."""
        beyond = [model.hits(level.upto_bytes / size - self._used) for level in levels[:-1]]
        misses = [each.misses for each in beyond] + [0.0]
        waiting = [each.waiting for each in beyond] + [0.0]
        rate, kinds = self.config["load"]["rate"], [level.kind for level in levels[1:]]
        return CellDemand(
            cell,
            {kind: waiting[number] - waiting[number + 1] for number, kind in enumerate(kinds)},
            {kind: size * rate * (misses[number] - misses[number + 1]) for number, kind in enumerate(kinds)},
            misses[0],
            beyond[0] if beyond else None,
        )

    def latency(self, demand: CellDemand, tiers: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
        """Forecast a cell with these tiers, as latency() expects it."""
        waits = tuple(
            (share, tiers[kind]["avg_us"], tiers[kind]["p99_us"]) for kind, share in demand.waiting.items() if share > 0
        )
        return latency(self.options["base"], waits, self.config["load"]["rate"])

    def meets_slo(self, estimate: t.Mapping[str, t.Any]) -> bool:
        """Decide whether what latency() returned is within the SLO."""
        slo = self.config["slo"]
        return estimate["busy"] < 1 and estimate["avg_us"] <= slo["avg_us"] and estimate["p99_us"] <= slo["p99_us"]

    def _judged(self, demand: CellDemand) -> dict[str, t.Any]:
        """Return the forecast of one cell."""
        rate, estimate = self.config["load"]["rate"], self.latency(demand, self.options["tiers"])
        reasons = []
        where = demand.name
        for kind, wanted in demand.page_ins.items():
            limit = self.options["tiers"][kind]["page_ins_per_second"]
            if limit is not None and wanted > limit:
                reasons.append(f"{where}: {wanted:,.0f} page-ins per second, but {kind} can do {limit:,.0f}")
        if estimate["busy"] >= 1:
            reasons.append(
                f"{where}: a request takes {estimate['service_us']:,.0f} us, "
                f"but {rate:g} per second leave {1e6 / rate:,.0f} us for each"
            )
        elif not self.meets_slo(estimate):
            reasons.append(f"{where}: expected average {estimate['avg_us']:,.0f} us, p99 {estimate['p99_us']:,.0f} us")
        hits = demand.hits
        return {
            "influence": demand.cell["influence"],
            "read_mix": demand.cell["read_mix"],
            "hit_rate": round(1 - (hits.waiting if hits else 0), 4),
            "hit_rate_at_best": round(1 - min(1.0, hits.best if hits else 0), 4),
            "page_ins_per_request": round(demand.misses, 4),
            "page_ins_per_second": round(sum(demand.page_ins.values()), 1),
            "waiting_share": {kind: round(share, 4) for kind, share in demand.waiting.items()},
            **{name: estimate[name] for name in ("avg_us", "p99_us", "busy")},
            "meets_slo": not reasons,
            "reasons": reasons,
        }


def _models(config: t.Mapping[str, t.Any]) -> list[tuple[dict[str, t.Any], AccessModel]]:
    """Return each cell with its model. The SETs of earlier cells, and half of its own, have moved keys to other
    pages."""
    load, matrix = config["load"], config["matrix"]
    found, sets = [], 0.0
    for influence in matrix["influences"]:
        for read_mix in matrix["read_mixes"]:
            # floor(100 V) > READ_MIX, as in the client
            own = (matrix["warmups"] + matrix["iterations"]) * load["requests"] * max(0, 99 - read_mix) / 100
            cell = {"influence": influence, "read_mix": read_mix}
            found.append((cell, AccessModel(load, influence, moved_share(sets + own / 2, load["key_count"]))))
            sets += own
    return found
