# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several rounds say together: the typical density, its interval, and the ratio of two arms."""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import Crossing
from ansible_collections.memstretch.density.plugins.plugin_utils.run import student

# Rounds from which on there is an interval. Two rounds are shown as two values.
ENOUGH_ROUNDS = 3
_SHARE = 0.975
# The scatter that single windows cause is known from each ramp's own noise. It counts like this many further degrees of
# freedom, unless the rounds scatter more than it explains: then something else differs between them, and only the
# rounds themselves say how much.
_KNOWN_FREEDOM = 6
_EXPLAINED = 1.6

_NOTHING = 1e-9


class Rounds(t.NamedTuple):
    """What the ramps of an arm say.

    Attributes:
        density: the median over the rounds, in whole hosts.
        values: of each round, in whole hosts.
        interval: 95 %, in whole hosts; None with fewer than three rounds. Its upper end is None if a ramp ran out of
            hosts.
        span: from the largest size that met the objective to the smallest that did not, over all rounds; these two
            sizes bound what was seen, with any number of rounds. Its upper end is None if a ramp ran out of hosts.
        at_least: whether a ramp ran out of hosts.
        at_most: whether in the median ramp even the smallest fleet missed the objective, so that the density is less.
    """

    density: int
    values: list[int]
    interval: tuple[int, int | None] | None
    span: tuple[int, int | None]
    at_least: bool
    at_most: bool

    def as_document(self) -> dict[str, t.Any]:
        """Return it for density.json."""
        return {**self._asdict(), "interval": self.interval and list(self.interval), "span": list(self.span)}


class Ratio(t.NamedTuple):
    """How many times as many hosts an arm carries as the first one: as in Rounds, without whole numbers.

    An end is None where a ramp of the arm, or of the first one, ran out of hosts.
    """

    ratio: float
    values: list[float]
    interval: tuple[float | None, float | None] | None
    span: tuple[float | None, float | None]


class Ends(t.NamedTuple):
    """Interval and span of a density, as in Rounds, from the bounds of all its figures."""

    interval: list[int | None] | None
    span: list[int | None]


def ends(density: int, passes: Rounds, not_fails: Rounds) -> Ends:
    """Return the ends of a density.

    Args:
        density: it is not below its interval.
        passes: from upper bounds.
        not_fails: from lower bounds.
    """
    low, high = passes.interval, not_fails.interval
    return Ends(
        low and high and [min(density, low[0]), high[1]],
        [min(density, passes.span[0]), not_fails.span[1]],
    )


def summed(ramps: t.Sequence[Crossing]) -> Crossing:
    """Return where several machines cross their limits together in one round, in which their ramps run side by side.

    Each carries whole hosts, so whole hosts are added; only the sum has a fraction. It lies in its step where the
    machines lie in theirs on average, larger steps counting more.
    """
    low, high = sum(each.low for each in ramps), sum(each.high for each in ramps) - (len(ramps) - 1)
    if high < math.inf and all(each.low for each in ramps):
        widths = [each.high - each.low for each in ramps]
        places = [math.log(each.size / each.low) / math.log(each.high / each.low) for each in ramps]
        place = sum(place * width for place, width in zip(places, widths)) / sum(widths)
        size = low * (high / low) ** place
    else:
        whole = sum(_whole(math.log(each.size)) for each in ramps)
        size = _between(whole, statistics.fmean(_fraction(each.size) for each in ramps))
    return Crossing(
        size=size,
        low=low,
        high=high,
        scatter=math.hypot(*(each.size * each.scatter for each in ramps)) / size,
    )


def together(ramps: t.Sequence[Crossing], is_relative: bool = True) -> Rounds:
    """Return what the ramps of an arm say together.

    Args:
        ramps: at least one.
        is_relative: whether the references cancel the moods of the machine. An absolute limit feels them, and they last
            longer than a ramp, so there the noise of windows says little about how rounds differ.
    """
    at_least = any(each.is_open for each in ramps)
    at_most = 2 * sum(not each.low for each in ramps) >= len(ramps)
    logs = [math.log(each.size) for each in ramps]
    interval: tuple[int, int | None] | None = None
    if len(ramps) >= ENOUGH_ROUNDS:
        half = _half_width(logs, [each.scatter for each in ramps], [_half_step(each) for each in ramps], is_relative)
        middle = statistics.fmean(logs)
        # A few ramps that missed the objective from the start count as if they had crossed it just below: in simulated
        # studies the interval then holds the density as often, and is 1.6 wide instead of open.
        lowest = 0 if at_most else _whole(middle - half)
        interval = (lowest, None if at_least else _below(middle + half))
    return Rounds(
        density=_whole(statistics.median(logs)),
        values=[_whole(each) for each in logs],
        interval=interval,
        span=(
            int(min(each.low for each in ramps)),
            None if at_least else _below(math.log(max(each.high for each in ramps))),
        ),
        at_least=at_least,
        at_most=at_most,
    )


def ratio(ramps: t.Sequence[Crossing], base: t.Sequence[Crossing], is_relative: bool = True) -> Ratio:
    """Return how many times as many hosts an arm carries as the first one.

    Args:
        ramps: of the arm, one a round.
        base: of the first arm, in the same rounds.
        is_relative: as in together().
    """
    logs = [math.log(ours.size / theirs.size) for ours, theirs in zip(ramps, base)]
    open_above, open_below = any(each.is_open for each in ramps), any(each.is_open for each in base)
    ends: tuple[float, float] | None = None
    if len(logs) >= ENOUGH_ROUNDS:
        half = _half_width(
            logs,
            [math.hypot(ours.scatter, theirs.scatter) for ours, theirs in zip(ramps, base)],
            [_half_step(ours) + _half_step(theirs) for ours, theirs in zip(ramps, base)],
            is_relative,
        )
        middle = statistics.fmean(logs)
        ends = math.exp(middle - half), math.exp(middle + half)
    low = min(ours.low / theirs.high for ours, theirs in zip(ramps, base))
    high = max(ours.high / theirs.low if theirs.low else math.inf for ours, theirs in zip(ramps, base))

    def closed(pair: tuple[float, float]) -> tuple[float | None, float | None]:
        return (None if open_below else pair[0], None if open_above or pair[1] == math.inf else pair[1])

    return Ratio(
        ratio=math.exp(statistics.median(logs)),
        values=[math.exp(each) for each in logs],
        interval=ends and closed(ends),
        span=closed((low, high)),
    )


def ratio_document(passes: Ratio, not_fails: Ratio) -> dict[str, t.Any]:
    """Return a ratio for density.json, with the ends as in ends()."""

    def rounded(low: float | None, high: float | None) -> list[float | None]:
        return [low and round(low, 3), high and round(high, 3)]

    return {
        "ratio": round(passes.ratio, 3),
        "values": [round(each, 3) for each in passes.values],
        "interval": passes.interval and not_fails.interval and rounded(passes.interval[0], not_fails.interval[1]),
        "span": rounded(passes.span[0], not_fails.span[1]),
    }


def _half_width(
    logs: t.Sequence[float], scatters: t.Sequence[float], half_steps: t.Sequence[float], is_relative: bool
) -> float:
    """Return half the width of the 95 % interval of a mean of logarithms."""
    rounds = len(logs)
    between, within = statistics.variance(logs), statistics.fmean(each * each for each in scatters)
    freedom = rounds - 1
    if is_relative and between <= _EXPLAINED * within:
        between = (freedom * between + _KNOWN_FREEDOM * within) / (freedom + _KNOWN_FREEDOM)
        freedom += _KNOWN_FREEDOM
    return math.hypot(student.quantile(_SHARE, freedom) * math.sqrt(between / rounds), statistics.fmean(half_steps))


def _half_step(ramp: Crossing) -> float:
    """Return half the distance, in logarithms, between the last size that met the objective and the next one."""
    if ramp.is_open or not ramp.low:
        return 0.0
    return math.log(ramp.high / ramp.low) / 2


def _fraction(size: float) -> float:
    """Return how far a size is from its whole hosts to the next host, as a share of this distance in logarithms."""
    whole = _whole(math.log(size))
    return max(0.0, math.log(size / whole) / math.log1p(1 / whole)) if whole else size


def _between(whole: int, fraction: float) -> float:
    """Return the size that is so far from whole hosts to the next host."""
    return whole * (1 + 1 / whole) ** fraction if whole else fraction


def _whole(logarithm: float) -> int:
    """Return the whole hosts that a fractional size holds."""
    return math.floor(math.exp(logarithm) * (1 + _NOTHING))


def _below(logarithm: float) -> int:
    """Return the most whole hosts below a size that was beyond the limit."""
    return math.ceil(math.exp(logarithm) * (1 - _NOTHING)) - 1
