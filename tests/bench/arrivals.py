# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what the choice of arrivals changes: periodic, jitter and poisson on the same real Redis, interleaved.

python tests/bench/arrivals.py [--rounds N] [--write]

Needs redis-server, a C compiler and libhiredis. With --write the figures go to docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import random
import statistics

import machine
from one_redis import SECONDS, filled_redis, latencies

from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARRIVALS

# The source's rate, and rates at which requests often meet an earlier one that is still being served.
RATES = (5000, 10000, 15000)
LATENCIES = ("service", "response", "intended")
# A stall of the machine changes the average and p99 of a whole phase, but not these.
FIGURES = ("p50_us", "p95_us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    cases = list(itertools.product(RATES, ARRIVALS))
    found: dict[tuple[int, str], list[dict[str, dict[str, float]]]] = {case: [] for case in cases}
    with filled_redis() as redis:
        for number in range(options.rounds):
            for rate, arrivals in random.sample(cases, len(cases)):
                measured = latencies(redis.port, rate, "--pacing=spin", f"--arrivals={arrivals}")
                found[rate, arrivals].append(measured)
            print(f"round {number + 1} of {options.rounds}", flush=True)
    lines = list(table(found))
    print("\n".join(lines))
    if options.write:
        machine.write_section(
            "arrivals",
            "What the choice of arrivals changes",
            f"`tests/bench/arrivals.py`, {datetime.date.today()}: one Redis, "
            f"{options.rounds} rounds in random order, {SECONDS} s each, with `pacing: spin`. Median / p95 in "
            f"microseconds, medians of the rounds; and `intended` as a multiple of that with periodic arrivals "
            f"in the same round, with the range over the rounds.\n\n{machine.describe(load)}" + "\n".join(lines),
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
