# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets whose density is known, and searches for it through the code of the playbook."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import next_probe

MAXIMUM = 100
_NORMAL = statistics.NormalDist()


@dataclasses.dataclass(frozen=True)
class World:
    """How the probability to pass falls with the size of a fleet.

    Attributes:
        name: for tables.
        softness: how gradually; 0.03 is a steep knee.
        lapse: share of the probes that fail whatever their size.
        discarded: share of the failing probes that come out as invalid, and are repeated.
        undecided: probes between the density and this multiple of it are undecided.
        sick: share of hosts that always fail.
        sick_again: share of hosts that fail, drawn again for each probe.
    """

    name: str
    softness: float
    lapse: float = 0.0
    discarded: float = 0.0
    undecided: float = 1.0
    sick: float = 0.0
    sick_again: float = 0.0


WORLDS = (
    World("steep knee (0.03)", 0.03),
    World("soft knee (0.05)", 0.05),
    World("soft knee (0.1)", 0.1),
    World("soft knee (0.25)", 0.25),
    World("2 % of the probes disturbed", 0.05, lapse=0.02),
    World("30 % of the overloaded probes invalid", 0.1, discarded=0.3),
    World("undecided up to 1.3 times the density", 0.05, undecided=1.3),
    World("the same, soft knee (0.25)", 0.25, undecided=1.3),
    World("5 % of the hosts are sick", 0.05, sick=0.05),
    World("5 % of the hosts are sick, others in each probe", 0.05, sick_again=0.05),
)


class Fleet:
    """A fleet that grows and shrinks, with a density of its own.

    Args:
        world: how it fails.
        middle: the size that passes half of its probes, without what else the world does.
        chance: random numbers of everything that happens to it.
    """

    def __init__(self, world: World, middle: float, chance: random.Random) -> None:
        self.world = world
        self.middle = middle
        self.chance = chance
        self.sick = [number for number in range(1, MAXIMUM + 1) if chance.random() < world.sick]

    def passes(self, size: int, stretch: float = 1.0) -> float:
        """Return the probability that a probe passes, or, stretched by C(world.undecided), that it does not fail."""
        if any(number <= size for number in self.sick):
            return 0.0
        chance = _NORMAL.cdf(math.log(stretch * self.middle / size) / self.world.softness)
        return (1 - self.world.lapse) * (1 - self.world.sick_again) ** size * chance

    def density(self, share: float = 0.9, stretch: float = 1.0) -> int:
        """Return the largest size that passes, or does not fail, this share of its probes."""
        return max((size for size in range(1, MAXIMUM + 1) if self.passes(size, stretch) >= share), default=0)

    def probe(self, size: int) -> str:
        """Return the outcome of a probe."""
        drawn = self.chance.random()
        if drawn < self.passes(size):
            return "pass"
        if drawn < self.passes(size, self.world.undecided):
            return "undecided"
        return "invalid" if self.chance.random() < self.world.discarded else "fail"


def entry(arm: str, size: int, outcome: str, **changes: t.Any) -> dict[str, t.Any]:
    """Return the entry of an attempt in density.json."""
    hosts = [f"vm{number:04d}" for number in range(1, size + 1)]
    return {
        "run_id": f"d-{arm}-n{size:04d}-1",
        "arm": arm,
        "size": size,
        "outcome": outcome,
        "state": "invalid" if outcome == "invalid" else "finished",
        "verdict": outcome,
        "reason": "" if outcome == "pass" else "why",
        "hosts": hosts,
        "missed": hosts[size // 2 :] if outcome == "fail" else [],
        "lost": [],
        "slo": {"avg_us": 50, "p99_us": 300},
        "labels": [],
        "hosts_within_slo": size if outcome == "pass" else size // 2,
        "avg_us": 20.0 + size,
        "p99_us": 50.0 * size,
        "worst_host_avg_us": 22.0 + 1.5 * size,
        "worst_host_p99_us": 60.0 * size,
        **changes,
    }


def empty(arms: t.Iterable[str], maximum: int = MAXIMUM, **changes: t.Any) -> dict[str, t.Any]:
    """Return a density.json without probes."""
    return {
        "schema": 1,
        "id": "density-1",
        "kind": "density",
        "finished": True,
        "restored": True,
        "created_at": 0,
        "runs": [],
        "definition": {
            "arms": [{"name": arm, "variables": {}, "setting": None} for arm in arms],
            "maximum": maximum,
            "start": None,
            "probes": 40,
            "factor": 1.25,
            "vms": False,
            "probe": {},
            **changes,
        },
    }


def search(
    fleets: t.Mapping[str, t.Callable[[int], str]], maximum: int = MAXIMUM, **changes: t.Any
) -> dict[str, t.Any]:
    """Search as the playbook does, with functions that return the outcome of a probe, and return density.json."""
    document = empty(fleets, maximum, **changes)
    searches = density_result.searches(document)
    while (chosen := next_probe(searches)) is not None:
        name, size = chosen
        assert 1 <= size <= maximum
        assert len(document["runs"]) < 3 * document["definition"]["probes"] * len(fleets), "it does not end"
        run = entry(name, size, fleets[name](size))
        searches[name].add(size, run["outcome"])
        document["runs"].append(run)
    density_result.conclude(document)
    return document


def holds(interval: t.Sequence[float | None], low: float, high: float | None = None) -> bool:
    """Check whether an interval of density.json holds a value, or a whole range."""
    high = low if high is None else high
    return (interval[0] or 0) <= low + 0.001 and (interval[1] is None or high - 0.001 <= interval[1])
