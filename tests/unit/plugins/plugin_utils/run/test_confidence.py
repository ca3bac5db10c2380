# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import pathlib
import random
import sys

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    FIGURES,
    MAX_GROUPS,
    CellSample,
    paired_ratio,
    smallest_effect,
    spread_of_runs,
    unpaired_ratio,
)

sys.path.append(str(pathlib.Path(__file__).parents[4] / "bench"))

import intervals


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
    """docs/bench/short.md has the measured coverage; this finds intervals that are far too narrow or too wide."""
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


def synthetic_ratio(chance, rounds, spread, of_rounds, effect):
    """Return the interval of the ratio of two arms: runs vary, and a round changes both runs in it."""
    both = [chance.gauss(0, of_rounds) for _round in range(rounds)]
    baseline = [math.exp(each + chance.gauss(0, spread[0])) for each in both]
    values = [effect * math.exp(each + chance.gauss(0, spread[1])) for each in both]
    return paired_ratio(values, baseline)


# Student's t for 95 % by the degrees of freedom, from a table.
QUANTILES = {2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 10: 2.228}


def spread_out(mean, spread, count):
    """Return values whose logarithms have this mean and exactly this standard deviation."""
    steps = [each - (count - 1) / 2 for each in range(count)]
    unit = math.sqrt(sum(step**2 for step in steps) / (count - 1))
    return [math.exp(math.log(mean) + spread * step / unit) for step in steps]


@pytest.mark.parametrize("rounds", [3, 4, 5, 10])
def test_the_interval_of_paired_runs_is_students(rounds):
    ratio = paired_ratio(spread_out(1.3, 0.1, rounds), [1.0] * rounds)
    width = QUANTILES[rounds - 1] * 0.1 / math.sqrt(rounds)
    assert ratio.interval == pytest.approx([1.3 / math.exp(width), 1.3 * math.exp(width)], abs=0.001)


@pytest.mark.parametrize(
    ("runs", "spread", "freedom"),
    [((3, 3), (0.1, 0.1), 4), ((6, 6), (0.1, 0.1), 10), ((4, 9), (0.2, 0.0), 3), ((10, 3), (0.0, 0.2), 2)],
)
def test_the_interval_of_runs_that_are_not_paired_is_welchs(runs, spread, freedom):
    """With equal arms the degrees of freedom add up; an arm that does not vary has none."""
    values, baseline = (spread_out(mean, *each) for mean, each in zip((1.3, 1.0), zip(spread, runs)))
    width = QUANTILES[freedom] * math.sqrt(sum(each**2 / count for each, count in zip(spread, runs)))
    expected = [1.3 / math.exp(width), 1.3 * math.exp(width)]
    assert unpaired_ratio(values, baseline).interval == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize("rounds", [3, 10])
@pytest.mark.parametrize("spread", [(0.1, 0.1), (0.02, 0.25)])
@pytest.mark.parametrize("of_rounds", [0.0, 0.3])
def test_intervals_hold_the_truth_in_95_percent_of_studies(rounds, spread, of_rounds):
    """2,000 studies: 94 % is 2 standard errors below 95 %."""
    chance = random.Random(17)
    held = 0
    for _study in range(2_000):
        low, high = synthetic_ratio(chance, rounds, spread, of_rounds, 1.3).interval
        held += low <= 1.3 <= high
    assert 1_880 <= held <= 1_920


@pytest.mark.parametrize(("rounds", "spread", "share"), [((10, 3), (0.1, 0.1), 0.93), ((10, 3), (0.02, 0.25), 0.95)])
def test_intervals_of_arms_without_pairs_hold_the_truth(rounds, spread, share):
    """2,000 comparisons. Welch's degrees of freedom are approximate: with ten runs against three of equal spread, the
    intervals hold the truth in 93 %, with one arm of three that varies most in 95 %."""
    chance, held = random.Random(19), 0
    for _comparison in range(2_000):
        values = [1.3 * math.exp(chance.gauss(0, spread[0])) for _run in range(rounds[0])]
        baseline = [math.exp(chance.gauss(0, spread[1])) for _run in range(rounds[1])]
        low, high = unpaired_ratio(values, baseline).interval
        held += low <= 1.3 <= high
    assert held / 2_000 == pytest.approx(share, abs=0.012)


def test_arms_without_pairs_need_three_runs_each_for_an_interval():
    assert unpaired_ratio([1.0, 2.0], [1.0, 1.0, 1.0]).interval is None
    assert unpaired_ratio([2.0] * 3, [1.0] * 4)[:3] == (pytest.approx(2.0), 3, [2.0, 2.0])
    assert unpaired_ratio([], [1.0]) is None


@pytest.mark.parametrize("effect", [1.0, 1.3])
def test_runs_that_do_not_vary_have_the_exact_ratio(effect):
    chance = random.Random(16)
    for _study in range(100):
        ratio = synthetic_ratio(chance, 5, (0.0, 0.0), 0.3, effect)
        assert ratio.interval[0] <= effect <= ratio.interval[1] and ratio.spread < 1e-12


@pytest.mark.parametrize("rounds, power", [(3, 0.330), (5, 0.735), (10, 0.991)])
def test_an_effect_is_found_with_the_power_of_a_paired_t_test(rounds, power):
    """An effect of 30 % where runs vary by 12 %: the power is that of the noncentral t distribution."""
    chance = random.Random(18)
    found = sum(synthetic_ratio(chance, rounds, (0.12, 0.12), 0.2, 1.3).interval[0] > 1 for _study in range(4_000))
    assert found / 4_000 == pytest.approx(power, abs=0.03)


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_the_smallest_effect_is_found_with_the_stated_probability(rounds):
    chance = random.Random(19)
    effect = smallest_effect(0.1, rounds)
    found = sum(synthetic_ratio(chance, rounds, (0.1, 0.1), 0.2, effect).p_value < 0.05 for _study in range(4_000))
    assert found / 4_000 == pytest.approx(0.8, abs=0.03)


def test_the_spread_is_that_of_runs_without_that_of_rounds():
    chance = random.Random(20)
    ratio = synthetic_ratio(chance, 2_000, (0.1, 0.1), 0.5, 1.3)
    assert ratio.spread == pytest.approx(0.1, rel=0.1)
    assert spread_of_runs([1.0, 2.0]) is None and spread_of_runs([1.0, 0.0, 2.0]) is None
    assert spread_of_runs([1.0, math.e, math.e**2]) == pytest.approx(1)


def test_two_runs_have_a_ratio_and_nothing_else():
    few = paired_ratio([2.0, 8.0], [1.0, 1.0])
    assert few == (pytest.approx(4), 2, None, None) and few.p_value is None
    assert paired_ratio([1.0, 1.0, 1.0], [1.0, 1.0]) is None
    exact = paired_ratio([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert exact == (pytest.approx(2), 3, [2.0, 2.0], 0) and exact.p_value == 0
    assert paired_ratio([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]).p_value == 1
