# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what the choice of arrivals changes: periodic, jitter and poisson on the same real Redis, interleaved.

python tests/bench/arrivals.py [--rounds N] [--write]

Needs redis-server, a C compiler and libhiredis. With --write the figures go to docs/bench/arrivals.md.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "programs" / "solotest"
sys.path[:0] = [str(ROOT / ".ansible" / "collections"), str(TESTS)]

import machine  # noqa: E402
from servers import Redis  # noqa: E402

from ansible_collections.memstretch.density.plugins.module_utils.solotest import client  # noqa: E402
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARRIVALS  # noqa: E402

PROGRAM = TESTS / "build" / "solotest"
PAGE = ROOT / "docs" / "bench" / "arrivals.md"
SECONDS = 4
# The source's rate, and rates at which requests often meet an earlier one that is still being served.
RATES = (5000, 10000, 15000)
LATENCIES = ("service", "response", "intended")
# A stall of the machine changes the average and p99 of a whole phase, but not these.
FIGURES = ("p50_us", "p95_us")


def measure(port: int, rate: int, arrivals: str) -> dict[str, dict[str, float]]:
    """Return the latencies of one execution of the client."""
    command = [PROGRAM, "--json", "--pacing", "spin", f"--arrivals={arrivals}", f"--requests={SECONDS * rate}"]
    output = subprocess.run(
        [*command, "test", str(port), "1000", "1000", "0", str(rate)], check=True, capture_output=True, timeout=120
    ).stdout
    return client.facts(json.loads(output), None, {}, {})["latency"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    subprocess.run(["make", "-s", "-C", TESTS, "build/solotest"], check=True)
    cases = list(itertools.product(RATES, ARRIVALS))
    found: dict[tuple[int, str], list[dict[str, dict[str, float]]]] = {case: [] for case in cases}
    with Redis() as redis:
        subprocess.run([PROGRAM, "fill", str(redis.port), "1000", "1000"], check=True, stdout=subprocess.DEVNULL)
        for number in range(options.rounds):
            for case in random.sample(cases, len(cases)):
                found[case].append(measure(redis.port, *case))
            print(f"round {number + 1} of {options.rounds}", flush=True)
    lines = list(table(found))
    print("\n".join(lines))
    if options.write:
        PAGE.write_text(
            f"# What the choice of arrivals changes\n\n`tests/bench/arrivals.py`, {datetime.date.today()}: one Redis, "
            f"{options.rounds} rounds in random order, {SECONDS} s each, with `pacing: spin`. Median / p95 in "
            f"microseconds, medians of the rounds; and `intended` as a multiple of that with periodic arrivals "
            f"in the same round, with the range over the rounds.\n\n{machine.describe(load)}" + "\n".join(lines) + "\n",
            encoding="utf-8",
        )


def table(found: dict[tuple[int, str], list[dict[str, dict[str, float]]]]):
    """Yield the lines of the page's table."""
    columns = ("requests/s", "arrivals", *LATENCIES, "median, multiple of periodic", "p95, multiple of periodic")
    yield f"| {' | '.join(columns)} |"
    yield "| --- " * len(columns) + "|"
    for (rate, arrivals), rounds in found.items():
        cells = [f"{rate:,}", f"`{arrivals}`"]
        for name in LATENCIES:
            cells.append(" / ".join(f"{statistics.median(each[name][key] for each in rounds):.1f}" for key in FIGURES))
        for key in FIGURES:
            pairs = zip(rounds, found[rate, ARRIVALS[0]])
            ratios = [one["intended"][key] / other["intended"][key] for one, other in pairs]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
