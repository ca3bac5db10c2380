# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test of steady state: did latency or page-ins rise or fall in a measured phase, or page-ins from phase to phase?

The series of a phase becomes twelve blocks. A block is the mean of the middle third of the logarithms in it, so a short
stall does not count. The blocks are compared with each shape in which a fleet can leave its
steady state: a straight line, and one step at each place with two blocks or more on both sides. The shape with the
largest t counts, and its p-value is multiplied by the number of shapes. Noise in which neighbouring points are alike
makes t larger; _ALLOWANCE makes up for a correlation that fades within about a fortieth of the phase.

All tests of a cell share one level, so a steady cell has a warning in at most 2 of 100 runs, however many iterations
it has. tests/bench/steady_state.py measures this, and which changes are noticed.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import student, time_series
from ansible_collections.memstretch.density.plugins.plugin_utils.run.pressure import of_carrying_machines

BLOCKS = 12
# The probability of a false warning for a cell, shared by its figures.
LEVEL = 0.02
# The share of each figure. Page-ins have two tests: within iterations, and from iteration to iteration.
_SHARES = {"avg_us": 1 / 3, "p99_us": 1 / 3, "page_ins_within": 1 / 6, "page_ins": 1 / 6}
# The smallest change that matters, and the smallest between iterations, which vary more.
_CHANGE = {"avg_us": 0.05, "p99_us": 0.05, "page_ins_within": 0.05, "page_ins": 0.1}
# Chance alone moves the logarithm of fewer page-ins in an interval too much, and may make it infinite.
_FEWEST_PAGE_INS = 10
# The first iterations have this share of the level, since that is where a short warm-up shows.
_SHARE_OF_FIRST = 0.5
_ALLOWANCE = 1.15
# Fewer iterations do not show a trend of page-ins.
_ITERATIONS = 5
# A change of the size that is stated as the smallest one is noticed with this probability.
_POWER = 0.9

# A larger change has no finite size.
_MAX_LOGARITHM = 50

_Mapping = t.Mapping[str, t.Any]


class SeriesChange(t.NamedTuple):
    """How a series changed.

    Attributes:
        logarithm: of the factor between its end and its beginning.
        p_value: the probability that chance makes a steady series change so much.
        step: where a step was, as a share of the series; None for a gradual change.
        gradual: the logarithm if it is taken for a gradual change.
        error: the standard error of the latter.
        freedom: degrees of freedom of that error.
    """

    logarithm: float
    p_value: float
    step: float | None
    gradual: float
    error: float
    freedom: int


def _shapes(size: int) -> list[tuple[float | None, list[float]]]:
    """Return the shapes for a series of this many blocks: the place of a step, None for a line, and values of length 1.

    The values of each shape add up to 0.
    """
    line = [number - (size - 1) / 2 for number in range(size)]
    steps = [
        (place, [float(place - size if number < place else place) for number in range(size)])
        for place in range(2, size - 1)
    ]
    shapes = [(None, line), *((place / size, values) for place, values in steps)]
    return [(place, [value / math.hypot(*values) for value in values]) for place, values in shapes]


_SHAPES = _shapes(BLOCKS)


def change_of(values: t.Sequence[float]) -> SeriesChange | None:
    """Describe how a series of logarithms changed; None if it has fewer points than blocks."""
    if len(values) < BLOCKS:
        return None
    edges = [len(values) * number // BLOCKS for number in range(BLOCKS + 1)]
    return _best([_middle(values[first:end]) for first, end in zip(edges, edges[1:])], _SHAPES, _ALLOWANCE)


def _middle(values: t.Sequence[float]) -> float:
    """Return the mean of the middle third, or a little more."""
    cut = (len(values) - 1) // 3
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def _best(
    values: t.Sequence[float], shapes: t.Sequence[tuple[float | None, t.Sequence[float]]], allowance: float
) -> SeriesChange:
    """Return the change by the shape that fits best."""
    mean, freedom = statistics.fmean(values), len(values) - 2
    around = [value - mean for value in values]
    whole = sum(value * value for value in around)
    sizes = [sum(map(float.__mul__, around, shape)) for _place, shape in shapes]
    size, (place, shape) = max(zip(sizes, shapes), key=lambda each: abs(each[0]))
    noise, of_line = (math.sqrt(max(whole - each * each, 0.0) / freedom) * allowance for each in (size, sizes[0]))
    score = abs(size) / noise if noise else math.inf if size else 0.0
    # From the first to the last value; a line goes on for half a block before and after these.
    line = (shapes[0][1][-1] - shapes[0][1][0]) * len(values) / (len(values) - 1)
    return SeriesChange(
        size * (shape[-1] - shape[0]) if place else size * line,
        min(1.0, len(shapes) * student.p_value(score, freedom)),
        place,
        sizes[0] * line,
        of_line * line,
        freedom,
    )


def logarithms(hosts: t.Iterable[_Mapping]) -> dict[str, list[float]]:
    """Return average and p99 of a phase over its time: the mean over the hosts of their logarithms.

    So each host counts alike, and a stall of one host does not hide what the fleet does. Points with fewer than half
    of the usual requests are left out, such as the last one.
    """
    _interval, all_rows = time_series.aligned(hosts)
    rows = [[point for point in row if min(point[:3]) > 0] for row in all_rows]
    counts = [sum(point[0] for point in row) for row in rows]
    usual = statistics.median(counts) if counts else 0
    kept = [row for row, count in zip(rows, counts) if row and count >= usual / 2]
    return {
        name: [statistics.fmean([math.log(point[place]) for point in row]) for row in kept]
        for name, place in (("avg_us", 1), ("p99_us", 2))
    }


def page_ins(pressure: t.Iterable[_Mapping | None]) -> float | None:
    """Return the page-ins per second of all machines of a phase; None if those of one of them are not known."""
    counters: list[_Mapping] = [(each or {}).get("counters", {}) for each in pressure]
    if not counters or any("pswpin" not in each or not each.get("clock_s") for each in counters):
        return None
    return sum((each["pswpin"] + each.get("zswpin", 0)) / each["clock_s"] for each in counters)


def page_ins_within(document: _Mapping) -> list[float]:
    """Return the logarithms of the page-ins of all watched machines over a phase, one for each interval.

    Only intervals within the phase count: a watch begins before the launch and ends after the collection. None are
    returned if page-ins are few.
    """
    columns, intervals = [], set()
    for each in document.get("charged_dram", {}).values():
        series = each.get("page_ins")
        if not series:
            return []
        intervals.add(series["interval_s"])
        first = math.ceil((document["started_at"] - series["started_at"]) / series["interval_s"])
        end = math.floor((document["finished_at"] - series["started_at"]) / series["interval_s"])
        columns.append(series["per_second"][max(0, first) : max(0, end)])
    rates = [sum(row) for row in zip(*columns)]
    if len(intervals) != 1 or not rates or statistics.median(rates) * max(intervals) < _FEWEST_PAGE_INS:
        return []
    return [math.log(max(rate, 1.0)) for rate in rates]


class SteadyState:
    """Tests whether the iterations of a cell were in a steady state."""

    def __init__(self) -> None:
        self._phases: list[tuple[int, int, dict[str, SeriesChange | None]]] = []
        self._page_ins: dict[int, list[float | None]] = {}

    def add(self, document: _Mapping, run: int) -> None:
        """Add a measured iteration of a run, given by its number."""
        rates = self._page_ins.setdefault(run, [])
        rates.append(page_ins(of_carrying_machines(document)))
        series = {**logarithms(document["hosts"].values()), "page_ins_within": page_ins_within(document)}
        changes = {name: change_of(values) for name, values in series.items()}
        self._phases.append((run, len(rates), changes))

    def summary(self) -> dict[str, t.Any] | None:
        """Return C(steady) of a cell (docs/result-formats.md); None if no series is long enough."""
        found = {name: self._within(name) for name in ("avg_us", "p99_us", "page_ins_within")}
        found["page_ins"] = self._trend_of_page_ins()
        return found if any(found.values()) else None

    def _within(self, figure: str) -> dict[str, t.Any] | None:
        """Return the test of a figure: the iteration that surely changed, or the least certain one."""
        tests = [(number, changes[figure]) for _run, number, changes in self._phases]
        known = [(number, change) for number, change in tests if change is not None]
        if not known:
            return None
        counts = [sum(number == 1 for number, _change in known), sum(number > 1 for number, _change in known)]
        share = LEVEL * _SHARES[figure] * (1 if 0 in counts else _SHARE_OF_FIRST)
        judged = [
            _judged(figure, change, share / counts[number > 1], {"iteration": number}) for number, change in known
        ]
        smallest = max(each["smallest_change"] for each in judged)
        return {**min(judged, key=lambda each: (each["steady"], each["p_value"])), "smallest_change": smallest}

    def _trend_of_page_ins(self) -> dict[str, t.Any] | None:
        """Return the test of the page-ins from iteration to iteration of each run."""
        known = [
            [rate for rate in rates if rate]
            for rates in self._page_ins.values()
            if all(rates) and len(rates) >= _ITERATIONS
        ]
        if not known:
            return None
        level = LEVEL * _SHARES["page_ins"] / len(known)
        judged = [
            _judged("page_ins", _best(list(map(math.log, rates)), _shapes(len(rates))[:1], 1.0), level, {})
            for rates in known
        ]
        return min(judged, key=lambda each: (each["steady"], each["p_value"]))


def _judged(figure: str, change: SeriesChange, level: float, where: dict[str, t.Any]) -> dict[str, t.Any]:
    shapes, least = len(_SHAPES) if figure != "page_ins" else 1, math.log1p(_CHANGE[figure])
    critical = student.quantile(1 - level / shapes / 2, change.freedom)
    beyond = student.quantile(_POWER, change.freedom)
    # The error is an estimate too, which matters more the further out the critical value is.
    certain = (critical + beyond * math.hypot(1, critical / math.sqrt(2 * change.freedom))) * change.error
    smallest = max(certain, least + beyond * change.error)
    # A step that fits a gradual change by chance is about half as high.
    matters = max(abs(change.logarithm), abs(change.gradual)) >= least
    return {
        "steady": not (change.p_value <= level and matters),
        "change": round(math.expm1(min(change.logarithm, _MAX_LOGARITHM)), 4),
        "step_at": change.step and round(change.step, 3),
        "p_value": round(change.p_value, 6),
        "smallest_change": round(math.expm1(min(smallest, _MAX_LOGARITHM)), 4),
        **where,
    }
