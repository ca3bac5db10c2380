# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import importlib.util
import pathlib
import random
import sys

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    FIGURES,
    MAX_GROUPS,
    CellSample,
    student,
)

_SCRIPT = pathlib.Path(__file__).parents[4] / "bench" / "intervals.py"
_SPEC = importlib.util.spec_from_file_location("intervals", _SCRIPT)
intervals = importlib.util.module_from_spec(_SPEC)
sys.modules["intervals"] = intervals  # dataclasses look for their module there
_SPEC.loader.exec_module(intervals)


def sample(table):
    """Return the spread and figures of a cell with constant latencies: one number in us for each host and iteration."""
    cell, whole = CellSample(len(table)), Histogram()
    for host, row in enumerate(table):
        for iteration, value in enumerate(row):
            histogram = Histogram.from_values([1000 * value] * 100)
            cell.add(host, iteration, histogram)
            whole.merge(histogram)
    figures = whole.figures()
    return cell.spread(), {name: figures[name] for name in FIGURES}


@pytest.mark.parametrize("world", [intervals.WORLDS[0], intervals.WORLDS[-1]], ids=lambda world: world.name)
def test_intervals_contain_the_truth(world):
    """docs/bench/intervals.md has the measured coverage; this finds intervals that are far too narrow or too wide."""
    found = intervals.coverage(world, hosts=5, iterations=4, fleets=20, draws=800)
    for name, (share, width) in found.items():
        assert share >= 0.75, (name, share)
        assert width < 60, (name, width)


def test_equal_hosts_and_iterations_give_an_interval_without_width():
    spread, figures = sample([[50] * 3] * 4)
    assert spread.interval(figures)["avg_us"] == [50, 50]


def test_one_iteration_gives_no_interval():
    assert sample([[50], [51], [52]])[0] is None


def test_the_interval_of_one_host_is_over_its_iterations():
    spread, figures = sample([[50, 55, 60, 52]])
    low, high = spread.interval(figures)["avg_us"]
    assert low < 50 < 60 < high


def test_more_iterations_give_a_narrower_interval():
    def width(iterations):
        spread, figures = sample([[50 + 5 * (number % 2) for number in range(iterations)]] * 4)
        low, high = spread.interval(figures)["avg_us"]
        return high / low

    assert width(2) > width(4) > width(10) > 1


def test_hosts_of_a_large_fleet_are_drawn_in_groups():
    chance = random.Random(4)
    table = [[50 * chance.lognormvariate(0, 0.2)] * 2 for _host in range(2 * MAX_GROUPS)]
    table = [[int(value) for value in row] for row in table]
    grouped, figures = sample(table)
    assert len(grouped.groups) == MAX_GROUPS
    low, high = grouped.interval(figures)["avg_us"]
    # The true standard error is 0.2 / sqrt(256) = 1.25 %.
    assert 1.03 < high / low < 1.08


def test_a_host_that_is_slow_in_both_runs_does_not_widen_their_ratio():
    table = [[50, 51, 50], [50, 50, 51], [51, 50, 50], [5000, 5050, 5000]]
    old = sample(table)[0]
    new = sample([[2 * value for value in row] for row in table])[0]
    ratios = dict.fromkeys(FIGURES, 2.0)
    paired, unpaired = (new.ratios(old, ratios, same_hosts)["avg_us"] for same_hosts in (True, False))
    assert paired[1] / paired[0] < 1.2 < 5 < unpaired[1] / unpaired[0]
    assert paired[0] < 2 < paired[1]


@pytest.mark.parametrize(
    "freedom, expected", [(0.5, 12.706), (1, 12.706), (2, 4.303), (9, 2.262), (25, 2.060), (1000, 1.962), (1e9, 1.960)]
)
def test_quantiles_of_student(freedom, expected):
    assert student(freedom) == pytest.approx(expected, abs=0.003)
