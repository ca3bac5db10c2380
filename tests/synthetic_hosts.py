# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts on which the effect of each candidate is known, and searches on them through the code of the playbook."""

from __future__ import annotations

import dataclasses
import math
import random
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization import (
    Changes,
    Optimization,
    Outcome,
    SearchSettings,
)

# Four settings with three candidates each.
SETTINGS = {f"s{setting}={value}": f"s{setting}" for setting in range(4) for value in range(3)}
# The candidates that matter where one setting does. The values next to the best one help less, as real ones do.
ONE_SETTING = {"s2=1": 0.8}
NEIGHBOURS = {"s2=0": 0.95, "s2=1": 0.8, "s2=2": 0.9}
CELLS = ("i0-r100", "i10-r70")


@dataclasses.dataclass(frozen=True)
class World:
    """How candidates and chance act on a host.

    Attributes:
        name: for tables.
        effects: the factor by which a candidate changes the average; 1 for those that are not named.
        spread: standard deviation of the logarithm of a run's average; that of the p99 is half as large again.
        rounds_differ: the same of what a round changes for all of its runs.
        drift: the logarithm by which the host becomes slower from one run to the next.
        on_p99: the same factors for the p99; those of the average if None.
        invalid: the share of runs that cannot be judged.
        minutes: of the time budget; a run takes one.
    """

    name: str
    effects: t.Mapping[str, float] = dataclasses.field(default_factory=dict)
    spread: float = 0.1
    rounds_differ: float = 0.2
    drift: float = 0.0
    on_p99: t.Mapping[str, float] | None = None
    invalid: float = 0.0
    minutes: float = math.inf

    @property
    def truth(self) -> str | None:
        """The candidate that should be found; None if there is none."""
        return min(self.effects, key=lambda name: self.effects[name]) if self.effects else None


# Worlds in which one setting matters, and worlds in which none does, or must not be proposed.
FINDS = (
    World("runs vary by 5 %", ONE_SETTING, spread=0.05),
    World("runs vary by 10 %", ONE_SETTING),
    World("runs vary by 10 %, neighbouring values help less", NEIGHBOURS),
    World("runs vary by 10 %, 5 % of them are invalid", ONE_SETTING, invalid=0.05),
    World("runs vary by 10 %, the host becomes slower by 1 % with each run", ONE_SETTING, drift=0.01),
    World("runs vary by 10 %, a budget of 60 runs", ONE_SETTING, minutes=60),
    World("runs vary by 15 %", ONE_SETTING, spread=0.15),
)
FINDS_NONE = (
    World("runs vary by 5 %", spread=0.05),
    World("runs vary by 10 %"),
    World("runs vary by 25 %", spread=0.25),
    World("runs vary by 10 %, 5 % of them are invalid", invalid=0.05),
    World("runs vary by 10 %, the host becomes slower by 1 % with each run", drift=0.01),
    World("runs vary by 10 %, a budget of 60 runs", minutes=60),
)
BAD_FOR_P99 = World("20 % off the average, 60 % more p99", ONE_SETTING, on_p99={"s2=1": 1.6})


class Host:
    """A host of a world.

    Args:
        world: what its candidates do.
        seed: of its chance.
    """

    def __init__(self, world: World, seed: t.Any) -> None:
        self.world = world
        self._chance = random.Random(f"{world} {seed}")
        self._rounds: dict[int, float] = {}
        self.runs: list[tuple[Changes, int, str]] = []

    def measure(self, changes: Changes, round_: int, stage: str) -> Outcome:
        """Return the figures of a run."""
        world, chance = self.world, self._chance
        common = self._rounds.setdefault(round_, chance.gauss(0, world.rounds_differ))
        common += world.drift * len(self.runs)
        self.runs.append((changes, round_, stage))
        if chance.random() < world.invalid:
            return Outcome(None, 60)
        effects = (world.effects, world.effects if world.on_p99 is None else world.on_p99)
        average, p99 = (
            common + sum(math.log(each.get(name, 1)) for name in changes) + chance.gauss(0, spread)
            for each, spread in zip(effects, (world.spread, 1.5 * world.spread))
        )
        figures = {"avg_us": 40 * math.exp(average), "p99_us": 200 * math.exp(p99)}
        return Outcome({cell: {**figures, "avg_us": figures["avg_us"] * (1 + n)} for n, cell in enumerate(CELLS)}, 60)


def search(world: World, seed: t.Any, **settings: t.Any) -> tuple[dict[str, t.Any], Host]:
    """Return the result of a search on a host of this world, and the host."""
    host = Host(world, seed)
    return Optimization(
        SETTINGS, host.measure, SearchSettings(**{"seconds": 60 * world.minutes, **settings})
    ).run(), host
