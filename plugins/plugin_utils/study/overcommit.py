# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets that are a given multiple of what fits into DRAM: their latency, and the share of the gap that a profile
closes.

The gap is between the first profile and DRAM alone: share = (first - profile) / (first - dram). The latency in DRAM
comes from the calibration, at half of what fits, since DRAM alone does not carry such a fleet.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram, student
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import INVALID
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import LEVEL, PAIRS_FOR_AN_INTERVAL
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import USED_UP, DensitySearch

# Both must be close to those of DRAM, so the smaller share counts.
FIGURES = ("avg_us", "p99_us")

_Run = t.Mapping[str, t.Any]


class GivenSizes(DensitySearch):
    """Probes the same sizes again and again until its probes are used, whatever their outcome.

    Args:
        definition: of the search.
        fitting: the number of hosts that fit into DRAM.
    """

    def __init__(self, definition: t.Mapping[str, t.Any], fitting: int) -> None:
        super().__init__(definition["maximum"], definition["probes"], definition["factor"])
        self._sizes = sizes(definition, fitting)

    @property
    def stopped_by(self) -> str | None:
        """USED_UP or INVALID; None as long as probes are left."""
        stopped = super().stopped_by
        if stopped == INVALID or self.repeats:
            return stopped
        return USED_UP if self.probed >= self.budget else None

    def next_size(self) -> int | None:
        """Return the size to probe next, or None at the end."""
        if self.stopped_by:
            return None
        return self.discarded[-1] if self.repeats else self._sizes[self.probed % len(self._sizes)]


def sizes(definition: t.Mapping[str, t.Any], fitting: int) -> list[int]:
    """Return the sizes of the fleets, none above the largest one that the search may use.

    Args:
        definition: of the search.
        fitting: the number of hosts that fit into DRAM.
    """
    wanted = (min(definition["maximum"], max(1, math.floor(each * fitting))) for each in definition["overcommit"])
    return list(dict.fromkeys(wanted))


def found(document: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return C(overcommit) of density.json: an entry for each size and profile; docs/study.md explains it."""
    calibration, arms = document["calibration"], [arm["name"] for arm in document["definition"]["arms"]]
    entries = []
    for size in sizes(document["definition"], calibration["fitting"]):
        rounds = {arm: _rounds(document, arm, size) for arm in arms}
        valid = {arm: list(runs.values()) for arm, runs in rounds.items()}
        entries += [
            {
                "size": size,
                "times": round(size / calibration["fitting"], 3),
                "name": arm,
                "probes": len(valid[arm]),
                "why_not": _why_not(valid[arm]),
                **{figure: _mean(_figures(valid[arm], figure)) for figure in FIGURES},
                "cpu_us": _mean([(run.get("cpu") or {}).get("total_us") for run in valid[arm]]),
                "closed": None if arm == arms[0] else _closed(rounds[arm], rounds[arms[0]], calibration),
            }
            for arm in arms
        ]
    return entries


def _rounds(document: t.Mapping[str, t.Any], arm: str, size: int) -> dict[int, _Run]:
    """Return the valid probes of an arm with a fleet of a size, by their round.

    A probe that was given up, because all its attempts were invalid, leaves its round without one.
    """
    search, found, round_ = GivenSizes(document["definition"], document["calibration"]["fitting"]), {}, 0
    for run in document["runs"]:
        if (run["arm"], run["size"]) == (arm, size):
            if run["outcome"] != INVALID:
                found[round_] = run
            search.add(size, run["outcome"])
            round_ = search.probed
    return found


def _why_not(runs: t.Sequence[_Run]) -> str:
    """Return why the latency of a fleet is no latency under its DRAM budget; an empty text if it is one."""
    if not runs:
        return "not measured"
    if any(map(charged_dram.is_too_large, runs)):
        return "does not fit"
    lost = sorted({host for run in runs for host in run["lost"]})
    return f"lost {', '.join(lost)}" if lost else ""


def _figures(runs: t.Sequence[_Run], figure: str) -> list[float | None]:
    return [run[f"worst_host_{figure}"] for run in runs]


def _mean(values: t.Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(f"{statistics.fmean(known):.4g}") if known and len(known) == len(values) else None


def _closed(
    runs: t.Mapping[int, _Run], first: t.Mapping[int, _Run], in_dram: t.Mapping[str, float]
) -> dict[str, t.Any] | None:
    """Return the share of the gap that a profile closes, by figure, and C(both), the smaller of them.

    None if one of the two was not measured, or not under the DRAM budget.

    Args:
        runs: the probes of the profile by round.
        first: those of the first profile.
        in_dram: the latency in DRAM.
    """
    both = sorted(runs.keys() & first.keys())
    if not both or _why_not(list(runs.values())) or _why_not(list(first.values())):
        return None
    shares = {}
    for figure in FIGURES:
        ours, theirs = (_figures([probes[number] for number in both], figure) for probes in (runs, first))
        if None in (*ours, *theirs):
            return None
        shares[figure] = closed(t.cast("list[float]", ours), t.cast("list[float]", theirs), in_dram[figure])._asdict()
    return {**shares, "both": _both(list(shares.values()))}


def _both(shares: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the smaller share, and the interval that holds it: the lower of the two ends on both sides."""
    if not all(share["gap"] for share in shares):
        return Closed(False)._asdict()
    intervals = [share["interval"] for share in shares]
    ends = None if None in intervals else [min(interval[end] for interval in intervals) for end in (0, 1)]
    return Closed(True, min(share["estimate"] for share in shares), ends)._asdict()


class Closed(t.NamedTuple):
    """The share of a gap.

    Attributes:
        gap: whether there is one: whether the first profile is slower than DRAM, beyond what chance explains.
        estimate: the share; 1 is as fast as DRAM, 0 as slow as the first profile, below 0 slower. None without a gap.
        interval: the 95 % interval; None without a gap, and with fewer than three rounds.
    """

    gap: bool
    estimate: float | None = None
    interval: list[float] | None = None


def closed(values: t.Sequence[float], first: t.Sequence[float], in_dram: float) -> Closed:
    """Return the share of the gap between two latencies that a third one closes.

    The probes of a round are a pair. The share is a ratio of two means over the rounds, (first - value) and
    (first - in_dram), so its interval is Fieller's (E. C. Fieller, Some problems in interval estimation, Journal of the
    Royal Statistical Society B 16, 1954). It has no bounds if the interval of the gap holds 0: then no gap is certain.
    The latency in DRAM is taken as exact.

    Args:
        values: the latency of a profile in each round.
        first: that of the first profile in the same rounds.
        in_dram: that of DRAM alone.
    """
    rounds = len(values)
    gained = [other - value for value, other in zip(values, first)]
    gaps = [other - in_dram for other in first]
    gain, gap = statistics.fmean(gained), statistics.fmean(gaps)
    if gap <= 0:
        return Closed(False)
    estimate = round(gain / gap, 3)
    if rounds < PAIRS_FOR_AN_INTERVAL:
        return Closed(True, estimate)
    squared = student.quantile((1 + LEVEL) / 2, rounds - 1) ** 2 / rounds
    of_gap, of_gain = squared * statistics.variance(gaps), squared * statistics.variance(gained)
    below = gap * gap - of_gap
    if below <= 0:
        return Closed(False)
    middle = gain * gap - squared * _covariance(gained, gaps)
    reach = math.sqrt(max(0.0, middle * middle - below * (gain * gain - of_gain)))
    return Closed(True, estimate, [round((middle - reach) / below, 3), round((middle + reach) / below, 3)])


def _covariance(ones: t.Sequence[float], others: t.Sequence[float]) -> float:
    """Return the covariance of pairs; statistics.covariance() is of Python 3.10."""
    one, other = statistics.fmean(ones), statistics.fmean(others)
    return sum((a - one) * (b - other) for a, b in zip(ones, others)) / (len(ones) - 1)
