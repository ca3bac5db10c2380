# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Search for the largest number of VMs that all meet the SLO: which size to probe next, and the result so far.

The only state is the list of probes, so an interrupted search continues from their record.

A fleet of N meets the SLO or not, but a single probe is subject to chance: near the boundary one of two probes may
pass. So the majority of its probes decides a size. The largest passing size and the smallest failing one are probed
until one outcome has the majority of all probes that a size may get. A size that mostly fails is a boundary even if a
larger one passed; such a contradiction is probed again first, and reported if it remains.
"""

from __future__ import annotations

import dataclasses
import typing as t

PASS, FAIL, INVALID = "pass", "fail", "invalid"
# An invalid probe does not count. A size with this many is given up, and does not count as passed.
MAX_INVALID = 2


class Probe(t.NamedTuple):
    """One probe: the size of the fleet, and PASS, FAIL or INVALID."""

    size: int
    outcome: str


@dataclasses.dataclass(frozen=True)
class Size:
    """The probes of one size.

    Attributes:
        size: the number of hosts.
        passed, failed, invalid: numbers of probes.
        repeats: the most valid probes that a size may get.
    """

    size: int
    passed: int
    failed: int
    invalid: int
    repeats: int

    @property
    def accepted(self) -> bool:
        """Whether most probes have passed so far."""
        return self.passed > self.failed

    @property
    def settled(self) -> bool:
        """Whether no further probe can change the outcome, or none is allowed."""
        votes = self.passed + self.failed
        return max(self.passed, self.failed) > self.repeats // 2 or votes >= self.repeats or self.invalid >= MAX_INVALID

    @property
    def given_up(self) -> bool:
        """Whether this size cannot be judged."""
        return self.invalid >= MAX_INVALID and not self.passed + self.failed


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of a search.

    Attributes:
        density: the largest size that meets the SLO, 0 if none does.
        limited_by: why it is not larger: FAIL, INVALID (the next size could not be judged) or "maximum" (no larger
            size is allowed).
        next_size: the smallest size that does not pass; None with "maximum".
        contradictions: pairs of a size that failed and a larger one that passed.
        decided: whether the search has ended.
    """

    density: int
    limited_by: str
    next_size: int | None
    contradictions: list[tuple[int, int]]
    decided: bool


class DensitySearch:
    """A search from one host up to a largest size.

    Args:
        maximum: the largest size.
        start: the first size.
        repeats: the number of valid probes that decide a size at the boundary; with an even number a tie does not pass.
    """

    def __init__(self, maximum: int, start: int = 1, repeats: int = 3) -> None:
        if not 1 <= start <= maximum or repeats < 1:
            raise ValueError(f"start {start}, maximum {maximum}, repeats {repeats}")
        self.maximum = maximum
        self.start = start
        self.repeats = repeats
        self._probes: list[Probe] = []

    def add(self, size: int, outcome: str) -> None:
        """Add the outcome of a probe."""
        self._probes.append(Probe(size, outcome))

    def sizes(self) -> list[Size]:
        """Return all probed sizes, the smallest first."""
        return [
            Size(size, self._count(size, PASS), self._count(size, FAIL), self._count(size, INVALID), self.repeats)
            for size in sorted({probe.size for probe in self._probes})
        ]

    def _count(self, size: int, outcome: str) -> int:
        return self._probes.count(Probe(size, outcome))

    def next_size(self) -> int | None:
        """Return the size to probe next, or None at the end.

        Doubles the size while it passes, then bisects between the passing and the failing size, then repeats the two
        sizes next to the boundary.
        """
        sizes = self.sizes()
        open_votes = next(
            (each.size for each in sizes if each.invalid and not each.given_up and not each.passed + each.failed), None
        )
        if open_votes is not None:
            return open_votes
        passed, failed = self._boundary(sizes)
        if failed and any(each.accepted and each.size > failed.size for each in sizes) and not failed.settled:
            return failed.size
        low = passed.size if passed else 0
        if failed is None:
            if low < self.maximum:
                return min(self.maximum, max(self.start, 2 * low))
        elif failed.size - low > 1:
            return (low + failed.size) // 2
        unsettled = [each for each in (passed, failed) if each and not each.settled]
        return min(unsettled, key=lambda each: each.passed + each.failed).size if unsettled else None

    def finding(self) -> Finding:
        """Return the result so far."""
        sizes = self.sizes()
        passed, failed = self._boundary(sizes)
        return Finding(
            density=passed.size if passed else 0,
            limited_by="maximum" if failed is None else INVALID if failed.given_up else FAIL,
            next_size=failed.size if failed else None,
            contradictions=[
                (low.size, high.size)
                for low in sizes
                for high in sizes
                if low.size < high.size and high.accepted and not low.accepted and not low.given_up
            ],
            decided=self.next_size() is None,
        )

    @staticmethod
    def _boundary(sizes: t.Sequence[Size]) -> tuple[Size | None, Size | None]:
        """Return the largest passing size below the smallest failing one, and that failing size."""
        failed = next((each for each in sizes if not each.accepted), None)
        return max(
            (each for each in sizes if each.accepted and (failed is None or each.size < failed.size)),
            key=lambda each: each.size,
            default=None,
        ), failed
