# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how often the test of steady state notices a change that was planted, and how often it warns of nothing.

The series are synthetic: average and p99 of a fleet, and the page-ins of its machine, point by point, with noise,
correlation and stalls.

    python tests/bench/steady_state.py [--cells N] [--write]
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import statistics
import time
import typing as t

from machine import write_section

from ansible_collections.memstretch.density.plugins.plugin_utils.run.steady_state import SteadyState

LATENCIES = ("avg_us", "p99_us")
PAGE_INS = "page_ins_within"


@dataclasses.dataclass(frozen=True)
class World:
    """The noise of a series.

    Attributes:
        points: of the series of a phase.
        spread: the standard deviation of a point's logarithm.
        correlation: from a point to the next one (an autoregressive process of first order).
        stalls: the share of points in which a stall doubles latency, on average.
        page_ins: page-ins per second, to whose noise chance adds that of a count (Poisson); 0 for a world of latencies.
        promised: whether a change of 10 % must be noticed.
    """

    points: int
    spread: float
    correlation: float = 0.0
    stalls: float = 0.0
    page_ins: int = 0
    promised: bool = True

    @property
    def name(self) -> str:
        stalls = f", {100 * self.stalls:g} % stalls" if self.stalls else ""
        counted = f"{self.page_ins:,} page-ins/s, " if self.page_ins else ""
        return f"{counted}{self.points} points, {100 * self.spread:g} %, correlation {self.correlation:g}{stalls}"

    @property
    def figures(self) -> tuple[str, ...]:
        """Return the figures in which a change is planted."""
        return (PAGE_INS,) if self.page_ins else LATENCIES

    def series(self, chance: random.Random) -> list[float]:
        """Return logarithms around 0."""
        state, found = chance.gauss(0, 1), []
        for _point in range(self.points):
            found.append(self.spread * state)
            if chance.random() < self.stalls:
                found[-1] += chance.expovariate(1 / math.log(2))
            state = self.correlation * state + math.sqrt(1 - self.correlation**2) * chance.gauss(0, 1)
        return found


# A point of a phase of 60 s is 1 s.
WORLDS = (
    World(60, 0.02),
    World(60, 0.02, stalls=0.01),
    World(60, 0.015, correlation=0.5),
    World(60, 0.015, correlation=0.5, stalls=0.01),
    World(120, 0.015, correlation=0.7),
    World(60, 0.1, promised=False),
    World(60, 0.3, correlation=0.5, stalls=0.1, promised=False),
    World(120, 0.1, correlation=0.7, promised=False),
    World(60, 0.0, page_ins=2500),
    World(60, 0.01, page_ins=5000),
    World(60, 0.015, page_ins=15000, correlation=0.5),
    World(60, 0.015, page_ins=15000, stalls=0.01),
    World(60, 0.0, page_ins=200, promised=False),
    World(60, 0.0, page_ins=20, promised=False),
    World(60, 0.1, page_ins=5000, correlation=0.5, promised=False),
    World(60, 0.1, correlation=0.8, promised=False),
)


def count(expected: float, chance: random.Random) -> int:
    """Return a random number of events (Poisson; the normal distribution where they are many)."""
    if expected > 500:
        return round(chance.gauss(expected, math.sqrt(expected)))
    events, passed = 0, chance.expovariate(1)
    while passed < expected:
        events, passed = events + 1, passed + chance.expovariate(1)
    return events


class Planted(t.NamedTuple):
    """A change of the first iteration: its factor, and the place of a step as a share of the phase, None for a line."""

    factor: float
    step: float | None = None

    def add(self, series: t.Sequence[float]) -> list[float]:
        """Return a series with the change."""
        whole = math.log(self.factor)
        share = [(number + 0.5) / len(series) for number in range(len(series))]
        return [value + whole * (at if self.step is None else at >= self.step) for value, at in zip(series, share)]


def summary(
    world: World, chance: random.Random, iterations: int = 1, planted: t.Mapping[str, Planted] | None = None
) -> dict[str, t.Any]:
    """Return the finding of the real code in a cell."""
    cell = SteadyState()
    for iteration in range(iterations):
        columns = {}
        for figure in (*LATENCIES, PAGE_INS):
            series = world.series(chance)
            if planted and figure in planted and iteration == 0:
                series = planted[figure].add(series)
            columns[figure] = [math.exp(value) for value in series]
        points = [[1000, 20 * average, 150 * p99, 1500 * p99] for average, p99 in zip(*map(columns.get, LATENCIES))]
        host = {"series": {"interval_s": 1.0, "points": points}}
        rates = [count(world.page_ins * value, chance) for value in columns[PAGE_INS]]
        watched = {"page_ins": {"started_at": 0, "interval_s": 1.0, "per_second": rates}}
        times = {"started_at": 0, "finished_at": world.points}
        cell.add({"hosts": {"vm": host}, "pressure": {}, "charged_dram": {"host": watched}, **times}, 0)
    found = cell.summary()
    assert found
    return found


def noticed(world: World, chance: random.Random, cells: int, kind: str, factor: float, iterations: int = 1) -> float:
    """Return in what share of cells a change of a figure is noticed. A step is anywhere in the middle 70 %."""
    hits = 0
    for number in range(cells):
        figure = world.figures[number % len(world.figures)]
        step = chance.uniform(0.15, 0.85) if kind == "step" else None
        hits += not summary(world, chance, iterations, {figure: Planted(factor, step)})[figure]["steady"]
    return hits / cells


def false_warnings(world: World, chance: random.Random, cells: int, iterations: int = 1) -> float:
    """Return the share of steady cells with a warning for any figure."""
    return (
        sum(
            any(test and not test["steady"] for test in summary(world, chance, iterations).values())
            for _cell in range(cells)
        )
        / cells
    )


def smallest_change(world: World, chance: random.Random, cells: int) -> float:
    """Return the median of the smallest changes that the cells state."""
    figure = world.figures[0]
    return statistics.median(summary(world, chance)[figure]["smallest_change"] for _cell in range(cells))


def row(world: World, cells: int) -> str:
    """Return the line of a world."""
    chance = random.Random(world.name)
    changes = [("line", 1.1), ("line", 0.9), ("step", 1.1), ("step", 0.9)]
    found = [f"{100 * noticed(world, chance, cells, kind, factor):.1f} %" for kind, factor in changes]
    smallest = smallest_change(world, chance, max(20, cells // 5))
    again = noticed(world, chance, cells, "line", 1 + smallest)
    found += [f"{100 * smallest:.0f} %: {100 * again:.0f} %"]
    found += [f"{100 * false_warnings(world, chance, 4 * cells):.2f} %"]
    found += [f"{100 * false_warnings(world, chance, cells, iterations=5):.2f} %"]
    return f"| {world.name}{'' if world.promised else ' (no promise)'} | {' | '.join(found)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=500, help="the number of cells of each kind; 500 by default")
    parser.add_argument("--write", action="store_true", help="write docs/bench/short.md")
    options = parser.parse_args()
    lines = [
        "| noise of a point | rises 10 % | falls 10 % | steps up 10 % | steps down 10 % | smallest change: noticed "
        "| false warnings | of 5 iterations |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines))
    for world in WORLDS:
        lines.append(row(world, options.cells))
        print(lines[-1], flush=True)
    if options.write:
        write_section(
            "steady_state",
            "What the test of steady state notices",
            f"`tests/bench/steady_state.py --write`, {time.strftime('%Y-%m-%d')}: {options.cells} synthetic cells of "
            f"each kind, {4 * options.cells} for the false warnings of one iteration. The change is in the average of "
            "one half and in the p99 of the other half of the cells, and a step is anywhere in the middle 70 % of the "
            "phase. Where page-ins are named, the change is in these. A false warning is one for any figure of a "
            "steady cell. The target is 90 % noticed and at most 2 % "
            "false. Where noise hides a change of 10 %, the result states the smallest change that it would notice, "
            "and the column shows how often a change of that size is noticed.\n\n"
            "A point of a phase of 60 s is 1 s; points of 120 are half as long. Noise is the standard deviation "
            "of a point's logarithm, with a correlation from one point to the next; chance adds the noise of a count "
            "to page-ins. A stall doubles the figure of a point. On a busy machine with two CPUs the averages of a "
            "real Redis had correlations of 0.34 to 0.49 over 0.5 s, and none that mattered after 1.5 s. A correlation "
            "of 0.8 is noise that is slower than what the test assumes.\n\n" + "\n".join(lines),
        )


if __name__ == "__main__":
    main()
