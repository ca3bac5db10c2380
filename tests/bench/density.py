# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate studies whose densities are known: how often the intervals hold them, and how wide they are.

    python tests/bench/density.py [--studies N]

Each study has rounds of two arms, DRAM (which ends by capacity) and a tier, in a world that disturbs them. The code
that judges them is that of the collection; only the figures of the windows are drawn. A second table has the sums of
several such machines, which conduct their rounds at the same time.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import random
import statistics
import sys
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))

from ansible_collections.memstretch.density.plugins.module_utils.ramp.decisions import IDLE_LOOKS, OFF_P99, idle_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.density import rounds, sizes, together
from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import CURVES, SENSITIVITY, is_flat
from ansible_collections.memstretch.density.plugins.plugin_utils.density.curve import (
    FLEET,
    REFERENCES,
    Excess,
    curve,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import Crossing

LIMIT = math.log(2)
# A ramp ends when the mean of three steps in a row, all beyond the limit, is this far beyond it.
STOP = 0.15
# Standard deviations of ln p99 and ln average of single windows: of the fleet and of six references.
FLEET_NOISE, REFERENCE_NOISE = 0.06, 0.07
# Seconds of a window with settling, and how long a regime lasts.
STEP_SECONDS, REGIME_SECONDS = 6.0, 180.0
# Seconds until the fleet has grown beyond what DRAM carries, and of a round.
JOIN_SECONDS, ROUND_SECONDS = 10.0, 240.0


@dataclasses.dataclass(frozen=True)
class World:
    """What a simulated machine does.

    Attributes:
        name: for the table.
        softness: scatter of the size at which a single window would cross the limit, in logarithms; with the noise, it
            gives the slope of the curve there.
        flat: instead of a slope, the excess that the curve has up to a wall, with a slope of its own below it.
        slope: of a flat curve, d ln(figure) / d ln(size).
        capacity: the wall is where the fleet no longer fits, not a latency.
        regime: standard deviation of a machine's moods, which hit fleet and references alike.
        disturbed: share of the windows in which a neighbour makes the fleet and its references slower.
        seen: share of these that stolen time shows, so that they are looked at again.
        bad_rounds: share of the rounds in which everything crosses earlier.
        bad: where it crosses in these, as a share of the density.
        skew: of the noise of a window: exponential instead of normal.
        sick: share of the hosts that are slow; the fleet's p99 rises with them.
        absolute: the limit is one in microseconds, so that regimes move the crossing.
        rounds: ramps of each arm.
        step: growth from step to step.
        cpus: the references cross their limit, and the fleet is as slow as they are.
        references: how many times as slow as idle the references are at the density, where the CPUs do not decide.
        change: a factor by which the machine becomes slower once, at a random time, and stays so.
        most: the largest fleet, as a multiple of the density; a ramp that meets the limit there has run out of hosts.
        excluded: why its coverage is not promised, in the words of the result; empty if it is.
    """

    name: str
    softness: float = 0.1
    flat: float | None = None
    slope: float = 0.0
    capacity: bool = False
    regime: float = 0.0
    disturbed: float = 0.0
    seen: float = 0.8
    bad_rounds: float = 0.0
    bad: float = 0.85
    skew: bool = False
    sick: float = 0.0
    absolute: bool = False
    rounds: int = 3
    step: float = 0.04
    cpus: bool = False
    references: float = 1.0
    change: float = 1.0
    most: float = 1.3
    excluded: str = ""


WORLDS = (
    World("softness 0.03", 0.03),
    World("softness 0.05", 0.05),
    World("softness 0.1", 0.1),
    World("softness 0.1, five rounds", 0.1, rounds=5),
    World("softness 0.25", 0.25),
    World("regimes of 10 %", 0.1, regime=0.1),
    World("regimes of 25 %", 0.1, regime=0.25),
    World("10 % of the windows disturbed", 0.1, disturbed=0.1),
    World("10 % disturbed, softness 0.05", 0.05, disturbed=0.1),
    World("one round in five disturbed", 0.05, bad_rounds=0.2),
    World("one round in five crosses before its first size", 0.05, bad_rounds=0.2, bad=0.6, rounds=5),
    World("skewed noise", 0.1, skew=True),
    World("2 % of the hosts sick", 0.1, sick=0.02),
    World("5 % of the hosts sick", 0.1, sick=0.05),
    World("all of these at once", 0.1, regime=0.1, disturbed=0.1, bad_rounds=0.1, skew=True, sick=0.02),
    World("capacity", flat=-0.5, capacity=True),
    World("flat at 1.5 times, then a wall", flat=-0.29),
    World("flat at 1.6 times, slope 0.1, then a wall", flat=-0.22, slope=0.1),
    World("flat at 1.7 times, slope 0.2, then a wall", flat=-0.16, slope=0.2),
    World("flat at 1.8 times, then a wall", flat=-0.105),
    World("flat at 1.9 times, then a wall", flat=-0.05),
    World("flat at 1.9 times, slope 0.2, then a wall", flat=-0.05, slope=0.2),
    World("the CPUs decide", 0.05, cpus=True),
    World("the CPUs decide, regimes of 10 %", 0.05, cpus=True, regime=0.1),
    World("the CPUs decide, regimes of 25 %", 0.05, cpus=True, regime=0.25),
    World("the CPUs decide, 10 % disturbed", 0.05, cpus=True, disturbed=0.1),
    World("the CPUs decide, softly", 0.15, cpus=True),
    World("the CPUs decide, softly, regimes of 10 %", 0.15, cpus=True, regime=0.1),
    World("the CPUs decide, 1.6 times as slow from some time on", 0.05, cpus=True, change=1.6),
    World(
        "capacity, references x 1.4, 1.6 times as slow from some time on",
        flat=-0.5,
        capacity=True,
        references=1.4,
        change=1.6,
    ),
    World("capacity, references x 1.4, regimes of 25 %", flat=-0.5, capacity=True, references=1.4, regime=0.25),
    World("ran out of hosts", 0.1, most=0.95),
    World("absolute limit, regimes of 10 %", 0.1, absolute=True, regime=0.1),
    World(
        "absolute limit, regimes of 25 %", 0.1, absolute=True, regime=0.25, excluded="regimes last longer than rounds"
    ),
)

# Of these, the sums of several machines are simulated.
TOGETHER = (
    "softness 0.05",
    "softness 0.1",
    "regimes of 25 %",
    "10 % of the windows disturbed",
    "one round in five disturbed",
    "all of these at once",
    "capacity",
    "the CPUs decide",
)
MACHINES = (2, 10)


class Moods:
    """A machine's moods: an autoregressive process, by time, and a change that lasts."""

    def __init__(self, chance: random.Random, scatter: float, change: float = 0.0, until: float = 0.0) -> None:
        self._chance, self._scatter = chance, scatter
        self._now, self._change = chance.gauss(0, scatter), change
        self._left = chance.uniform(0, until) if change else math.inf

    def after(self, seconds: float) -> float:
        keep = math.exp(-seconds / REGIME_SECONDS)
        self._now = keep * self._now + self._chance.gauss(0, self._scatter * math.sqrt(1 - keep * keep))
        self._left -= seconds
        return self._now + (self._change if self._left < 0 else 0.0)


class Look(t.NamedTuple):
    """A clean window.

    Attributes:
        size: of the fleet.
        fleet: how far its figure is from the limit: ln(fleet / references / factor), or ln(fleet / limit).
        level: of the references, as ln(references / idle DRAM in an even mood).
    """

    size: int
    fleet: float
    level: float


class Ramp(t.NamedTuple):
    """A simulated ramp.

    Attributes:
        looks: its clean windows.
        wall: the size that does not fit; infinite if all fit.
        own: the levels of its windows that DRAM carries.
        idle: the level of idle DRAM.
    """

    looks: list[Look]
    wall: float
    own: list[float]
    idle: float

    def beside(self, plateau: float) -> Ramp:
        """Return it next to idle DRAM as it is judged: of the ramp itself, and of the ramps in DRAM."""
        return self._replace(idle=math.log(idle_dram([math.exp(each) for each in self.own], math.exp(plateau))))

    def excesses(self, world: World) -> list[Excess]:
        """Return how far its windows are from the limits."""
        if world.absolute:
            return [Excess(each.size, {(FLEET, "p99_us"): each.fleet}) for each in self.looks]
        return [
            Excess(
                each.size,
                {(FLEET, "p99_us"): each.fleet, (REFERENCES, "p99_us"): each.level - self.idle - LIMIT},
            )
            for each in self.looks
        ]


def _ramp(
    world: World, density: float, fits: float, chance: random.Random, moods: Moods, plateau: float | None
) -> Ramp:
    """Return a ramp whose fleet crosses its limit at a density, on a machine whose DRAM carries so many hosts.

    Args:
        plateau: the level of idle DRAM in the ramps in DRAM before it; None in one of these.
    """
    crosses = density * (world.bad if chance.random() < world.bad_rounds else 1.0)
    idle_size = sizes.IDLE * fits
    levels: list[float] = []
    while not levels or (len(levels) < IDLE_LOOKS and _differs(statistics.median(levels), plateau)):
        levels.append(_window(world, idle_size / crosses, 0.0, chance, moods)[1])
    ramp = Ramp([], math.inf, levels, statistics.median(levels))
    moods.after(JOIN_SECONDS)
    beyond: list[float] = []
    for size in _sizes(density, world.step, world.most, chance):
        if world.capacity and size >= crosses:
            # Hosts join one by one, so the size at which the first does not fit is known.
            return ramp._replace(wall=math.ceil(crosses))
        ramp.looks.append(Look(size, *_window(world, size / crosses, idle_size / crosses, chance, moods)))
        judged = ramp if plateau is None else ramp.beside(plateau)
        worst = max(judged.excesses(world)[-1].of.values())
        beyond = [*beyond, worst] if worst > 0 else []
        if (len(beyond) >= 3 and statistics.fmean(beyond[-3:]) > STOP) or (
            len(beyond) > 1 and min(beyond[-2:]) > LIMIT
        ):
            break
    return ramp


def _differs(level: float, plateau: float | None) -> bool:
    return plateau is not None and abs(level - plateau) > math.log(OFF_P99)


def _sizes(density: float, step: float, most: float, chance: random.Random) -> list[int]:
    """Return the sizes of a later ramp, which go by what the first one found."""
    found = density * math.exp(chance.gauss(0, 0.04))
    start, most_hosts = sizes.FROM * found, math.floor(most * density)
    return sizes.grid(start, max(1, most_hosts), step, str(chance.random()), sizes.CLOSE * found)


def _window(world: World, times: float, idle: float, chance: random.Random, moods: Moods) -> tuple[float, float]:
    """Return the excess of the fleet and the level of its references in a window that counts as clean.

    Args:
        times: the size, as a multiple of the density.
        idle: the size at which the CPUs do not yet matter, as such a multiple; 0 if they do not at this size.
    """
    mood = moods.after(STEP_SECONDS)
    disturbed = 0.0
    while chance.random() < world.disturbed:
        if chance.random() >= world.seen:
            disturbed = chance.choice((0.2, 0.4, 0.4, 1.4))
            break
        mood = moods.after(STEP_SECONDS)  # it is looked at again
    alone = mood + disturbed * 0.7 + _noise(world, chance, REFERENCE_NOISE)
    fleet = mood + disturbed + _noise(world, chance, FLEET_NOISE)
    if world.sick:
        fleet += math.log1p(2 * world.sick * chance.random())
    level = alone + (_by_the_cpus(world, times, idle) if idle else 0.0)
    if not idle:  # fleet and references count together
        return 0.0, (alone + fleet) / 2
    if world.absolute:
        return _truth(world, times) + fleet, level
    if world.cpus:
        return fleet - alone - LIMIT / 2, level
    return _truth(world, times) + fleet - alone, level


def _by_the_cpus(world: World, times: float, idle: float) -> float:
    """Return by how much the load of the whole fleet makes the references slower."""
    at_density = LIMIT if world.cpus else math.log(world.references)
    power = _slope(world) / LIMIT if world.cpus else 1.0
    return at_density * max(0.0, (times - idle) / (1 - idle)) ** power


def _slope(world: World) -> float:
    return math.hypot(FLEET_NOISE, REFERENCE_NOISE) / world.softness


def _truth(world: World, times: float) -> float:
    """Return the noiseless excess of a fleet of so many times the density."""
    log = math.log(times)
    if world.flat is None:
        return _slope(world) * math.expm1(2 * log) / 2
    return world.flat + world.slope * log if times <= 1 else 1.5


def _noise(world: World, chance: random.Random, scatter: float) -> float:
    return scatter * (chance.expovariate(1) - 1 if world.skew else chance.gauss(0, 1))


class Outcome(t.NamedTuple):
    """What a simulated study found.

    Attributes:
        flat: whether it says that the curve is flat near the limit, and that the limit decides.
    """

    flat: bool
    holds: bool
    ratio_holds: bool
    too_high: bool
    width: float | None
    ratio_width: float | None
    error: float


DRAM = World("DRAM", flat=-0.5, capacity=True)


def _crossings(world: World, ramps: t.Sequence[Ramp], shift: float = 0.0) -> list[Crossing]:
    """Return where the ramps of an arm cross the objective."""
    found = [curve(ramp.excesses(world), ramp.wall, shift) for ramp in ramps]
    return [each.crossing for each in found if each]


def _sick_factor(world: World) -> float:
    """Return how many times its density a fleet carries with its sick hosts, which count in its p99."""
    if not world.sick:
        return 1.0
    draws = 1000
    shift = statistics.fmean(math.log1p(2 * world.sick * (draw + 0.5) / draws) for draw in range(draws))
    return math.sqrt(1 - 2 * shift / _slope(world))


def _machine(world: World, chance: random.Random) -> tuple[float, float, list[Ramp], list[Ramp]]:
    """Simulate the ramps of a machine; return the densities of both arms, and their ramps."""
    fits = chance.uniform(15, 40)
    density = fits * chance.choice((1.5, 2.8, 5.0))
    moods = Moods(chance, world.regime, math.log(world.change), world.rounds * ROUND_SECONDS)
    of_base: list[Ramp] = []
    of_tier: list[Ramp] = []
    for _turn in range(world.rounds):
        of_base.append(_ramp(DRAM, fits, fits, chance, moods, None))
        of_tier.append(_ramp(world, density, fits, chance, moods, _plateau(of_base)))
        moods.after(60)
    of_tier = [each.beside(_plateau(of_base)) for each in of_tier]
    return fits, density * _sick_factor(world), of_base, of_tier


def _plateau(of_dram: t.Sequence[Ramp]) -> float:
    return statistics.median(each.idle for each in of_dram)


def study(world: World, number: int) -> Outcome:
    """Simulate a study of DRAM and a tier."""
    fits, density_with_sick, of_base, of_tier = _machine(world, random.Random(f"{world} {number}"))
    truth = math.floor(density_with_sick)
    base, ramps = _crossings(DRAM, of_base), _crossings(world, of_tier)
    tighter, wider = (rounds.together(_crossings(world, of_tier, math.log(factor))).density for factor in SENSITIVITY)
    found, ratio = rounds.together(ramps, not world.absolute), rounds.ratio(ramps, base, not world.absolute)
    assert found.interval and ratio.interval
    low, high = found.interval
    ratio_low, ratio_high = ratio.interval
    times = density_with_sick / fits
    return Outcome(
        flat=is_flat(tighter, found.density, wider),
        holds=low <= truth and (high is None or truth <= high),
        ratio_holds=(ratio_low or 0) <= times and (ratio_high is None or times <= ratio_high),
        too_high=low > truth,
        width=None if high is None else max(high, 1) / max(low, 1),
        ratio_width=None if ratio_high is None or not ratio_low else ratio_high / ratio_low,
        error=found.density / truth,
    )


class Sum(t.NamedTuple):
    """What simulated studies of several machines found together."""

    holds: bool
    ratio_holds: bool
    too_high: bool
    width: float
    ratio_width: float
    error: float


def study_together(world: World, machines: int, number: int) -> Sum:
    """Simulate a study of DRAM and a tier on several machines, each with its own density."""
    chance = random.Random(f"{world} {machines} {number}")
    documents, truth, fits, carries = {}, 0, 0.0, 0.0
    for machine in range(machines):
        own_fits, density, of_base, of_tier = _machine(world, chance)
        arms = [
            _arm(name, _crossings(kind, ramps), world)
            for name, kind, ramps in (("dram", DRAM, of_base), ("tier", world, of_tier))
        ]
        kind = "absolute" if world.absolute else "relative"
        documents[str(machine)] = {"definition": {"objective": {"kind": kind}}, "arms": arms}
        truth, fits, carries = truth + math.floor(density), fits + own_fits, carries + density
    _dram, found = together.sums(documents)
    (low, high), (ratio_low, ratio_high) = found["interval"], found["ratio"]["interval"]
    return Sum(
        holds=low <= truth <= high,
        ratio_holds=ratio_low <= carries / fits <= ratio_high,
        too_high=low > truth,
        width=high / low,
        ratio_width=ratio_high / ratio_low,
        error=found["density"] / truth,
    )


def _arm(name: str, ramps: t.Sequence[Crossing], world: World) -> dict[str, t.Any]:
    """Return an arm as density.json has it. The figures of a simulated window have no bounds of their own."""
    found = rounds.together(ramps, not world.absolute)
    return {
        "name": name,
        "density": found.density,
        "at_least": found.at_least,
        "at_most": found.at_most,
        "rounds": [
            {"round": place, "crossings": dict.fromkeys(CURVES, each.as_document())}
            for place, each in enumerate(ramps, 1)
        ],
    }


_COLUMNS = (
    "world",
    "studies",
    "density held, all",
    "said to be flat",
    "density held",
    "too high",
    "width",
    "ratio held",
    "width of the ratio",
    "density / truth",
)


_COLUMNS_TOGETHER = (
    "world",
    "machines",
    "studies",
    "sum held",
    "too high",
    "width",
    "ratio held",
    "width of the ratio",
    "sum / truth",
)


def _share(values: t.Iterable[bool]) -> str:
    known = list(values)
    return f"{100 * sum(known) / len(known):.1f} %" if known else "-"


def _median(values: t.Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.2f}" if known else "open"


def row_together(world: World, machines: int, found: t.Sequence[Sum]) -> str:
    """Return a line of the table of sums."""
    cells = (
        world.name,
        str(machines),
        str(len(found)),
        _share(each.holds for each in found),
        _share(each.too_high for each in found),
        _median(each.width for each in found),
        _share(each.ratio_holds for each in found),
        _median(each.ratio_width for each in found),
        _median(each.error for each in found),
    )
    return f"| {' | '.join(cells)} |"


def row(world: World, found: t.Sequence[Outcome]) -> str:
    """Return a line of the table of single machines."""
    sure = [each for each in found if not each.flat]
    cells = (
        world.name + (f" ({world.excluded})" if world.excluded else ""),
        str(len(found)),
        _share(each.holds for each in found),
        _share(each.flat for each in found),
        _share(each.holds for each in sure),
        _share(each.too_high for each in sure),
        _median(each.width for each in sure),
        _share(each.ratio_holds for each in sure),
        _median(each.ratio_width for each in sure),
        _median(each.error for each in sure),
    )
    return f"| {' | '.join(cells)} |"


def _head(columns: t.Sequence[str]) -> None:
    print(f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|", sep="\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000, help="in each world; 1000 by default")
    options = parser.parse_args()
    began = time.process_time()
    _head(_COLUMNS)
    for world in WORLDS:
        print(row(world, [study(world, number) for number in range(options.studies)]), flush=True)
    print()
    _head(_COLUMNS_TOGETHER)
    for world in (each for each in WORLDS if each.name in TOGETHER):
        for machines in MACHINES:
            found = [study_together(world, machines, number) for number in range(options.studies // 2)]
            print(row_together(world, machines, found), flush=True)
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
