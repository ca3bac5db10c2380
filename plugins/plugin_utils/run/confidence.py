# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Confidence intervals of the figures of a cell: how much they would vary with other hosts and other iterations.

Hosts and iterations are crossed: all hosts take part in each iteration, so a disturbance of one iteration affects them
all. The requests of one host are far from independent, so they are not resampled. Instead, whole hosts and whole
iterations are drawn with replacement, one of the two at a time, and the histogram of the fleet is merged each time.
The variances of the logarithm of a figure add up (A. B. Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1,
2007), each corrected for its small sample by n / (n - 1). They give an interval of Student's t with the degrees of
freedom of Welch and Satterthwaite, so few iterations give a wide interval, as they should.

Only the standard library is used. Merging is addition: the counts of a histogram are packed into one large integer, 64
bits for each slot, so a weighted sum of histograms takes a few multiplications of integers.
"""

from __future__ import annotations

import array
import math
import random
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import (
    Histogram,
    highest_of,
    lowest_of,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import student
from ansible_collections.memstretch.density.plugins.plugin_utils.run.lanes import packed, unpacked

FIGURES = ("avg_us", "p99_us", "max_us")
LEVEL = 0.95
# With this probability a comparison finds the smallest effect that it states.
POWER = 0.8
RESAMPLES = 200

# Fewer pairs of runs say too little about how much runs differ.
PAIRS_FOR_AN_INTERVAL = 3

# A wider interval has no finite bounds.
_MAX_LOGARITHM = 50

# The hosts of a larger fleet are drawn in this many random groups: the same variance, at a bounded cost.
MAX_GROUPS = 128


class CellSample:
    """The histograms of one cell, by host and iteration.

    Args:
        hosts: the number of expected hosts.
    """

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        groups = min(hosts, MAX_GROUPS)
        self._group_of = [number % groups for number in range(hosts)]
        # The seed is fixed, so that evaluating a run again gives the same interval.
        random.Random(hosts).shuffle(self._group_of)
        self._parts: dict[tuple[int, int], _Part] = {}

    def add(self, host: int, iteration: int, histogram: Histogram) -> None:
        """Add what a host, given by its number, measured in an iteration."""
        if histogram.counts:
            self._parts.setdefault((self._group_of[host], iteration), _Part()).add(histogram)

    def spread(self) -> Spread | None:
        """Describe how the figures vary with hosts and iterations; None if there are fewer than two iterations."""
        iterations = sorted({iteration for _group, iteration in self._parts})
        groups = sorted({group for group, _iteration in self._parts})
        if len(iterations) < 2:
            return None
        lowest = min(min(part.counts) for part in self._parts.values())
        for part in self._parts.values():
            part.pack(lowest)
        table = [[self._parts.get((group, iteration), _NOTHING) for iteration in iterations] for group in groups]
        rows = [_sum((part, 1) for part in row) for row in table]
        columns = [_sum((row[number], 1) for row in table) for number in range(len(iterations))]
        by_iteration = _draw(columns, lowest)
        maxima = [math.log(max(column.max_ns, 1)) for column in columns]
        return Spread(self.hosts, groups, len(iterations), _draw(rows, lowest), by_iteration[:-1] + [maxima])


class Spread:
    """How the logarithms of the figures of a cell vary when its hosts, or its iterations, are resampled.

    The last entry of C(by_iteration) is different: it has the maxima of the iterations themselves. Resampling cannot
    show a larger maximum than was measured, and the maximum of many iterations varies about as much as that of one, not
    less (like Gumbel's distribution, which many maxima follow).
    """

    def __init__(
        self,
        hosts: int,
        groups: list[int],
        iterations: int,
        by_host: list[list[float]],
        by_iteration: list[list[float]],
    ) -> None:
        self.hosts = hosts
        self.groups = groups
        self.iterations = iterations
        self.by_host = by_host
        self.by_iteration = by_iteration

    def interval(self, figures: t.Mapping[str, float]) -> dict[str, t.Any]:
        """Return the intervals around the figures of the cell."""
        spreads = {
            name: _welch([_variance(self.by_host[number], len(self.groups)), self._iterations(number)])
            for number, name in enumerate(FIGURES)
        }
        return {
            "level": LEVEL,
            "resamples": RESAMPLES,
            "hosts": self.hosts,
            "iterations": self.iterations,
            "log_standard_error": {
                name: round(math.sqrt(variance), 6) for name, (variance, _freedom) in spreads.items()
            },
            "degrees_of_freedom": {name: round(freedom, 2) for name, (_each, freedom) in spreads.items()},
            **{name: _bounds(figures[name], *spreads[name]) for name in FIGURES},
        }

    def _iterations(self, number: int) -> tuple[float, int]:
        """Return the variance between iterations of the figure of that number, and its degrees of freedom."""
        values = self.by_iteration[number]
        if FIGURES[number] == "max_us":
            return statistics.variance(values), self.iterations - 1
        return _variance(values, self.iterations)


class PairedRatio(t.NamedTuple):
    """The ratio of two arms.

    Attributes:
        value: the geometric mean over the rounds.
        rounds: the number of pairs of runs; of the arm with fewer runs if they are not paired.
        interval: the 95 % interval, as the lowest and the highest ratio; None for fewer than three rounds.
        spread: the standard deviation of the logarithm of a run's figure, without what both runs of a round have in
            common; None for fewer than three rounds.
    """

    value: float
    rounds: int
    interval: list[float] | None
    spread: float | None

    @property
    def p_value(self) -> float | None:
        """The probability that chance makes two equal arms differ so much; None for fewer than three rounds."""
        if self.spread is None:
            return None
        distance, error = abs(math.log(self.value)), self.spread * math.sqrt(2 / self.rounds)
        return student.p_value(distance / error if error else math.inf if distance else 0, self.rounds - 1)


def paired_ratio(values: t.Sequence[float], baseline: t.Sequence[float]) -> PairedRatio | None:
    """Return the ratio of two arms.

    The unit is the run. The two runs of a round are a pair, since the machine was in about the same state, so what a
    round changes for both cancels out. The logarithms of the ratios have an interval of Student's t, which also holds
    if one arm varies more than the other.

    Args:
        values: a figure of each run of an arm, in the order of the rounds, above 0.
        baseline: the same of the arm that it is compared with.

    Returns:
        None if the arms have different numbers of runs.
    """
    if not values or len(values) != len(baseline):
        return None
    logarithms = [math.log(value / other) for value, other in zip(values, baseline)]
    rounds, ratio = len(logarithms), math.exp(statistics.fmean(logarithms))
    if rounds < PAIRS_FOR_AN_INTERVAL:
        return PairedRatio(ratio, rounds, None, None)
    variance = statistics.variance(logarithms)
    return PairedRatio(ratio, rounds, _bounds(ratio, variance / rounds, rounds - 1), math.sqrt(variance / 2))


def unpaired_ratio(values: t.Sequence[float], baseline: t.Sequence[float]) -> PairedRatio | None:
    """Return the ratio of two arms whose runs are not paired, such as those of two machines.

    The variances of the logarithms of both arms add up, and Student's t has the degrees of freedom of Welch and
    Satterthwaite.

    Args:
        values: a figure of each run of an arm, above 0.
        baseline: the same of the arm that it is compared with.

    Returns:
        None if an arm has no runs.
    """
    if not values or not baseline:
        return None
    arms = [[math.log(value) for value in arm] for arm in (values, baseline)]
    rounds, ratio = min(map(len, arms)), math.exp(statistics.fmean(arms[0]) - statistics.fmean(arms[1]))
    if rounds < PAIRS_FOR_AN_INTERVAL:
        return PairedRatio(ratio, rounds, None, None)
    variance, freedom = _welch([(statistics.variance(arm) / len(arm), len(arm) - 1) for arm in arms])
    return PairedRatio(ratio, rounds, _bounds(ratio, variance, freedom), None)


def spread_of_runs(values: t.Sequence[float]) -> float | None:
    """Return the standard deviation of the logarithm of a figure over the runs of an arm; None for too few runs."""
    if len(values) < PAIRS_FOR_AN_INTERVAL or not all(values):
        return None
    return statistics.stdev(map(math.log, values))


def smallest_effect(spread: float, rounds: int, tests: int = 1) -> float:
    """Return the ratio that a paired comparison finds with a probability of about C(POWER); below 1 it is 1 / ratio.

    Args:
        spread: the standard deviation of the logarithm of a run's figure.
        rounds: pairs of runs, at least two.
        tests: the number of comparisons for which the level is corrected, as Holm does for the most certain of them.
    """
    both = student.quantile(1 - (1 - LEVEL) / 2 / tests, rounds - 1) + student.quantile(POWER, rounds - 1)
    return math.exp(min(both * spread * math.sqrt(2 / rounds), _MAX_LOGARITHM))


def _bounds(value: float, variance: float, freedom: float) -> list[float]:
    """Return the interval around a value, from the variance of its logarithm and the degrees of freedom."""
    width = student.quantile((1 + LEVEL) / 2, freedom) * math.sqrt(variance)
    factor = math.exp(min(width, _MAX_LOGARITHM))
    return [round(value / factor, 3), round(value * factor, 3)]


class _Part:
    """What some hosts measured in some iterations: counts, later packed into one integer."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.packed = self.count = self.sum_ns = self.max_ns = 0

    def add(self, histogram: Histogram) -> None:
        for slot, count in histogram.counts.items():
            self.counts[slot] = self.counts.get(slot, 0) + count
        self.count += histogram.count
        self.sum_ns += histogram.sum_ns
        self.max_ns = max(self.max_ns, histogram.max_ns or 0)

    def pack(self, lowest: int) -> None:
        lanes = array.array("Q", bytes(8 * (max(self.counts) - lowest + 1)))
        for slot, count in self.counts.items():
            lanes[slot - lowest] = count
        self.packed = packed(lanes)

    def figures(self, lowest: int) -> tuple[float, float, float]:
        """Return average, p99 and maximum in nanoseconds."""
        return self.sum_ns / self.count, self._p99(lowest), float(self.max_ns)

    def _p99(self, lowest: int) -> float:
        """Return the 99th percentile, interpolated in its slot, so that differences within a slot are not lost."""
        lanes = unpacked(self.packed, "Q")
        above = self.count / 100
        for number in range(len(lanes) - 1, -1, -1):
            count = lanes[number]
            if count > above:
                low, high = lowest_of(lowest + number), min(highest_of(lowest + number), self.max_ns)
                return high - (high - low) * above / count
            above -= count
        return float(lowest_of(lowest))


_NOTHING = _Part()


def _sum(parts: t.Iterable[tuple[_Part, int]]) -> _Part:
    """Return the weighted sum of parts."""
    total = _Part()
    for part, times in parts:
        total.packed += part.packed * times
        total.count += part.count * times
        total.sum_ns += part.sum_ns * times
        total.max_ns = max(total.max_ns, part.max_ns)
    return total


def _draw(parts: t.Sequence[_Part], lowest: int) -> list[list[float]]:
    """Resample parts with replacement and return the logarithms of each figure in all samples.

    The seed is the number of parts, so two runs with the same number of parts are drawn alike.
    """
    size = len(parts)
    chance = random.Random(size)
    logarithms: list[list[float]] = [[] for _figure in FIGURES]
    for _sample in range(RESAMPLES if size > 1 else 0):
        drawn: dict[int, int] = {}
        for number in chance.choices(range(size), k=size):
            drawn[number] = drawn.get(number, 0) + 1
        resampled = _sum((parts[number], times) for number, times in drawn.items())
        for values, value in zip(logarithms, resampled.figures(lowest)):
            values.append(math.log(max(value, 1)))
    return logarithms


def _variance(values: t.Sequence[float], size: int) -> tuple[float, int]:
    """Return the variance of resamples, corrected for the number of parts (size), and its degrees of freedom."""
    if size < 2:
        return 0.0, 1
    return statistics.variance(values) * size / (size - 1), size - 1


def _welch(sources: t.Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of variances and its degrees of freedom (Welch and Satterthwaite)."""
    variance = sum(each for each, _freedom in sources)
    if not variance:
        return 0.0, max(freedom for _each, freedom in sources)
    return variance, variance**2 / sum(each**2 / freedom for each, freedom in sources)
