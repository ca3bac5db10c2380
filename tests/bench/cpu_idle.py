# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what idle CPUs that stay awake change: the same load on one real Redis, in pairs with CPUs that sleep.

python tests/bench/cpu_idle.py [--rounds N] [--write]

In each round one measurement has CPUs that sleep when they are idle and one has CPUs that stay awake, in random order.
The limit of their resume latency is put back afterwards. Needs root, redis-server, a C compiler and libhiredis. With
--write the figures go to docs/bench/cpu_idle.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "programs" / "solotest"
sys.path[:0] = [str(ROOT / ".ansible" / "collections"), str(TESTS)]

import machine  # noqa: E402
from servers import Redis  # noqa: E402

from ansible_collections.memstretch.density.plugins.module_utils.solotest import client  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.run import student  # noqa: E402

PROGRAM = TESTS / "build" / "solotest"
PAGE = ROOT / "docs" / "bench" / "cpu_idle.md"
LIMITS = sorted(pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/power/pm_qos_resume_latency_us"))
# What is written to the limits: any resume latency, or none.
ARMS = {"sleep": "0", "awake": "n/a"}
SECONDS, RATE = 4, 1000
PACINGS = ("sleep", "hybrid")
FIGURES = (("server", "p99_us"), ("intended", "avg_us"), ("intended", "p99_us"))


def stolen_ticks() -> tuple[int, int]:
    """Return the stolen ticks of all CPUs, and all their ticks."""
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return ticks[7], sum(ticks)


def measure(port: int, arm: str, pacing: str) -> dict[str, t.Any]:
    """Return the latencies of one execution of the client, and the share of CPU time that was stolen meanwhile."""
    for limit in LIMITS:
        limit.write_text(ARMS[arm], encoding="ascii")
    stolen, every = stolen_ticks()
    command = [PROGRAM, "--json", f"--pacing={pacing}", f"--requests={SECONDS * RATE}"]
    output = subprocess.run(
        [*command, "test", str(port), "1000", "1000", "0", str(RATE)], check=True, capture_output=True, timeout=120
    ).stdout
    stolen_after, every_after = stolen_ticks()
    result = client.facts(json.loads(output), None, {}, {})["latency"]
    return {**result, "stolen": (stolen_after - stolen) / (every_after - every)}


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean of the ratios of pairs and its 95 % interval (Student's t of the logarithms)."""
    logs = [math.log(each) for each in ratios]
    mean, error = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    reach = student.quantile(0.975, len(logs) - 1) * error
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not LIMITS:
        sys.exit("this kernel has no pm_qos_resume_latency_us")
    load, original = os.getloadavg()[0], [limit.read_text(encoding="ascii") for limit in LIMITS]
    subprocess.run(["make", "-s", "-C", TESTS, "build/solotest"], check=True)
    found: dict[tuple[str, str], list[dict[str, t.Any]]] = {(pacing, arm): [] for pacing in PACINGS for arm in ARMS}
    try:
        with Redis() as redis:
            subprocess.run([PROGRAM, "fill", str(redis.port), "1000", "1000"], check=True, stdout=subprocess.DEVNULL)
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
        PAGE.write_text(
            f"# CPUs that stay awake\n\n`tests/bench/cpu_idle.py`, {datetime.date.today()}: one Redis, {RATE:,} "
            f"requests/s, {SECONDS} s each, {options.rounds} rounds with both arms in random order (cpuidle driver "
            f"{driver}, governor {governor}). Medians of the rounds in microseconds; the ratio is the geometric mean "
            f"of the rounds with its 95 % interval.\n\n{machine.describe(load, idle=False)}" + "\n".join(lines) + "\n",
            encoding="utf-8",
        )


def table(found: dict[tuple[str, str], list[dict[str, t.Any]]]) -> t.Iterator[str]:
    """Yield the lines of the page's table."""
    yield "| pacing | figure | CPUs sleep | CPUs stay awake | awake / sleep |"
    yield "| --- | --- | --- | --- | --- |"
    for pacing in PACINGS:
        sleeping, awake = found[pacing, "sleep"], found[pacing, "awake"]
        for latency, figure in FIGURES:
            both = [[each[latency][figure] for each in arm] for arm in (sleeping, awake)]
            mean, low, high = interval([one / other for other, one in zip(*both)])
            medians = " | ".join(f"{statistics.median(each):,.0f}" for each in both)
            name = f"`{latency}`, {'p99' if figure == 'p99_us' else 'average'}"
            yield f"| `{pacing}` | {name} | {medians} | {mean:.2f} ({low:.2f} to {high:.2f}) |"
        stolen = [statistics.median(each["stolen"] for each in arm) for arm in (sleeping, awake)]
        yield f"| `{pacing}` | stolen CPU time | {stolen[0]:.1%} | {stolen[1]:.1%} | |"


if __name__ == "__main__":
    main()
