# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many pages of each unit a look watches: as many as its error needs, and no more than its CPU time allows.

The pages of a unit that are watched for an age are a simple random sample, and the share of them that was accessed
estimates a proportion. With n independent pages and a true share p, its error at 95 % is about z sqrt(p (1 - p) / n)
with z = 1.96. That is largest for p = 1/2, so that an error of at most e needs n = z^2 / (4 e^2) pages, however large
the unit is: W. G. Cochran, Sampling Techniques, 3rd edition, 1977, section 4.4, without its correction for small
populations. 385 pages are needed for 5 %.

What so many pages cost differs between hosts by much more than a factor of two, so that it is measured by a trial.
"""

from __future__ import annotations

import math
import typing as t

# The largest error of a unit's active memory that is aimed at, as a share of its memory.
ERROR = 0.05
# So many standard deviations is half of an interval at 95 %.
Z = 1.96
# A look may take cpu_percent of one CPU while it lasts, and a fifth of that averaged over half an hour: 5 % and 1 %.
_AVERAGED, _AVERAGED_OVER_S = 0.2, 1800.0
# A look is one process.
_MOST_PERCENT = 100.0


class Cost(t.NamedTuple):
    """What a look costs, in CPU seconds of its process and of the kernel's threads for it.

    Attributes:
        unit_s: for each unit, to read what addresses its processes have.
        page_s: for each page and age, to find it, to set it up and to remove it.
        check_s: for each page, age and pass, to see whether it was accessed.
    """

    unit_s: float
    page_s: float
    check_s: float

    def seconds(self, units: int, pages: int, passes: t.Sequence[int]) -> float:
        """Return the CPU seconds of a look.

        Args:
            units: how many.
            pages: of each unit for each age.
            passes: how often each age is looked at.
        """
        return units * (self.unit_s + pages * self._each_page(passes))

    def pages(self, units: int, passes: t.Sequence[int], seconds: float) -> int:
        """Return how many pages of each unit and age cost no more than some CPU seconds; 0 if there are none."""
        left = seconds / units - self.unit_s
        each = self._each_page(passes)
        return max(0, int(left / each)) if each else 0

    def _each_page(self, passes: t.Sequence[int]) -> float:
        return len(passes) * self.page_s + sum(passes) * self.check_s


class Plan(t.NamedTuple):
    """The size of a sample.

    Attributes:
        pages: of each unit for each age.
        error: the largest half of an interval at 95 % that so many independent pages can have, as a share.
        wanted_cpu_percent: what share of one CPU, in percent, a look with an error of C(ERROR) would have to be
            allowed; None where the allowed one is enough, or where no share is.
    """

    pages: int
    error: float
    wanted_cpu_percent: float | None


def plan(
    cost: Cost,
    units: int,
    passes: t.Sequence[int],
    seconds: float,
    cpu_percent: float,
    least: int,
    most: int,
    spent: float = 0.0,
) -> Plan:
    """Return the size of the samples of a look.

    Args:
        cost: as a trial has measured it.
        units: how many; at least one.
        passes: how often each age is looked at.
        seconds: how long the look takes.
        cpu_percent: of one CPU that it may take.
        least: so many pages are watched whatever they cost.
        most: and never more than these.
        spent: CPU seconds that the trial has cost.
    """
    allowed = cost.pages(units, passes, cpu_percent / 100 * _counted_seconds(seconds) - spent)
    pages = min(most, max(least, allowed))
    error, wanted = error_of(pages), None
    if error > ERROR and needed(ERROR) <= most:
        wanted = 100 * (cost.seconds(units, needed(ERROR), passes) + spent) / _counted_seconds(seconds)
    return Plan(pages, error, wanted if wanted is not None and wanted <= _MOST_PERCENT else None)


def _counted_seconds(seconds: float) -> float:
    """Return in how many seconds a look that takes so long may use its share of a CPU."""
    return min(seconds, _AVERAGED * max(seconds, _AVERAGED_OVER_S))


def needed(error: float) -> int:
    """Return how many independent pages keep the error of any share at 95 % at or below this one.

    Args:
        error: half of the interval, as a share of the unit's memory.
    """
    return math.ceil(Z**2 / (4 * error**2))


def error_of(pages: float) -> float:
    """Return the largest half of the interval at 95 % that a share of so many independent pages can have."""
    low, high = interval(0.5, pages)
    return (high - low) / 2


def interval(share: float, effective: float) -> tuple[float, float]:
    """Return the interval of a share at 95 %, by Wilson's formula (1927), which also holds near 0 and 1.

    Args:
        share: of the pages that were accessed.
        effective: how many independent pages the sample is worth.
    """
    scale = 1 + Z**2 / effective
    middle = (share + Z**2 / 2 / effective) / scale
    half = Z / scale * (share * (1 - share) / effective + Z**2 / 4 / effective**2) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)
