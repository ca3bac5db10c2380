# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the largest number of VMs that all meet the SLO is searched: which size to probe next, and what the probes say so far.

Nothing is remembered here but the probes themselves, so a search that was interrupted goes on from their record.

The SLO is met by a fleet of N or not, but a probe only says so with chance: near the boundary one of two probes may pass. So a size is
decided by the majority of its probes, and the last size that passes and the first that does not are probed until one side has the
majority of all the probes that a size may get. A size that fails more often than not is taken as a boundary even if a larger one passed; that
contradiction is probed again first, and reported if it stays.
"""

from __future__ import annotations

import dataclasses
import typing as t

PASS, FAIL, INVALID = "pass", "fail", "invalid"
# An invalid probe is no vote. A size that had so many is given up, and does not count as passed.
MAX_INVALID = 2


class Probe(t.NamedTuple):
    """One probe: the size of the fleet, and PASS, FAIL or INVALID."""

    size: int
    outcome: str


@dataclasses.dataclass(frozen=True)
class Size:
    """What the probes of one size say.

    Attributes:
        size: the number of hosts.
        passed, failed, invalid: how many of its probes.
        repeats: how many votes a size may get.
    """

    size: int
    passed: int
    failed: int
    invalid: int
    repeats: int

    @property
    def accepted(self) -> bool:
        """Whether the fleet meets the SLO at this size, so far."""
        return self.passed > self.failed

    @property
    def settled(self) -> bool:
        """Whether more probes cannot change that, or there are to be no more."""
        votes = self.passed + self.failed
        return max(self.passed, self.failed) > self.repeats // 2 or votes >= self.repeats or self.invalid >= MAX_INVALID

    @property
    def given_up(self) -> bool:
        """Whether it cannot be judged."""
        return self.invalid >= MAX_INVALID and not self.passed + self.failed


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a search has found.

    Attributes:
        density: the largest size that meets the SLO, 0 if none does.
        limited_by: why it is not larger: FAIL, INVALID (the next size could not be judged) or "maximum" (no larger one was to be probed).
        next_size: the size that does not meet it; None with "maximum".
        contradictions: pairs of a size that failed and a larger one that passed.
        decided: whether the search is at its end.
    """

    density: int
    limited_by: str
    next_size: int | None
    contradictions: list[tuple[int, int]]
    decided: bool


class DensitySearch:
    """A search between one host and a largest size.

    Args:
        maximum: the largest size.
        start: the first size.
        repeats: how many votes decide a size at the boundary; with an even number a tie is no pass.
    """

    def __init__(self, maximum: int, start: int = 1, repeats: int = 3) -> None:
        if not 1 <= start <= maximum or repeats < 1:
            raise ValueError(f"start {start}, maximum {maximum}, repeats {repeats}")
        self.maximum = maximum
        self.start = start
        self.repeats = repeats
        self._probes: list[Probe] = []

    def add(self, size: int, outcome: str) -> None:
        """Take the outcome of a probe."""
        self._probes.append(Probe(size, outcome))

    def sizes(self) -> list[Size]:
        """Return what is known of each size that was probed, the smallest first."""
        return [
            Size(
                size,
                *(sum(1 for probe in self._probes if probe == (size, outcome)) for outcome in (PASS, FAIL, INVALID)),
                self.repeats,
            )
            for size in sorted({probe.size for probe in self._probes})
        ]

    def next_size(self) -> int | None:
        """Return the size to probe next, or None at the end.

        Twice as large as long as all is well, then half-way between what passed and what did not; at the end the two sizes beside the
        boundary again.
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
        """Return what the probes say so far."""
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
        """Return the largest size that passes below the smallest one that does not, and that one."""
        failed = next((each for each in sizes if not each.accepted), None)
        return max(
            (each for each in sizes if each.accepted and (failed is None or each.size < failed.size)),
            key=lambda each: each.size,
            default=None,
        ), failed
