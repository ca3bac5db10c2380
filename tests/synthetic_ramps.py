# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of ramps whose density is known, as the conductors write them."""

from __future__ import annotations

import math
import random
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram, encode

RATE, SECONDS = 50, 4
REQUESTS = RATE * SECONDS
IDLE_US = 60.0
_TICK = 3000

Shape = t.Callable[[int], float]


def load(chance: random.Random, times: float = 1.0, slow: float = 0.0) -> dict[str, t.Any]:
    """Return a host's window: an exponential tail above a minimum, so many times as slow as idle DRAM.

    Args:
        slow: share of the requests that take 50 ms.
    """
    values = [
        round(1000 * IDLE_US * times * (0.6 + 0.4 * chance.expovariate(1))) if chance.random() >= slow else 50_000_000
        for _number in range(REQUESTS)
    ]
    lower = [value - min(_TICK, value // 50) for value in values]
    each = [values[second::SECONDS] for second in range(SECONDS)]
    below = [lower[second::SECONDS] for second in range(SECONDS)]
    upper = _encoded(values)
    return {
        "upper": upper,
        "lower": _encoded(lower),
        "punctual": dict(upper),
        "lost": 0,
        "seconds": [[len(a), sum(a), sum(b)] for a, b in zip(each, below)],
    }


def _encoded(values: t.Sequence[int]) -> dict[str, t.Any]:
    found = Histogram.from_values(values)
    return {
        "count": found.count,
        "sum_ns": found.sum_ns,
        "min_ns": found.min_ns,
        "max_ns": found.max_ns,
        "histogram": encode(found.counts),
    }


def ramp(
    arm: str,
    number: int,
    sizes: t.Iterable[int],
    fleet: Shape = lambda size: 1.0,
    references: Shape = lambda size: 1.0,
    wall: int | None = None,
    end: str = "hosts",
    count: int = 6,
    **changes: t.Any,
) -> dict[str, t.Any]:
    """Return a ramp.

    Args:
        sizes: of its windows.
        fleet, references: how many times as slow as idle DRAM they are at a size.
        wall: the size that does not fit.
        count: references.
        changes: C(stolen) by size, C(sick) by host the share of its slow requests, C(page_ins), C(drive_reads),
            C(drive_read_seconds), C(drive_written_bytes) and C(tier_cpu_seconds) of each window; C(kind) and
            C(tier) of the record.
    """
    chance = random.Random(f"{arm} {number}")
    looked = [size for size in sizes if wall is None or size < wall]
    hosts = [f"redis{place:02d}" for place in range(1, max(looked) + 2)]
    windows = []
    for size in looked:
        stolen = changes.get("stolen", {}).get(size, 0.0)
        windows.append(
            {
                "n": size,
                "kind": "step",
                "look": 1,
                "started_at": 1000.0 * number + size,
                "seconds": SECONDS,
                "join_seconds": 1.0,
                "settled": True,
                "settle_seconds": 1.0,
                "disturbed": None,
                "hosts": {
                    name: load(chance, fleet(size), changes.get("sick", {}).get(name, 0.0)) for name in hosts[:size]
                },
                "references": {f"reference{place}": load(chance, references(size)) for place in range(1, count + 1)},
                "machines": {
                    "this_machine": {
                        "cpus": 2,
                        "busy": 0.5,
                        "stolen": stolen / 2,
                        "stolen_worst": 2 * stolen,
                        "stolen_cpu": stolen,
                        "stolen_ticks": round(100 * SECONDS * stolen),
                        "charged_bytes": 256 * 2**20,
                        "tier_bytes": changes.get("tier_bytes", 0),
                        "swap_used_bytes": 0,
                        "swap_bytes": 2**31 if changes.get("tier") else None,
                        "page_ins": changes.get("page_ins", 0),
                        "page_outs": 0,
                        "memory_some_share": changes.get("memory_some_share"),
                        "tier_cpu_seconds": changes.get("tier_cpu_seconds", 0.0),
                        "drive_reads": changes.get("drive_reads", 0),
                        "drive_read_seconds": changes.get("drive_read_seconds", 0.0),
                        "drive_written_bytes": changes.get("drive_written_bytes", 0),
                        "other_swap_grew": False,
                        "limit_hits": None,
                    }
                },
            }
        )
    message = "Memory cgroup out of memory: Killed process 4711 (redis-server)"
    return {
        "schema": 1,
        "arm": arm,
        "round": number,
        "kind": changes.get("kind", "ramp"),
        "tier": changes.get("tier", []),
        "started_at": 1000.0 * number,
        "finished_at": 1000.0 * number + 80,
        "load": {"rate": RATE, "value_size": 1000, "keys": 9000, "influence": 25, "read_mix": 100},
        "budget_bytes": 256 * 2**20,
        "step_factor": 1.04,
        "realtime": True,
        "hosts": hosts,
        "windows": windows,
        "end": {
            "kind": end if wall is None else "killed",
            "n": looked[-1] if wall is None else wall,
            "host": None,
            "machine": "this_machine",
            "message": message if wall else "",
        },
    }


def rising(middle: float, slope: float = 4.0, base: float = 1.0, limit: float = 2.0) -> Shape:
    """Return a latency that reaches a limit at a size."""
    return lambda size: max(base, limit * math.exp(slope * math.log(size / middle)))


def definition(arms: t.Sequence[str], **changes: t.Any) -> dict[str, t.Any]:
    """Return the definition of a density."""
    return {
        "arms": list(arms),
        "objective": {"kind": "relative", "factor": 2.0},
        "scope": "every",
        "budget_bytes": 256 * 2**20,
        **changes,
    }


def dram(rounds: t.Iterable[int], fits: int = 10) -> list[dict[str, t.Any]]:
    """Return ramps in DRAM, each of which ends where the next host does not fit."""
    return [ramp("dram", number, range(fits // 2, fits + 1), wall=fits + 1) for number in rounds]


def tier(arm: str, rounds: t.Iterable[int], middle: float, **changes: t.Any) -> list[dict[str, t.Any]]:
    """Return ramps of a tier whose fleet reaches twice its references at a size; their grids differ."""
    shape = changes.pop("fleet", rising(middle))
    return [
        ramp(arm, number, range(round(0.7 * middle) + number % 2, round(1.3 * middle), 2), shape, **changes)
        for number in rounds
    ]
