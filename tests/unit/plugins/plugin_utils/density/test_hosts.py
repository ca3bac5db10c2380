# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest
from synthetic_ramps import IDLE_US, load

from ansible_collections.memstretch.density.plugins.plugin_utils.density.hosts import (
    HostWindow,
    binomial_tail,
    judge,
    smallest_miss,
)


def fleet(hosts: int, windows: int, slow: dict[int, float] | None = None, seed: int = 1):
    """Hosts of which exactly 1 % of the requests are slower than the limit, but some are slower."""
    chance = random.Random(seed)
    # The p99 of load(): minimum 0.6, and ln(100) times the 0.4 of the exponential tail.
    limit = IDLE_US * (0.6 + 0.4 * 4.605)
    return {
        f"vm{number}": [
            HostWindow(load(chance, slow=(slow or {}).get(number, 0.0)), 10 * IDLE_US, limit)
            for _each in range(windows)
        ]
        for number in range(hosts)
    }


def test_binomial_tail_is_exact():
    assert binomial_tail(0, 10, 0.5) == 1
    assert binomial_tail(10, 10, 0.5) == pytest.approx(0.5**10)
    assert binomial_tail(8, 10, 0.5) == pytest.approx(56 / 1024)
    assert binomial_tail(60, 1000, 0.01) == pytest.approx(5.4e-26, rel=0.5)
    assert binomial_tail(11, 10, 0.5) == 0


@pytest.mark.long
def test_equal_hosts_at_the_limit_are_not_punished_for_their_number():
    wrong = sum(bool(judge(fleet(30, 20, seed=seed)).missed) for seed in range(10))
    # The level is 5 % for the whole fleet, so three of ten would be very many.
    assert wrong <= 2


def test_a_host_that_is_slow_more_often_is_found():
    found = judge(fleet(10, 25, {3: 0.02}))
    assert found.missed == ["vm3"] and found.judged == 10
    assert 0.01 < found.smallest_miss < 0.03


def test_hosts_with_few_requests_are_not_judged():
    found = judge(fleet(4, 5, {1: 0.5}))
    assert (found.missed, found.judged) == ([], 0)


def test_a_slow_average_is_found():
    chance = random.Random(5)
    slow = [HostWindow(load(chance, 1.2), IDLE_US, 1e6) for _each in range(25)]
    fast = [HostWindow(load(chance, 0.9), IDLE_US, 1e6) for _each in range(25)]
    assert judge({"slow": slow, "fast": fast}).missed == ["slow"]


def test_the_smallest_miss_shrinks_with_the_requests():
    assert 0.01 < smallest_miss(40_000, 0.001) < smallest_miss(4_000, 0.001) < 0.03
