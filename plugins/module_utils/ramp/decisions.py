# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ramp decides by itself, from numbers alone: is reclaim steady, is a window disturbed, is this the end?"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.budget_fit import rounded

# Group and compressed memory may hold so much of the budget while servers join.
MOST_CHARGED = 1.02
# Reclaim is steady if no more goes out than comes in, but for this share and this many pages a second.
_OUT_SHARE, _OUT_PAGES = 1.1, 100.0
# A window is compared with so many clean ones before it, once there are as many as the least.
_CURVE, _LEAST_CURVE = 5, 3
# ... of fleets that are not much smaller, since the CPUs make the references of a larger one slower.
_SIMILAR = 1.5
# References leave their curve if their average or their p99 is so many times the median of those windows ...
OFF_AVERAGE, OFF_P99 = 1.3, 1.6
# ... unless page-ins or the tier's CPU work have grown by this factor and this much a second.
_MORE, _MORE_PAGES, _MORE_CPU = 1.5, 500.0, 0.05
# If the references agree in this many windows in a row, nothing disturbs the machine: it is like that now.
_REGIME = 5
_LOOKS_WITHOUT_HOPE = 2
# So many windows from the start of a ramp say how fast idle DRAM is in it, at most.
IDLE_LOOKS = 3
# An objective is missed clearly by this factor, or at so many sizes in a row by this one on average. With less, a
# gentle curve would be cut off where it crosses.
_CLEARLY, _IN_A_ROW, _ON_AVERAGE = 2.0, 3, 1.15
# A server that was killed while it joined alone is tried so often once more.
_RETRIES = 1


class Figures(t.NamedTuple):
    """What a window says in short.

    Attributes:
        fleet_avg, fleet_p99, reference_avg, reference_p99: in nanoseconds, of the bound that is compared; None without
            requests, or if that bound is 0.
        page_ins, tier_cpu: a second.
    """

    fleet_avg: float | None
    fleet_p99: float | None
    reference_avg: float | None
    reference_p99: float | None
    page_ins: float
    tier_cpu: float


def is_steady(page_ins: float, page_outs: float) -> bool:
    """Return whether reclaim is steady, from pages a second."""
    return page_outs <= _OUT_SHARE * page_ins + _OUT_PAGES


class Curve:
    """The references of a ramp: what the machine alone does, smooth but for disturbances."""

    def __init__(self) -> None:
        self._clean: list[tuple[int, Figures]] = []
        self._off: list[tuple[int, Figures]] = []

    def left(self, size: int, now: Figures) -> str:
        """Return how the references have left their curve while page-ins and the tier have not; empty if they have
        not.
        """
        before = [figures for other, figures in self._clean if size <= _SIMILAR * other][-_CURVE:]
        if now.reference_avg is None or now.reference_p99 is None or len(before) < _LEAST_CURVE:
            return ""
        if _grew(now.page_ins, [each.page_ins for each in before], _MORE_PAGES):
            return ""
        if _grew(now.tier_cpu, [each.tier_cpu for each in before], _MORE_CPU):
            return ""
        average = now.reference_avg / statistics.median(t.cast(float, each.reference_avg) for each in before)
        p99 = now.reference_p99 / statistics.median(t.cast(float, each.reference_p99) for each in before)
        if average <= OFF_AVERAGE and p99 <= OFF_P99:
            return ""
        return f"references x {average:.2f} on average and x {p99:.2f} at the p99 of their curve"

    def add(self, size: int, now: Figures, disturbed: bool) -> None:
        """Take a window. Windows that agree with one another, but not with the curve, begin a new one."""
        if now.reference_avg is None or now.reference_p99 is None:
            return
        if not disturbed:
            self._clean.append((size, now))
            self._off.clear()
            return
        self._off.append((size, now))
        averages = [t.cast(float, each.reference_avg) for _size, each in self._off[-_REGIME:]]
        if len(averages) == _REGIME and max(averages) <= OFF_AVERAGE * min(averages):
            self._clean, self._off = self._off[-_REGIME:], []


def _grew(now: float, before: t.Sequence[float], least: float) -> bool:
    return now > _MORE * statistics.median(before) + least


def disturbed(sample: t.Mapping[str, t.Any], stolen_limit: float) -> str:
    """Return why the machine disturbed a window; empty if it did not.

    One tick of a hundredth of a second is the least that the kernel counts, so one alone says nothing.
    """
    if sample["stolen_ticks"] > 1 and (sample["stolen_cpu"] or 0) > stolen_limit:
        return f"{100 * sample['stolen_cpu']:.2g} % of a CPU stolen"
    return ""


def looks(most: int, waited: float, may_wait: float) -> int:
    """Return how often a ramp looks at one size while its windows are disturbed.

    Args:
        most: looks as long as the machine may become quiet.
        waited: for how long the ramp has waited for that, in seconds.
        may_wait: for how long it may. A machine that was not quiet in all this time will not be.
    """
    return most if waited < may_wait else min(most, _LOOKS_WITHOUT_HOPE)


def is_carried(size: int, fits: float) -> bool:
    """Return whether a fleet shows idle DRAM, of which so many servers fit: all of it, and not much less."""
    return fits <= 2 * size <= 2 * fits


def idle_dram(own: t.Sequence[float], usual: float) -> float:
    """Return a figure of idle DRAM in a ramp.

    Args:
        own: that of its first windows of fleets that DRAM carries. One is noisy, so the plateau counts like one more.
        usual: that of the plateau.
    """
    if not own:
        return usual
    weight = len(own) / (len(own) + 1)
    return statistics.median(own) ** weight * usual ** (1 - weight)


class Idle:
    """How fast idle DRAM is in a ramp: what its first windows show, while DRAM carries the fleet, and the plateau.

    Args:
        plateau: how fast it was in the ramps in DRAM, and how many servers fit; None if that is unknown.

    Attributes:
        look_again: whether the first window differs so much from the plateau that further looks must show whether the
            machine has changed.
    """

    def __init__(self, plateau: t.Mapping[str, float] | None) -> None:
        self._plateau = _nanoseconds(plateau) if plateau else None
        self._fits = plateau["fits"] if plateau else 0
        self._found: list[tuple[float, float]] = []
        self.look_again = False

    def add(self, size: int, figures: Figures | None) -> None:
        """Take a window, None if it was disturbed."""
        self.look_again = False
        if not figures or len(self._found) == IDLE_LOOKS or not is_carried(size, self._fits):
            return
        if None in figures[:4]:
            return
        fleet_avg, fleet_p99, reference_avg, reference_p99 = t.cast("tuple[float, float, float, float]", figures[:4])
        # The two wait alike here, so both say how fast idle DRAM is.
        self._found.append((math.sqrt(fleet_avg * reference_avg), math.sqrt(fleet_p99 * reference_p99)))
        self.look_again = len(self._found) < IDLE_LOOKS and self._differs()

    def _differs(self) -> bool:
        limits = zip(zip(*self._found), self._plateau or (), (OFF_AVERAGE, OFF_P99))
        factors = ((statistics.median(own) / usual, most) for own, usual, most in limits)
        return any(max(factor, 1 / factor) > most for factor, most in factors)

    def figures(self) -> tuple[float, float] | None:
        """Return average and p99 in nanoseconds; those of the plateau before the first window, None without one."""
        if not self._found or not self._plateau:
            return self._plateau
        average, p99 = (idle_dram(own, usual) for own, usual in zip(zip(*self._found), self._plateau))
        return average, p99


def misses(objective: t.Mapping[str, t.Any], figures: Figures, idle: tuple[float, float] | None) -> float | None:
    """Return by which factor a window misses its objective, at the worse of average and p99; None if it is unknown.

    Args:
        objective: of the plan.
        figures: of the window.
        idle: average and p99 of idle DRAM in nanoseconds; None if they are unknown.
    """
    fleet = (figures.fleet_avg, figures.fleet_p99)
    pairs: list[tuple[float | None, float | None]] = []
    if objective["kind"] == "absolute":
        pairs += zip(fleet, _nanoseconds(objective))
    else:
        references = (figures.reference_avg, figures.reference_p99)
        pairs += zip(fleet, references)
        if idle:
            pairs += zip(references, idle)
    found = [value / limit for value, limit in pairs if value is not None and limit]
    return max(found) / objective.get("factor", 1) if found else None


def _nanoseconds(limits: t.Mapping[str, float]) -> tuple[float, float]:
    return 1000 * limits["avg_us"], 1000 * limits["p99_us"]


class Misses:
    """The windows of a ramp and their objective: when is it clear that no larger fleet meets it?

    Args:
        objective: None if there is none.
        has_drive: whether pages come back from a drive.

    Attributes:
        look_again: whether the last window missed it so clearly that a second look at its size must confirm that, or
            idle DRAM must be looked at again.
        near: whether the last clean window missed it, so that the end is near.
        leap: whether the next step must be a large one. A drive makes a fleet slower as soon as one request in a
            hundred waits for a page, and serves its pages faster the more it is asked for. So windows that miss the
            objective by little do not show that a larger fleet misses it, too.
    """

    def __init__(self, objective: t.Mapping[str, t.Any] | None, has_drive: bool = False) -> None:
        self._objective, self.look_again, self.leap = objective, False, False
        self._idle = Idle(objective.get("plateau") if objective else None)
        self._in_a_row: dict[int, float] = {}
        self._clearly_at: int | None = None
        self._has_drive = self._may_leap = has_drive

    @property
    def near(self) -> bool:
        return bool(self._in_a_row)

    def add(self, size: int, figures: Figures | None) -> str:
        """Take a window, None if it was disturbed; return why the ramp ends, or an empty text."""
        self.leap = False
        self._idle.add(size, figures)
        self.look_again = self._idle.look_again
        factor = misses(self._objective, figures, self._idle.figures()) if self._objective and figures else None
        if factor is None:
            return ""
        if factor <= 1:
            self._in_a_row.clear()
            self._may_leap = self._has_drive
            return ""
        self._in_a_row[size] = factor
        if factor > _CLEARLY:
            if self._clearly_at == size:
                return f"the lower bound misses the objective by a factor of {factor:.3g}, in two windows"
            self._clearly_at, self.look_again = size, True
            return ""
        last = list(self._in_a_row.values())[-_IN_A_ROW:]
        if len(last) == _IN_A_ROW and statistics.mean(last) >= _ON_AVERAGE:
            if self._may_leap:
                self._may_leap, self.leap = False, True
                return ""
            return (
                f"the lower bound misses the objective at {_IN_A_ROW} sizes in a row, by a factor of "
                f"{statistics.mean(last):.3g} on average"
            )
        return ""


class Kills:
    """The servers of a ramp that were killed before their step had settled: when is it clear that one does not fit?

    Attributes:
        alone: whether servers join one at a time from now on. Several that are filled at once need room for all of
            them, so a kill among them says little.
    """

    def __init__(self) -> None:
        self.alone = False
        self._while_alone: dict[str, int] = {}

    def add(self, name: str, others: int) -> bool:
        """Take the kill of a server next to so many others that had not settled; return whether it does not fit."""
        self.alone = True
        if others:
            return False
        self._while_alone[name] = 1 + self._while_alone.get(name, 0)
        return self._while_alone[name] > _RETRIES


def is_within(charged_bytes: int | None, budget_bytes: int) -> bool:
    """Return whether the charged DRAM is within what joining may take; it is not if nobody knows it."""
    return charged_bytes is not None and charged_bytes <= rounded(MOST_CHARGED * budget_bytes)
