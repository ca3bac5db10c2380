# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Search the candidates of a profile's settings for those that make a fleet faster.

Screening halves the candidates: a few rounds, each with the unchanged profile and every candidate that is left, and the
slower half is dropped. What screening shows is too good to be true, because it picks the luckiest. So the few that are
left are confirmed in new rounds, and only these count: Student's t over the pairs of runs, Holm's correction for the
number of candidates that are confirmed. Where several settings are confirmed, they are measured together at last.

The search has no state on disk. It calls measure() for one run after another; an interrupted search is run again, and
measure() returns what it has measured before.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    LEVEL,
    PAIRS_FOR_AN_INTERVAL,
    PairedRatio,
    paired_ratio,
    smallest_effect,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.student import holm
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import Arm, schedule
from ansible_collections.memstretch.density.plugins.plugin_utils.study.significance import pooled_spread

# This many candidates are confirmed, few enough that each of them gets many rounds.
FINALISTS = 3
# One of these figures is optimised; the other must not get worse.
FIGURES = ("avg_us", "p99_us")
SCREENING, CONFIRMATION, TOGETHER = "screening", "confirmation", "together"

# What is changed in the profile: names of candidates. None are changed in the baseline.
Changes = t.Tuple[str, ...]
BASELINE: Changes = ()


class Outcome(t.NamedTuple):
    """What the attempts at a run have shown.

    Attributes:
        cells: average and p99 of each cell; None if the run cannot be judged.
        seconds: what the attempts took.
        unfit: why these changes must not be measured again; empty if they may be.
    """

    cells: t.Mapping[str, t.Mapping[str, float]] | None
    seconds: float
    unfit: str = ""


# Measures a profile with changes in a round of a stage.
Measure = t.Callable[[Changes, int, str], Outcome]


class SearchSettings(t.NamedTuple):
    """How a search is made.

    Attributes:
        figure: that is optimised, one of FIGURES.
        screening_rounds: rounds before the slower half is dropped.
        rounds: rounds of a confirmation.
        seconds: the most that all runs may take.
    """

    figure: str = FIGURES[0]
    screening_rounds: int = 2
    rounds: int = 12
    seconds: float = math.inf

    @property
    def guard(self) -> str:
        """The figure that must not become worse."""
        return FIGURES[1 - FIGURES.index(self.figure)]


class Optimization:
    """A search for the candidates that beat the unchanged profile.

    Args:
        settings: the setting of each candidate, by the candidate's name.
        measure: measures a run.
        search: how the search is made.
        say: receives lines for the terminal.
    """

    def __init__(
        self,
        settings: t.Mapping[str, str],
        measure: Measure,
        search: SearchSettings,
        say: t.Callable[[str], None] = lambda line: None,
    ) -> None:
        self._settings = settings
        self._measure = measure
        self._search = search
        self._say = say
        self._figures: dict[Changes, dict[int, dict[str, float]]] = {}
        self._unfit: dict[Changes, str] = {}
        self._rounds = self._runs = 0
        self._spent = 0.0

    def run(self) -> dict[str, t.Any]:
        """Make the search and return its result: see C(result) in docs/schemas/optimize.json."""
        stages: list[dict[str, t.Any]] = []
        finalists = self._screen(stages)
        tests = self._confirm(finalists, stages)
        best = self._best_of_each_setting([test for test in tests if test["confirmed"]])
        proposed = [test["candidate"] for test in best]
        together = self._together(best, stages) if len(best) > 1 else None
        if len(best) > 1 and not (together and together["confirmed"]):
            proposed = proposed[:1]
        return {
            "stages": stages,
            "set_aside": [
                {"candidates": list(changes), "reason": reason} for changes, reason in self._unfit.items() if reason
            ],
            "confirmation": tests,
            "together": together,
            "proposed": proposed,
            "smallest_effect": self._smallest_effect(tests),
            "seconds": round(self._spent, 1),
        }

    # --- stages ---------------------------------------------------------------------------------------------------

    def _screen(self, stages: list[dict[str, t.Any]]) -> list[str]:
        """Halve the candidates until a few are left, or until the time for more is over; return them, best first."""
        left = list(self._settings)
        while left:
            first = self._rounds + 1
            for _round in range(self._search.screening_rounds):
                if self._rounds and not self._affords_screening(len(left)):
                    self._say("The time budget leaves no more rounds of screening.")
                    break
                self._measure_round([(name,) for name in left], SCREENING)
            left = self._ranked(left)
            stages.append(self._stage(SCREENING, first, [(name,) for name in left]))
            is_over = self._rounds < first + self._search.screening_rounds - 1
            few = FINALISTS if is_over else max(FINALISTS, math.ceil(len(left) / 2))
            left, dropped = left[:few], left[few:]
            if dropped:
                self._say(f"Screening dropped {', '.join(dropped)}")
            if len(left) <= FINALISTS:
                break
        return left

    def _confirm(self, finalists: list[str], stages: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
        """Measure the finalists in new rounds and return the test of each."""
        while len(finalists) > 1 and self._affordable_rounds(len(finalists)) < PAIRS_FOR_AN_INTERVAL:
            self._say(f"The time budget leaves no rounds to confirm {finalists[-1]}")
            finalists = finalists[:-1]
        arms: list[Changes] = [(name,) for name in finalists]
        first = self._measure_stage(arms, CONFIRMATION, stages)
        tests = [self._test(name, first) for name in finalists if not self._unfit.get((name,))]
        known = [test for test in tests if test["p_value"] is not None]
        for test, corrected in zip(known, holm([test["p_value"] for test in known])):
            test["corrected_p_value"] = round(corrected, 6)
            self._judge(test, corrected)
        return sorted(tests, key=lambda test: test["ratio"] or math.inf)

    def _together(self, best: list[dict[str, t.Any]], stages: list[dict[str, t.Any]]) -> dict[str, t.Any] | None:
        """Measure the best candidate alone and with those of the other settings; return the test of all together."""
        alone, all_of_them = (best[0]["candidate"],), tuple(test["candidate"] for test in best)
        first = self._measure_stage([alone, all_of_them], TOGETHER, stages)
        ratio, single = (
            self._ratio(all_of_them, self._search.figure, first),
            self._ratio(alone, self._search.figure, first),
        )
        if not ratio or not single or self._unfit.get(all_of_them):
            return None
        found = {"candidates": list(all_of_them), **self._described(all_of_them, first), "best_alone": single.value}
        self._judge(found, ratio.p_value)
        if found["confirmed"] and ratio.value >= single.value:
            found.update(confirmed=False, why_not=f"{alone[0]} alone is as good")
        return found

    def _measure_stage(self, arms: t.Sequence[Changes], stage: str, stages: list[dict[str, t.Any]]) -> int:
        """Measure new rounds, as many as the time allows, and return the first one's number."""
        first, rounds = self._rounds + 1, min(self._search.rounds, self._affordable_rounds(len(arms)))
        if arms and rounds >= PAIRS_FOR_AN_INTERVAL:
            for done in range(rounds):
                if done >= PAIRS_FOR_AN_INTERVAL and not self._affordable_rounds(len(arms)):
                    break
                self._measure_round(arms, stage)
        stages.append(self._stage(stage, first, arms))
        return first

    def _measure_round(self, arms: t.Sequence[Changes], stage: str) -> None:
        """Measure the baseline and all arms that are fit, once each, in the next order of a Williams design."""
        self._rounds += 1
        wanted = [BASELINE, *(arm for arm in arms if not self._unfit.get(arm))]
        order = schedule([Arm(str(number), {}) for number in range(len(wanted))], "interleaved", self._rounds)
        for arm in [wanted[int(each.name)] for each, number in order if number == self._rounds]:
            outcome = self._measure(arm, self._rounds, stage)
            self._spent += outcome.seconds
            self._runs += 1
            if outcome.unfit:
                self._unfit[arm] = outcome.unfit
            elif outcome.cells:
                self._figures.setdefault(arm, {})[self._rounds] = log_means(outcome.cells)

    def _stage(self, kind: str, first: int, arms: t.Sequence[Changes]) -> dict[str, t.Any]:
        return {
            "kind": kind,
            "rounds": list(range(first, self._rounds + 1)),
            "arms": [{"candidates": list(arm), **self._described(arm, first)} for arm in arms],
        }

    # --- time -----------------------------------------------------------------------------------------------------

    def _affordable_rounds(self, arms: int) -> int:
        """Count how many rounds of this many arms and the baseline the time allows, if runs take as long as before."""
        if not self._spent or math.isinf(self._search.seconds):
            return self._search.rounds
        left = self._search.seconds - self._spent
        return max(0, math.floor(left * self._runs / self._spent / (arms + 1)))

    def _affords_screening(self, arms: int) -> bool:
        """Decide whether a round of screening leaves the time for a whole confirmation."""
        runs = arms + 1 + (min(FINALISTS, arms) + 1) * self._search.rounds
        return self._spent + runs * self._spent / self._runs <= self._search.seconds

    # --- figures --------------------------------------------------------------------------------------------------

    def _ratio(self, arm: Changes, figure: str, first: int) -> PairedRatio | None:
        """Return the ratio of an arm to the baseline over the rounds since the first one; None if it has none."""
        mine, other = self._figures.get(arm, {}), self._figures.get(BASELINE, {})
        both = [number for number in sorted(mine.keys() & other.keys()) if number >= first]
        return paired_ratio([mine[each][figure] for each in both], [other[each][figure] for each in both])

    def _ranked(self, names: t.Sequence[str]) -> list[str]:
        """Return the candidates that are fit: the best of each setting first, each part from fast to slow."""
        ratios = {name: self._ratio((name,), self._search.figure, 1) for name in names if not self._unfit.get((name,))}
        by_ratio = sorted(ratios, key=lambda name: ratio.value if (ratio := ratios[name]) else math.inf)
        best = list({self._settings[name]: name for name in reversed(by_ratio)}.values())
        return sorted(by_ratio, key=lambda name: name not in best)

    def _described(self, arm: Changes, first: int) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {}
        for key, figure in (("", self._search.figure), ("guard_", self._search.guard)):
            ratio = self._ratio(arm, figure, first)
            found[f"{key}ratio"] = ratio and round(ratio.value, 4)
            found[f"{key}interval"] = ratio and ratio.interval
            found["rounds"] = ratio.rounds if ratio else 0
        return found

    def _test(self, name: str, first: int) -> dict[str, t.Any]:
        ratio = self._ratio((name,), self._search.figure, first)
        return {
            "candidate": name,
            "setting": self._settings[name],
            **self._described((name,), first),
            "spread": ratio and ratio.spread,
            "p_value": ratio and ratio.p_value,
            "corrected_p_value": None,
            "confirmed": False,
            "why_not": f"fewer than {PAIRS_FOR_AN_INTERVAL} rounds",
        }

    def _judge(self, found: dict[str, t.Any], p_value: float | None) -> None:
        """Decide whether an arm is faster than the baseline, and not worse in the figure that is guarded."""
        why_not = ""
        if p_value is None or p_value > 1 - LEVEL:
            why_not = "chance alone could show this"
        elif found["ratio"] >= 1:
            why_not = "slower than the profile"
        elif found["guard_interval"][0] > 1:
            why_not = f"the {'p99' if self._search.guard == 'p99_us' else 'average'} becomes worse"
        found.update(confirmed=not why_not, why_not=why_not)

    def _best_of_each_setting(self, tests: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
        """Return the fastest test of each setting, from fast to slow."""
        best: dict[str, dict[str, t.Any]] = {}
        for test in tests:
            best.setdefault(test["setting"], test)
        return list(best.values())

    @staticmethod
    def _smallest_effect(tests: t.Sequence[t.Mapping[str, t.Any]]) -> float | None:
        """Return the ratio that the confirmation finds with a probability of 80 % even after the correction."""
        known = [test for test in tests if test["spread"] is not None]
        spread = pooled_spread([test["spread"] for test in known])
        if spread is None:
            return None
        return round(smallest_effect(spread, min(test["rounds"] for test in known), len(known)), 3)


def log_means(cells: t.Mapping[str, t.Mapping[str, float]]) -> dict[str, float]:
    """Return the geometric mean of each figure over the cells, so that each cell counts alike."""
    return {figure: math.exp(statistics.fmean(math.log(cell[figure]) for cell in cells.values())) for figure in FIGURES}
