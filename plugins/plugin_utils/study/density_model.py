# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What probes reveal about a density: a curve of the probability to pass, and the posterior of its parameters.

    P(pass with N hosts) = (1 - lapse) * (1 - sick) ** N * Phi((ln(middle) - ln(N)) / softness)

Phi is the normal distribution. C(middle) is the size at which load and memory let half of the probes pass, C(softness)
how gradually the fleet gets there. C(lapse) is the share of probes that fail whatever their size, and C(sick) the share
of hosts that fail by themselves, so that large fleets fail more often. N90 and N50 are the sizes that pass 90 % and
50 % of their probes, of everything together.

The posterior is a weight for each point of a fixed grid, so nothing has to converge. docs/study.md publishes the prior
and docs/bench/density_search.md how often the intervals hold a known truth.
"""

from __future__ import annotations

import array
import bisect
import functools
import itertools
import math
import operator
import typing as t

# The prior of ln(middle) is uniform from LOWEST to HIGHEST times the largest size, in steps of STEP.
LOWEST, HIGHEST, STEP = 0.4, 3.0, 0.03
SOFTNESS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9, 1.35, 2.0)
LAPSE = {0.0: 0.6, 0.02: 0.25, 0.05: 0.15}
# With this probability some hosts are sick; with each softness of the second row, each share of the first is as likely.
SICK_PRIOR = 0.15
SICK = (0.001, 0.002, 0.004, 0.007, 0.012, 0.02, 0.03, 0.045, 0.065, 0.1)
SICK_SOFTNESS = (0.03, 0.1, 0.3)

# An interval leaves out this much at each end. That is 97 % of the posterior, so that at least 95 % of the intervals
# hold the truth also where the truth is not a curve of the model (docs/bench/density_search.md).
TAIL = 0.015
_SMALL = 1e-100


class Shape(t.NamedTuple):
    """The parameters of a curve apart from its middle, and their prior probability."""

    softness: float
    lapse: float
    sick: float
    prior: float


class Known(t.NamedTuple):
    """The 95 % interval of a size, and its median. Sizes below 1 and above the largest one are extrapolated."""

    low: float
    median: float
    high: float


def shapes() -> list[Shape]:
    """Return the shapes of the prior; their probabilities add up to 1."""
    healthy = (1 - SICK_PRIOR) / len(SOFTNESS)
    sick = SICK_PRIOR / len(SICK) / len(SICK_SOFTNESS)
    return [Shape(softness, lapse, 0.0, healthy * share) for softness in SOFTNESS for lapse, share in LAPSE.items()] + [
        Shape(softness, 0.0, share, sick) for softness in SICK_SOFTNESS for share in SICK
    ]


def chance(log_size: float, log_middle: float, shape: Shape) -> float:
    """Return the probability that a fleet passes a probe."""
    normal = 0.5 * math.erfc((log_size - log_middle) / shape.softness * math.sqrt(0.5))
    return (1 - shape.lapse) * (1 - shape.sick) ** math.exp(log_size) * normal


def log_size_of(target: float, log_middle: float, shape: Shape) -> float:
    """Return the logarithm of the size that passes a share of its probes, the target."""
    low, high = log_middle - 20.0, log_middle + 9 * shape.softness
    for _halving in range(22):
        middle = (low + high) / 2
        if chance(middle, log_middle, shape) >= target:
            low = middle
        else:
            high = middle
    return low


class Grid:
    """The points of the prior for fleets of 1 to maximum hosts, in the order of their N90."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        start, end = math.log(LOWEST), math.log(HIGHEST * maximum)
        middles = [start + STEP * number for number in range(math.ceil((end - start) / STEP) + 1)]
        points = sorted((log_size_of(0.9, middle, shape), middle, shape) for middle in middles for shape in shapes())
        self.n90 = [n90 for n90, _middle, _shape in points]
        self.prior = [shape.prior / len(middles) for _n90, _middle, shape in points]
        self._points = [(middle, shape) for _n90, middle, shape in points]
        n50 = [log_size_of(0.5, middle, shape) for middle, shape in self._points]
        order = sorted(range(len(n50)), key=n50.__getitem__)
        self.n50 = [n50[number] for number in order]
        self.in_order_of_n50 = operator.itemgetter(*order)
        self._chances: dict[int, tuple[array.array[float], array.array[float]]] = {}

    def chances(self, size: int) -> tuple[array.array[float], array.array[float]]:
        """Return the probabilities to fail and to pass with this many hosts, at each point."""
        if size not in self._chances:
            log_size = math.log(size)
            passes = array.array("d", (chance(log_size, middle, shape) for middle, shape in self._points))
            self._chances[size] = array.array("d", (1 - each for each in passes)), passes
        return self._chances[size]


# Making a grid takes about a second, so searches with the same largest size share it.
grid = functools.lru_cache(maxsize=4)(Grid)


class Posterior:
    """What probes reveal about a curve.

    Args:
        points: the grid.
        weights: of its points; those of the prior by default.
    """

    def __init__(self, points: Grid, weights: t.Sequence[float] | None = None) -> None:
        self.grid = points
        self._weights = points.prior if weights is None else weights

    def with_probe(self, size: int, passed: bool) -> Posterior:
        """Return the posterior after one more probe."""
        weights = list(map(operator.mul, self._weights, self.grid.chances(size)[passed]))
        total = sum(weights)
        if total < _SMALL:  # before they vanish; only their proportions count
            weights = [weight / total for weight in weights]
        return Posterior(self.grid, weights)

    @functools.cached_property
    def n90(self) -> Known:
        """The size that passes 90 % of its probes."""
        return _known(self.grid.n90, self._weights)

    @functools.cached_property
    def n50(self) -> Known:
        """The size that passes half of its probes."""
        return _known(self.grid.n50, self.grid.in_order_of_n50(self._weights))

    @functools.cached_property
    def whole_n90(self) -> dict[float, float]:
        """The probability of each whole N90; it is infinity above the largest size. Above 100 it is rounded to 1 %."""
        found: dict[float, float] = {}
        end = math.log(self.grid.maximum)
        for value, weight in zip(self.grid.n90, self._weights):
            size = math.inf if value > end else math.floor(math.exp(value))
            if 100 < size < math.inf:
                size = math.floor(math.exp(round(value, 2)))
            found[size] = found.get(size, 0.0) + weight
        return found


def _known(values: t.Sequence[float], weights: t.Sequence[float]) -> Known:
    sums = list(itertools.accumulate(weights))
    return Known(
        *(
            math.exp(values[min(bisect.bisect_left(sums, share * sums[-1]), len(values) - 1)])
            for share in (TAIL, 0.5, 1 - TAIL)
        )
    )


def ratio_bound(above: Posterior, below: Posterior, upper: bool) -> float:
    """Return the lower or the upper end of the interval of one N90 divided by another, both in whole hosts.

    Nothing is known about an N90 above the largest size. As long as it is possible, the upper end is infinite if it is
    above, and the lower end 0 if it is below.
    """
    quotients: dict[float, float] = {}
    for high, share in above.whole_n90.items():
        if high == math.inf and not upper:
            high = above.grid.maximum
        for low, weight in below.whole_n90.items():
            if low == math.inf and upper:
                low = below.grid.maximum
            quotient = math.inf if high == math.inf or not low else 0.0 if low == math.inf else high / low
            if not high and not low and not upper:
                quotient = 0.0
            quotients[quotient] = quotients.get(quotient, 0.0) + share * weight
    left = TAIL * sum(quotients.values())
    for quotient in sorted(quotients, reverse=upper):
        left -= quotients[quotient]
        if left <= 0:
            return quotient
    return quotient
