# SPDX-License-Identifier: GPL-3.0-or-later
"""Synthetic results of the throughput benchmark whose truth is known."""

from __future__ import annotations

import math
import random
import typing as t

# Operations per second of the source under dram, by case and operation.
DRAM = {
    ("sequential", "SET"): 224_530,
    ("sequential", "GET"): 232_694,
    ("random", "SET"): 215_800,
    ("random", "GET"): 229_631,
}
# The baseline of each case, and what an arm reaches of it.
STUDY = {
    ("sequential", "SET"): (("sequential", "SET"), 0.70),
    ("sequential", "GET"): (("sequential", "GET"), 0.80),
    ("random", "SET"): (("random", "SET"), 0.75),
    ("random", "GET"): (("random", "GET"), 0.78),
    ("curve", "SET"): (("sequential", "SET"), 0.60),
    ("cold", "SET"): (("random", "SET"), 0.27),
    ("cold", "GET"): (("random", "GET"), 0.27),
    ("hot", "SET"): (("random", "SET"), 0.85),
    ("hot", "GET"): (("random", "GET"), 0.85),
}
SAME = {key: (key, 1.0) for key in DRAM}
PAGING = (("curve", "SET"), ("cold", "SET"), ("cold", "GET"))
LEFT_OUT = [
    {"case": case, "op": op, "value_size": 1000, "bytes": 10**9}
    for case, op in (("curve", "SET"), ("cold", "SET"), ("cold", "GET"), ("hot", "SET"), ("hot", "GET"))
]


def case(name: str, op: str, rate: float, page_ins: int = 0, **changes: t.Any) -> dict[str, t.Any]:
    """Return the figures of a case."""
    writes = op == "SET" and name in ("sequential", "curve")
    return {
        "case": name,
        "op": op,
        "value_size": 1000,
        "keys": 10**6,
        "requests": 10**6,
        "ops_per_second": rate,
        "seconds": 10**6 / rate,
        "p99_ms": 2.0,
        "max_ms": 61.0,
        "redis_cpu_share": 0.6 if page_ins else 1.0,
        "client_cpu_share": 0.5,
        "page_ins": page_ins,
        "page_outs": page_ins,
        "used_memory": 10**9,
        "curve": [[1e8 * number * (6 if name == "curve" else 1), rate] for number in range(1, 13)] if writes else None,
        "limit": "memory" if page_ins else "Redis",
        **changes,
    }


def arm(
    name: str,
    effects: t.Mapping[tuple[str, str], tuple[tuple[str, str], float]],
    of_rounds: t.Sequence[float],
    noise: t.Callable[[], float],
    machine: str = "boot",
    host: str = "kvm01",
    pages: bool = True,
) -> dict[str, t.Any]:
    """Return the result of an arm.

    Args:
        name: of the arm.
        effects: what it reaches in each case, of which case under dram.
        of_rounds: the factor by which each round changes all arms.
        noise: returns the factor of a run.
        machine: the boot id.
        host: the name of the host.
        pages: whether the cold cases page in.
    """
    rounds = [
        {
            "arm": name,
            "profile": name,
            "round": number,
            "host": host,
            "machine": machine,
            "kernel": "6.18",
            "cpu": "Xeon",
            "redis_version": "7.0.15",
            "dram": "360M",
            "settings": {},
            "left_out": [] if any(key[0] == "cold" for key in effects) else LEFT_OUT,
            "cases": [
                case(*key, DRAM[base] * effect * factor * noise(), 500_000 if pages and key in PAGING else 0)
                for key, (base, effect) in effects.items()
            ],
        }
        for number, factor in enumerate(of_rounds, 1)
    ]
    return {"profile": name, "host": host, "rounds": rounds}


def study(
    chance: random.Random,
    rounds: int = 3,
    spread: float = 0.05,
    effects: t.Mapping[tuple[str, str], tuple[tuple[str, str], float]] | None = None,
) -> dict[str, dict[str, t.Any]]:
    """Return the arms dram and zram: each round changes both alike, and each run varies by itself."""
    of_rounds = [math.exp(chance.gauss(0, 0.2)) for _round in range(rounds)]

    def noise() -> float:
        return math.exp(chance.gauss(0, spread))

    return {
        "dram": arm("dram", SAME, of_rounds, noise),
        "zram": arm("zram", STUDY if effects is None else effects, of_rounds, noise),
    }
