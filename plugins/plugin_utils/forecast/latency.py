# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The expected response time of a VM: a queue with lognormal service times, simulated with fixed random numbers."""

from __future__ import annotations

import functools
import math
import random
import typing as t

SAMPLES = 4_000


def latency(
    base: t.Mapping[str, float], waits: tuple[tuple[float, float, float], ...], rate: float
) -> dict[str, t.Any]:
    """Return the expected response time of one VM's requests.

    Requests come at a steady rate and are served one after another. Each takes the base time and, with a probability,
    the time of a tier, both lognormal. The queue is simulated with fixed random numbers.

    Args:
        base: avg_us and p99_us of a request whose pages are all in DRAM.
        waits: for each tier its share of the requests, avg_us and p99_us.
        rate: requests per second.

    Returns:
        C(avg_us) and C(p99_us) of the response time, C(service_us), and C(busy): the share of time with a request in
        service. At 1 and above the queue grows without end, and avg_us and p99_us are None.
    """
    service = base["avg_us"] + sum(share * average for share, average, _p99 in waits)
    busy = service * rate / 1e6
    if busy >= 1:
        return {"avg_us": None, "p99_us": None, "service_us": service, "busy": round(busy, 3)}
    times, queue, interval = [], 0.0, 1e6 / rate
    tier_samples = [(share, _times(average, p99, 1)) for share, average, p99 in waits]
    for sample, (took, drawn) in enumerate(zip(_times(base["avg_us"], base["p99_us"], 0), _draws(2))):
        for share, samples in tier_samples:
            if drawn < share:
                took += samples[sample]
                break
            drawn -= share
        took += queue
        times.append(took)
        queue = took - interval if took > interval else 0.0
    times.sort()
    return {
        "avg_us": round(sum(times) / SAMPLES, 1),
        "p99_us": round(times[math.ceil(0.99 * SAMPLES) - 1], 1),
        "service_us": service,
        "busy": round(busy, 3),
    }


@functools.lru_cache(maxsize=64)
def _times(average: float, p99: float, seed: int) -> list[float]:
    """Return SAMPLES times of a lognormal distribution."""
    mu, sigma = lognormal(average, p99)
    chance = random.Random(seed)
    return [math.exp(mu + sigma * chance.gauss(0, 1)) for _sample in range(SAMPLES)]


@functools.lru_cache(maxsize=1)
def _draws(seed: int) -> list[float]:
    """Return SAMPLES numbers from 0 to 1."""
    chance = random.Random(seed)
    return [chance.random() for _sample in range(SAMPLES)]


def lognormal(average: float, p99: float) -> tuple[float, float]:
    """Return mu and sigma of the lognormal distribution with this average and 99th percentile."""
    z = 2.3263478740408408
    # p99 / average = exp(z sigma - sigma^2 / 2), which is largest at sigma = z.
    sigma = z - math.sqrt(max(0.0, z * z - 2 * math.log(max(1.0, p99 / average))))
    return math.log(average) - sigma * sigma / 2, sigma
