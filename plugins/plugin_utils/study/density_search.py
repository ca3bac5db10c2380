# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Search for the number of hosts that all meet the SLO: which size to probe next, and what is known so far.

Each profile has two densities: of the probes that pass, in which all hosts are sure to meet the SLO, and of those that
do not fail, in which none is sure to miss it. Without undecided probes the two are the same. density_model.py works out
N90 and N50 of both.

The only state is the list of attempts, so an interrupted search continues from their record.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL, INVALID, PASS, UNDECIDED
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_model import Known, Posterior, grid

# Why an arm is not probed any more: its N90 is known, its probes are used up, or its fleets cannot be judged.
KNOWN, USED_UP = "factor", "probes"

# An invalid probe is repeated as a whole. After this many invalid attempts in a row it is given up and counts as an
# undecided probe: it does not pass, and is not known to fail.
ATTEMPTS = 3
# An arm with this many probes given up cannot be judged.
GIVEN_UP = 4
# With fewer probes the prior decides too much, so the result is called indicative and the search goes on.
ENOUGH_PROBES = 8
# A wider interval of N90 is called indicative too.
INDICATIVE_FACTOR = 2.0
# The next size is at most this multiple of the largest one that was judged, so that no guess fills a host by far too
# much.
GROWTH = 2


class Estimate(t.NamedTuple):
    """A density in whole hosts: the largest sizes that pass 90 % and 50 % of their probes, with 95 % intervals.

    0 means that not even one host does. A high end of None means that it is above the largest size that may be probed.
    """

    n90: int
    n90_interval: tuple[int, int | None]
    n50: int
    n50_interval: tuple[int, int | None]


class DensitySearch:
    """The search under one profile.

    Args:
        maximum: the largest size.
        probes: the most probes, without those that are invalid.
        factor: the search ends when the high end of the interval of N90 is at most this multiple of the low end.
        start: the first size; by default the median of the prior's N90.

    Attributes:
        probed: the number of probes, each a size that was judged or given up.
        attempts: the number of attempts.
        discarded: the sizes of the attempts that were invalid.
        passes: the curve of the probes that pass.
        not_fails: the curve of the probes that do not fail.
    """

    def __init__(self, maximum: int, probes: int, factor: float, start: int | None = None) -> None:
        if not 1 <= (start or 1) <= maximum or probes < 1 or factor <= 1:
            raise ValueError(f"maximum {maximum}, probes {probes}, factor {factor}, start {start}")
        self.maximum = maximum
        self.budget = probes
        self.factor = factor
        self.start = start
        self.probed = self.attempts = 0
        self.discarded: list[int] = []
        self.passes = self.not_fails = Posterior(grid(maximum))
        self._judged: list[tuple[int, str]] = []
        self._largest = 0
        self._invalid_in_a_row = self._given_up = 0

    def add(self, size: int, outcome: str) -> None:
        """Add the outcome of an attempt: PASS, FAIL, UNDECIDED or INVALID."""
        self.attempts += 1
        if outcome == INVALID:
            self.discarded.append(size)
            self._invalid_in_a_row += 1
            if self._invalid_in_a_row < ATTEMPTS:
                return
            self._given_up += 1
            outcome = UNDECIDED
        else:
            self._judged.append((size, outcome))
            self._largest = max(self._largest, size)
        self._invalid_in_a_row = 0
        self.probed += 1
        alike = self.passes is self.not_fails and outcome != UNDECIDED
        self.passes = self.passes.with_probe(size, outcome == PASS)
        self.not_fails = self.passes if alike else self.not_fails.with_probe(size, outcome != FAIL)

    @property
    def repeats(self) -> bool:
        """Whether the last attempt was invalid, so that the same size is next."""
        return self._invalid_in_a_row > 0

    @property
    def stopped_by(self) -> str | None:
        """KNOWN, USED_UP or INVALID; None as long as the search goes on."""
        if self._given_up >= GIVEN_UP:
            return INVALID
        if self.repeats:
            return None
        if self.probed >= ENOUGH_PROBES and all(self._is_known(curve.n90) for curve in self._curves()):
            return KNOWN
        return USED_UP if self.probed >= self.budget else None

    @property
    def indicative(self) -> bool:
        """Whether there are too few probes for a claim."""
        return self.probed < ENOUGH_PROBES or any(
            self._width(curve.n90) > INDICATIVE_FACTOR and not self._is_known(curve.n90) for curve in self._curves()
        )

    def next_size(self) -> int | None:
        """Return the size to probe next, or None at the end.

        N90 and N50 of the curve that is known less well are probed in turn, each at its median; N50 only until it is
        known well enough.
        """
        if self.stopped_by:
            return None
        if self.repeats:
            return self.discarded[-1]
        if not self.probed and self.start:
            return self.start
        curve = max(self._curves(), key=lambda each: self._width(each.n90))
        aim = (curve.n50 if self.probed % 2 and not self._is_known(curve.n50) else curve.n90).median
        largest = min(self.maximum, GROWTH * self._largest or self.maximum)
        return max(1, min(round(aim), largest))

    def estimate(self) -> tuple[Estimate, Estimate]:
        """Return the density that passes, and the one that does not fail."""
        return self._whole(self.passes), self._whole(self.not_fails)

    def if_discarded_failed(self) -> Estimate | None:
        """Return the density that passes if all discarded attempts had failed; None if there are none."""
        if not self.discarded:
            return None
        curve = Posterior(grid(self.maximum))
        for size, outcome in [*self._judged, *((size, FAIL) for size in self.discarded)]:
            curve = curve.with_probe(size, outcome == PASS)
        return self._whole(curve)

    def _curves(self) -> list[Posterior]:
        return [self.passes] if self.passes is self.not_fails else [self.passes, self.not_fails]

    def _width(self, known: Known) -> float:
        """Return the high end of an interval as a multiple of the low end, both within the sizes that may be probed."""
        low, high = (min(max(1.0, end), self.maximum) for end in (known.low, known.high))
        return high / low

    def _is_known(self, known: Known) -> bool:
        """Decide whether the interval, in whole hosts, is narrow enough."""
        low, high = (math.floor(min(end, self.maximum)) for end in (known.low, known.high))
        return high <= self.factor * low or low == high

    def _whole(self, curve: Posterior) -> Estimate:
        def interval(known: Known) -> tuple[int, int | None]:
            low, high = math.floor(min(known.low, self.maximum)), math.floor(known.high)
            return low, high if high < self.maximum else None if known.high > self.maximum else high

        n90, n50 = (math.floor(min(each.median, self.maximum)) for each in (curve.n90, curve.n50))
        return Estimate(n90, interval(curve.n90), n50, interval(curve.n50))


def next_probe(searches: t.Mapping[str, DensitySearch]) -> tuple[str, int] | None:
    """Return the arm and the size to probe next, or None at the end.

    The arms take turns, so that slow changes of a machine affect all of them alike. A repeated probe is not put off.
    """
    going = {name: size for name, search in searches.items() if (size := search.next_size()) is not None}
    if not going:
        return None
    name = min(going, key=lambda each: (not searches[each].repeats, searches[each].probed))
    return name, going[name]
