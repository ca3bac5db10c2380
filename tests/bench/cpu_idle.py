# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what idle CPUs that stay awake change: the same load on one real Redis, in pairs with CPUs that sleep.

python tests/bench/cpu_idle.py [--rounds N] [--write]

In each round one measurement has CPUs that sleep when they are idle and one has CPUs that stay awake, in random order.
The limit of their resume latency is restored afterwards. Needs root, redis-server, a C compiler and libhiredis. With
--write the figures go to docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import random
import statistics
import sys
import typing as t

import machine
from one_redis import SECONDS, filled_redis, latencies

from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import cpu_ticks, stolen_share
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    PAIRS_FOR_AN_INTERVAL,
    paired_ratio,
)

LIMITS = sorted(pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/power/pm_qos_resume_latency_us"))
# What is written to the limits: any resume latency, or none.
ARMS = {"sleep": "0", "awake": "n/a"}
RATE = 1000
PACINGS = ("sleep", "hybrid")
FIGURES = (("server", "p99_us"), ("intended", "avg_us"), ("intended", "p99_us"))


def measure(port: int, arm: str, pacing: str) -> dict[str, t.Any]:
    """Return the latencies of one execution of the client, and the share of CPU time that was stolen from it."""
    for limit in LIMITS:
        limit.write_text(ARMS[arm], encoding="ascii")
    before = cpu_ticks()
    measured = latencies(port, RATE, f"--pacing={pacing}")
    return {**measured, "stolen": stolen_share(before, cpu_ticks()) or 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.rounds < PAIRS_FOR_AN_INTERVAL:
        parser.error(f"--rounds {options.rounds}: an interval needs {PAIRS_FOR_AN_INTERVAL} or more")
    if not LIMITS:
        sys.exit("this kernel has no pm_qos_resume_latency_us")
    load, original = os.getloadavg()[0], [limit.read_text(encoding="ascii") for limit in LIMITS]
    found: dict[tuple[str, str], list[dict[str, t.Any]]] = {(pacing, arm): [] for pacing in PACINGS for arm in ARMS}
    try:
        with filled_redis() as redis:
            for number in range(options.rounds):
                for pacing in PACINGS:
                    for arm in random.sample(list(ARMS), len(ARMS)):
                        found[pacing, arm].append(measure(redis.port, arm, pacing))
                print(f"round {number + 1} of {options.rounds}", flush=True)
    finally:
        for limit, value in zip(LIMITS, original):
            limit.write_text(value, encoding="ascii")
    lines = list(table(found))
    print("\n".join(lines))
    if options.write:
        driver, governor = (
            pathlib.Path("/sys/devices/system/cpu/cpuidle", name).read_text(encoding="ascii").strip()
            for name in ("current_driver", "current_governor")
        )
        machine.write_section(
            "cpu_idle",
            "CPUs that stay awake",
            f"`tests/bench/cpu_idle.py`, {datetime.date.today()}: one Redis, {RATE:,} "
            f"requests/s, {SECONDS} s each, {options.rounds} rounds with both arms in random order (cpuidle driver "
            f"{driver}, governor {governor}). Medians of the rounds in microseconds; the ratio is the geometric mean "
            f"of the rounds with its 95 % interval.\n\n{machine.describe(load, idle=False)}" + "\n".join(lines),
        )


def table(found: dict[tuple[str, str], list[dict[str, t.Any]]]) -> t.Iterator[str]:
    """Yield the lines of the page's table."""
    yield "| pacing | figure | CPUs sleep | CPUs stay awake | awake / sleep |"
    yield "| --- | --- | --- | --- | --- |"
    for pacing in PACINGS:
        sleeping, awake = found[pacing, "sleep"], found[pacing, "awake"]
        for latency, figure in FIGURES:
            both = [[each[latency][figure] for each in arm] for arm in (sleeping, awake)]
            ratio = paired_ratio(both[1], both[0])
            low, high = ratio.interval
            medians = " | ".join(f"{statistics.median(each):,.0f}" for each in both)
            name = f"`{latency}`, {'p99' if figure == 'p99_us' else 'average'}"
            yield f"| `{pacing}` | {name} | {medians} | {ratio.value:.2f} ({low:.2f} to {high:.2f}) |"
        stolen = [statistics.median(each["stolen"] for each in arm) for arm in (sleeping, awake)]
        yield f"| `{pacing}` | stolen CPU time | {stolen[0]:.1%} | {stolen[1]:.1%} | |"


if __name__ == "__main__":
    main()
