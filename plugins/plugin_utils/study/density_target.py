# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide with few probes whether a profile carries a given multiple of what the first profile carries.

To know both densities within a factor of 1.25 takes 30 probes of each. For "at least 2.5 times as many" it is enough to
know how many the first one does not carry, and that 2.5 times as many pass. So that size is probed, again and again.
docs/bench/density_search.md shows how often the answer is wrong.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_model import ratio_bound
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import (
    ENOUGH_PROBES,
    KNOWN,
    USED_UP,
    DensitySearch,
)

# Why an arm is not probed any more: whether the target is reached is known, or it does not depend on this arm.
DECIDED = "target"
# This many probes show how many hosts the first profile does not carry.
FIRST_PROBES = 12


class FirstSearch(DensitySearch):
    """The search under the first profile. It ends after FIRST_PROBES, unless another profile seems to miss its target.

    Args:
        definition: of the search.
        start: the first size.

    Attributes:
        others: the searches under the other profiles.
    """

    def __init__(self, definition: t.Mapping[str, t.Any], start: int | None) -> None:
        super().__init__(definition["maximum"], definition["probes"], definition["factor"], start)
        self.others: list[TargetSearch] = []

    @property
    def stopped_by(self) -> str | None:
        """As of a search without a target, or DECIDED."""
        stopped = super().stopped_by
        if stopped or self.repeats or self.probed < FIRST_PROBES:
            return stopped
        return None if any(other.seems_to_miss for other in self.others) else DECIDED


class TargetSearch(DensitySearch):
    """The search under a profile that has a target.

    Args:
        definition: of the search.
        fitting: the number of hosts that the first profile is expected to carry; None if that is unknown.
        first: the search under the first profile.
    """

    def __init__(self, definition: t.Mapping[str, t.Any], fitting: int | None, first: FirstSearch) -> None:
        super().__init__(definition["maximum"], definition["probes"], definition["factor"], fitting)
        self._target, self._first = definition["target"], first
        first.others.append(self)
        self._decided_after: tuple[int, int, bool] = (0, 0, False)

    @property
    def stopped_by(self) -> str | None:
        """As of a search without a target, or DECIDED."""
        stopped = super().stopped_by
        if stopped not in (None, KNOWN) or self.repeats:
            return stopped
        if self._is_decided():
            return DECIDED
        decisive = self._decisive_size()
        if decisive is None or self._misses(decisive):
            return stopped
        # A density that is known well enough may still be too close to the target; more probes of the size decide.
        return USED_UP if self.probed >= self.budget else None

    def next_size(self) -> int | None:
        """Return the size to probe next, or None at the end.

        It is the one that decides, as long as that is expected to pass 90 % of its probes. Otherwise it is that of a
        search without a target.
        """
        if self.stopped_by or self.repeats:
            return super().next_size()
        decisive = self._decisive_size()
        return super().next_size() if decisive is None or self._misses(decisive) else decisive

    @property
    def seems_to_miss(self) -> bool:
        """Whether the search goes on and is not expected to pass 90 % of its probes at the size that decides."""
        decisive = self._decisive_size()
        return self.stopped_by is None and decisive is not None and self._misses(decisive)

    def _misses(self, size: int) -> bool:
        return bool(self.probed) and self.passes.n90.median < size

    def _decisive_size(self) -> int | None:
        """Return the least size that is the target's multiple of the most that the first profile may carry."""
        carried = self.start
        if self._first.probed >= ENOUGH_PROBES:
            carried = min(self.maximum, math.floor(self._first.not_fails.n90.high))
        return carried and min(self.maximum, math.ceil(self._target * carried))

    def _is_decided(self) -> bool:
        """Decide whether the interval of the multiple is above or below the target as a whole."""
        probed = (self.probed, self._first.probed)
        if min(probed) < ENOUGH_PROBES:
            return False
        if self._decided_after[:2] != probed:
            low = ratio_bound(self.passes, self._first.not_fails, upper=False)
            high = ratio_bound(self.not_fails, self._first.passes, upper=True)
            self._decided_after = (*probed, self._target <= low < math.inf or high < self._target)
        return self._decided_after[2]
