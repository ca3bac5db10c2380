# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The knee of vm.dirty_bytes: the setting that protects synchronous writes at an acceptable price, and its interval.

All comparisons are paired within a repetition: what disturbs the machine for some seconds then affects both sides.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
import typing as t

# The share of the baseline's sequential throughput that a setting must keep.
MIN_SEQUENTIAL = 0.85
# A setting counts as equal to the best one from this share of it on, less one standard error of the comparison.
EQUAL = 0.95
# Fewer repetitions give no interval of the gain.
MIN_REPETITIONS = 3
# Fewer repetitions give no interval of the knee: three of them have ten different resamples only.
MIN_FOR_LIMITS = 5
LEVEL = 0.95
_RESAMPLES = 200
# Student's t for an interval of 95 %, by degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2); then the normal one.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL = 1.960


@dataclasses.dataclass(frozen=True)
class Trial:
    """What one setting reached in each repetition.

    Attributes:
        limit: the dirty limit in bytes that was in force.
        queue: the settings of the disk's queue that differ from its own.
        sequential: bytes per second in sequence.
        recovered: the share of the idle host's synchronous writes, above 0, in the cell that has least of it.
    """

    limit: int
    queue: tuple[tuple[str, t.Any], ...]
    sequential: tuple[float, ...]
    recovered: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Knee:
    """The answer of an experiment.

    Attributes:
        place: the place of the chosen trial, or None if there is no knee.
        reason: why there is none.
        limits: the smallest and the largest dirty limit that 95 % of resampled repetitions choose; None with fewer than
            MIN_FOR_LIMITS repetitions.
        gain: how many times as many synchronous writes as under the baseline, with the bounds of its interval.
    """

    place: int | None
    reason: str
    limits: tuple[int, int] | None
    gain: tuple[float, float, float] | None


def find(trials: t.Sequence[Trial]) -> Knee:
    """Return the knee among the trials. The first one is the baseline.

    A knee is only accepted if the interval of its gain is above 1. The gain in a repetition is that of the setting
    which the other repetitions choose, so it does not profit from the choice (cross-validation).
    """
    everything = list(range(len(trials[0].recovered)))
    chosen = _choose(trials, everything)
    if len(everything) < MIN_REPETITIONS:
        return Knee(chosen or None, "" if chosen else _no_gain(trials, everything), None, None)
    gain = _interval(
        [
            math.log(
                trials[_choose(trials, [other for other in everything if other != repetition])].recovered[repetition]
                / trials[0].recovered[repetition]
            )
            for repetition in everything
        ]
    )
    if not chosen:
        return Knee(None, _no_gain(trials, everything), None, gain)
    if gain[1] <= 1:
        reason = (
            f"the best setting changes synchronous writes by a factor of {gain[0]:.2f}, with an interval of "
            f"{gain[1]:.2f} to {gain[2]:.2f} over {len(everything)} repetitions; it includes 1"
        )
        return Knee(None, reason, None, gain)
    return Knee(chosen, "", _limits(trials, everything), gain)


def _limits(trials: t.Sequence[Trial], repetitions: t.Sequence[int]) -> tuple[int, int] | None:
    """Return the interval of the knee: the dirty limits that resampled repetitions choose."""
    if len(repetitions) < MIN_FOR_LIMITS:
        return None
    generator = random.Random(len(repetitions))  # a fixed seed: evaluating again gives the same interval
    limits = sorted(
        trials[_choose(trials, generator.choices(repetitions, k=len(repetitions)))].limit for _draw in range(_RESAMPLES)
    )
    tail = int((1 - LEVEL) / 2 * _RESAMPLES)
    return limits[tail], limits[-1 - tail]


def _choose(trials: t.Sequence[Trial], repetitions: t.Sequence[int]) -> int:
    """Return the place of the setting that these repetitions choose; 0, the baseline, if none is better."""
    allowed = _allowed(trials, repetitions)
    best = max(allowed, key=lambda place: _mean_log(trials[place].recovered, repetitions))
    near = [place for place in allowed if _is_near(trials[place], trials[best], repetitions)]
    return max(near, key=lambda place: (trials[place].limit, -len(trials[place].queue), -place))


def _allowed(trials: t.Sequence[Trial], repetitions: t.Sequence[int]) -> list[int]:
    """Return the places of the settings that keep enough sequential throughput; the baseline does."""
    return [
        place
        for place, trial in enumerate(trials)
        if statistics.median(trial.sequential[each] / trials[0].sequential[each] for each in repetitions)
        >= MIN_SEQUENTIAL
    ]


def _mean_log(values: t.Sequence[float], repetitions: t.Sequence[int]) -> float:
    return statistics.fmean(math.log(values[each]) for each in repetitions)


def _is_near(trial: Trial, best: Trial, repetitions: t.Sequence[int]) -> bool:
    """Check whether a setting is as good as the best one, within one standard error of the comparison."""
    logs = [math.log(trial.recovered[each] / best.recovered[each]) for each in repetitions]
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return statistics.fmean(logs) + error >= math.log(EQUAL)


def _no_gain(trials: t.Sequence[Trial], repetitions: t.Sequence[int]) -> str:
    if len(trials) > 1 and len(_allowed(trials, repetitions)) == 1:
        return f"every other setting keeps less than {MIN_SEQUENTIAL:.0%} of the sequential throughput"
    return "no other setting recovers more synchronous writes than the baseline"


def _interval(logs: t.Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean and its interval of 95 %, from logarithms."""
    freedom = len(logs) - 1
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL + 2.4 / freedom
    middle, half = statistics.fmean(logs), student * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)
