# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a comparison can claim: its A/A tests, which of its ratios survive Holm's correction, and the smallest effect
that it could have seen."""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    FIGURES,
    LEVEL,
    PairedRatio,
    paired_ratio,
    smallest_effect,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.student import holm

# The figures of runs, by their round.
Runs = t.Mapping[int, t.Mapping[str, float]]
_NAMES = {"avg_us": "average", "p99_us": "p99", "max_us": "maximum"}


class MeasuredArm(t.NamedTuple):
    """The figures of an arm.

    Attributes:
        name: of the arm.
        repeats: the name of the arm that it repeats for an A/A test; None otherwise.
        runs: the figures of each of its runs, by cell.
    """

    name: str
    repeats: str | None
    runs: t.Mapping[str, Runs]


def paired(mine: Runs, other: Runs) -> dict[str, PairedRatio | None]:
    """Return the ratio of each figure of two arms, over the rounds that both have; None where it cannot be had."""
    found, rounds = {}, sorted(mine.keys() & other.keys())
    for figure in FIGURES:
        values, others = [mine[number][figure] for number in rounds], [other[number][figure] for number in rounds]
        found[figure] = paired_ratio(values, others) if all(values) and all(others) else None
    return found


def significant(p_values: t.Sequence[t.Mapping[str, float | None]]) -> list[dict[str, bool | None]]:
    """Find the ratios of a comparison that are significant even though it has many of them.

    The ratios of one figure are corrected together, over all arms and cells: the probability that even one of them
    counts as significant by chance is at most 5 %.

    Args:
        p_values: of each figure of each ratio; None where there is none.
    """
    found: list[dict[str, bool | None]] = [dict.fromkeys(FIGURES) for _ratio in p_values]
    for figure in FIGURES:
        known = [(number, each[figure]) for number, each in enumerate(p_values)]
        tests = [(number, value) for number, value in known if value is not None]
        for (number, _value), corrected in zip(tests, holm([value for _number, value in tests])):
            found[number][figure] = corrected <= 1 - LEVEL
    return found


def aa_tests(arms: t.Sequence[MeasuredArm], cells: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the A/A tests of a comparison.

    Two arms that are the same must have a ratio of 1. All intervals of a test are judged together, so that a sound
    site fails it in at most 5 of 100 studies, however many cells there are.
    """
    by_name = {arm.name: arm for arm in arms}
    return [_aa_test(arm, by_name[arm.repeats], cells) for arm in arms if arm.repeats in by_name]


def _aa_test(arm: MeasuredArm, first: MeasuredArm, cells: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    rows, p_values, outside = [], [], []
    for cell in cells:
        name = configuration.cell_name(cell)
        if name not in arm.runs or name not in first.runs:
            continue
        ratios = paired(arm.runs[name], first.runs[name])
        rows.append(
            {
                **{key: cell[key] for key in ("influence", "read_mix")},
                "ratio": {figure: ratio and round(ratio.value, 3) for figure, ratio in ratios.items()},
                "ratio_interval": {figure: ratio and ratio.interval for figure, ratio in ratios.items()},
            }
        )
        for figure, ratio in ratios.items():
            if ratio and ratio.p_value is not None and ratio.interval:
                low, high = ratio.interval
                p_values.append(ratio.p_value)
                text = f"{_NAMES[figure]} at {configuration.cell_title(cell)}: {ratio.value:.3f}"
                outside += [] if ratio.p_value > 1 - LEVEL else [f"{text} ({low:.3f} to {high:.3f})"]
    return {
        "arm": arm.name,
        "repeats": first.name,
        "intervals": len(p_values),
        "hold_1": len(p_values) - len(outside),
        "holds": min(holm(p_values)) > 1 - LEVEL if p_values else None,
        "outside": outside,
        "cells": rows,
    }


def labels(tests: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return a label for each A/A test that failed."""
    return [
        f"the site is not as steady as the intervals claim: {test['arm']} and {test['repeats']} are the same, and yet "
        f"only {test['hold_1']} of {test['intervals']} intervals of their ratio include 1"
        for test in tests
        if test["holds"] is False
    ]


def noise(arms: t.Sequence[MeasuredArm], cells: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any] | None:
    """Compute how much runs vary, and the smallest effect that the comparison finds with a probability of 80 %.

    The variation is that of the A/A arms. Without these it is that of all arms and the first one, in which an effect
    that differs from round to round counts as well.

    Returns:
        None if no two arms have enough runs.
    """
    by_name = {arm.name: arm for arm in arms}
    again = [(arm, by_name[arm.repeats]) for arm in arms if arm.repeats in by_name]
    pairs = again or [(arm, arms[0]) for arm in arms[1:]]
    rows, rounds = [], 0
    for cell in cells:
        name = configuration.cell_name(cell)
        both = [(arm.runs[name], first.runs[name]) for arm, first in pairs if name in arm.runs and name in first.runs]
        ratios = [paired(mine, other) for mine, other in both]
        spreads = {
            figure: pooled_spread([ratio.spread for each in ratios if (ratio := each[figure])]) for figure in FIGURES
        }
        if any(spread is None for spread in spreads.values()):
            continue
        rounds = min(ratio.rounds for each in ratios for ratio in each.values() if ratio and ratio.interval)
        rows.append(
            {
                **{key: cell[key] for key in ("influence", "read_mix")},
                "spread": {figure: round(spread, 4) for figure, spread in spreads.items() if spread is not None},
                "smallest_effect": {
                    figure: round(smallest_effect(spread, rounds), 3)
                    for figure, spread in spreads.items()
                    if spread is not None
                },
            }
        )
    if not rows:
        return None
    names = [name for arm, first in pairs for name in (first.name, arm.name)]
    return {
        "source": "aa" if again else "pairs",
        "arms": list(dict.fromkeys(names)),
        "rounds": rounds,
        "cells": rows,
    }


def pooled_spread(spreads: t.Sequence[float | None]) -> float | None:
    """Return the common spread of several pairs of arms; None if none is known."""
    known = [spread for spread in spreads if spread is not None]
    return math.sqrt(statistics.fmean(spread**2 for spread in known)) if known else None
