# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how often the 95 % intervals contain the truth, on synthetic fleets whose truth is known.

python tests/bench/intervals.py [--fleets N] [--write]
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
import time

from machine import write_section

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    FIGURES,
    CellSample,
)

REQUESTS = 150


@dataclasses.dataclass(frozen=True)
class World:
    """The variation of a fleet's latencies: standard deviations of the logarithm, and the share of sick hosts."""

    name: str
    by_host: float
    by_iteration: float
    by_both: float
    sick: float = 0.0

    def hosts(self, count: int, chance: random.Random) -> list[tuple[float, bool]]:
        """Return the factor of each host and whether it is sick."""
        return [(chance.lognormvariate(0, self.by_host), chance.random() < self.sick) for _host in range(count)]

    def measure(self, host: tuple[float, bool], slowdown: float, chance: random.Random) -> Histogram:
        """Return the measurement of a host in one iteration, slower by a factor; 2 % of the requests page in."""
        factor = host[0] * slowdown * chance.lognormvariate(0, self.by_both) * 25_000
        slow = int(REQUESTS * (0.06 if host[1] else 0.02))
        values = [factor * chance.lognormvariate(0, 0.25) for _request in range(REQUESTS - slow)]
        return Histogram.from_values(
            int(value) for value in values + [factor * 10 * chance.lognormvariate(0, 0.5) for _request in range(slow)]
        )


WORLDS = (
    World("all vary alike", 0.10, 0.10, 0.05),
    World("iterations vary most", 0.05, 0.20, 0.05),
    World("hosts vary most", 0.30, 0.05, 0.05),
    World("one host in ten is sick", 0.10, 0.10, 0.05, sick=0.1),
)
SIZES = ((4, 3), (8, 5), (8, 10))


def run(world: World, hosts: int, iterations: int, chance: random.Random) -> tuple[CellSample, dict[str, float]]:
    """Return a run of a fleet, and its figures."""
    sample, whole = CellSample(hosts), Histogram()
    fleet = world.hosts(hosts, chance)
    for iteration in range(iterations):
        slowdown = chance.lognormvariate(0, world.by_iteration)
        for number, host in enumerate(fleet):
            histogram = world.measure(host, slowdown, chance)
            sample.add(number, iteration, histogram)
            whole.merge(histogram)
    figures = whole.figures()
    return sample, {name: figures[name] for name in FIGURES}


def truth(world: World, chance: random.Random, draws: int) -> dict[str, float]:
    """Return the figures of a fleet with very many hosts and iterations."""
    whole = Histogram()
    for _draw in range(draws):
        (host,) = world.hosts(1, chance)
        whole.merge(world.measure(host, chance.lognormvariate(0, world.by_iteration), chance))
    figures = whole.figures()
    return {name: figures[name] for name in FIGURES}


def coverage(
    world: World, hosts: int, iterations: int, fleets: int, seed: int = 1, draws: int = 3000
) -> dict[str, tuple[float, float]]:
    """Return for each figure the share of the intervals that contain the truth, and the median of high / low.

    The true maximum depends on the length of a run, so it is the median of the maxima of runs of the same size.
    """
    chance = random.Random(seed)
    true = truth(world, chance, draws)
    found = []
    for _fleet in range(fleets):
        sample, figures = run(world, hosts, iterations, chance)
        found.append((figures, sample.spread().interval(figures)))
    true["max_us"] = statistics.median(figures["max_us"] for figures, _interval in found)
    return {
        name: (
            sum(interval[name][0] <= true[name] <= interval[name][1] for _figures, interval in found) / fleets,
            statistics.median(interval[name][1] / interval[name][0] for _figures, interval in found),
        )
        for name in FIGURES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=100, help="the number of fleets of each kind; 100 by default")
    parser.add_argument("--write", action="store_true", help="write docs/bench/short.md")
    options = parser.parse_args()
    lines = []
    for world in WORLDS:
        for hosts, iterations in SIZES:
            found = coverage(world, hosts, iterations, options.fleets)
            lines.append(
                f"| {world.name} | {hosts} x {iterations} | "
                + " | ".join(
                    f"{100 * share:.0f} % (x {width:.2f})" for share, width in (found[name] for name in FIGURES)
                )
                + " |"
            )
            print(lines[-1], flush=True)
    if options.write:
        write_section(
            "intervals",
            "How often the intervals contain the truth",
            f"`tests/bench/intervals.py`, {time.strftime('%Y-%m-%d')}: {options.fleets} synthetic fleets of each kind, "
            "whose truth is known. The median width of an interval, upper bound / lower bound, is in brackets. "
            "The target is 95 %.\n\n"
            "| fleet | hosts x iterations | average | p99 | maximum |\n| --- | --- | --- | --- | --- |\n"
            + "\n".join(lines),
        )


if __name__ == "__main__":
    main()
