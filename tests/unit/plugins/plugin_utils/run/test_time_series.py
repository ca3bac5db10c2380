# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.time_series import merged, trend


def series(averages):
    return {"interval": 0.1, "points": [[100, average, 2 * average, 3 * average] for average in averages]}


def noisy(chance, of):
    return series([of(number) * chance.lognormvariate(0, 0.15) for number in range(120)])


def test_a_steady_fleet_is_rarely_reported_as_warming_up():
    chance = random.Random(1)
    cold = sum(trend(noisy(chance, lambda number: 50))["too_short"] for _phase in range(400))
    assert cold <= 8  # 2 %


@pytest.mark.parametrize("of", [lambda number: 50 + 30 * 0.97**number, lambda number: 70 - 0.2 * number])
def test_a_fleet_that_warms_up_is_detected(of):
    chance = random.Random(2)
    assert sum(trend(noisy(chance, of))["too_short"] for _phase in range(100)) >= 90


def test_neither_a_long_stall_nor_a_rise_is_reported_as_warming_up():
    assert not trend(series([5000 if 0 <= number < 8 else 50 + number % 3 for number in range(120)]))["too_short"]
    assert not trend(series([50 + number for number in range(120)]))["too_short"]


def test_too_few_points_give_no_trend():
    assert trend(None) is None
    assert trend(series([50] * 11)) is None


def test_merging_weights_by_requests_and_keeps_the_worst():
    hosts = [
        {"series": {"interval_s": 1, "points": [[100, 10, 20, 30]]}},
        {"series": {"interval_s": 1, "points": [[300, 50, 60, 70], [1, 2, 3, 4]]}},
        {},
    ]
    assert merged(hosts) == {"interval": 1, "points": [[400, 40, 60, 70], [1, 2, 3, 4]]}
    assert merged([{"series": None}]) is None
