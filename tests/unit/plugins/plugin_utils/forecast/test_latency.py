# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.latency import latency, lognormal


@pytest.mark.parametrize("average, p99, rate", [(25, 60, 1), (80, 400, 1), (120, 400, 5000)])
def test_a_queue_is_simulated(average, p99, rate):
    found = latency({"avg_us": average, "p99_us": p99}, (), rate)
    mu, sigma = lognormal(average, p99)
    chance, times, queue = random.Random(9), [], 0.0
    for _request in range(100_000):
        times.append(queue + chance.lognormvariate(mu, sigma))
        queue = max(0.0, times[-1] - 1e6 / rate)
    times.sort()
    assert found["avg_us"] == pytest.approx(sum(times) / 1e5, rel=0.05)
    assert found["p99_us"] == pytest.approx(times[99_000], rel=0.1)
    if rate == 1:
        assert found["avg_us"] == pytest.approx(average, rel=0.03) and found["p99_us"] == pytest.approx(p99, rel=0.1)


def test_a_tier_adds_its_time_to_its_share_of_the_requests():
    found = latency({"avg_us": 20, "p99_us": 30}, ((0.5, 100, 101),), 100)
    assert found["avg_us"] == pytest.approx(70, rel=0.03) and found["p99_us"] == pytest.approx(127, rel=0.05)
    rare = latency({"avg_us": 20, "p99_us": 30}, ((0.005, 100, 101),), 100)
    assert rare["p99_us"] < 35
    assert latency({"avg_us": 20, "p99_us": 30}, ((0.9, 300, 900),), 5000)["avg_us"] is None
