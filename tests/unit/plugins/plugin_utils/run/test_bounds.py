# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import HostBounds, answers

SLO = {"avg_us": 50, "p99_us": 300}


def figures(values):
    return Histogram.from_values(values).figures()


def result(lower, upper, lateness_us=1, wakeup_us=1, **changes):
    """Return the result of a host from the nanoseconds of its requests; lower may have fewer than upper."""

    latency = {"intended": figures(upper), "lateness": figures([1000 * lateness_us])}
    if lower is not None:
        latency.update(server=figures(lower), wakeup=figures([1000 * wakeup_us]))
    return {"latency": latency, "requests": {"lost": 0}, **changes}


def bounds_of(*results):
    bounds = HostBounds(SLO["p99_us"])
    for each in results:
        bounds.add(each)
    return bounds


def answers_of(hosts):
    return answers([host.seen() for host in hosts], SLO)


def answer(bounds):
    """Return the answer of a fleet of one host."""
    return answers_of([bounds])[0]


@pytest.mark.parametrize(
    "lower, upper, expected",
    [
        ([40_000] * 100, [45_000] * 100, "pass"),
        ([40_000] * 100, [55_000] * 100, "undecided"),
        ([52_000] * 100, [55_000] * 100, "fail"),
        # The p99 of 100 requests is the second largest.
        ([20_000] * 98 + [400_000] * 2, [20_000] * 98 + [400_000] * 2, "fail"),
        ([20_000] * 98 + [200_000] * 2, [20_000] * 98 + [400_000] * 2, "undecided"),
        ([20_000] * 99 + [400_000], [20_000] * 99 + [400_000], "pass"),
        # Without time stamps nothing is known to be the fault of the server.
        (None, [400_000] * 100, "undecided"),
        (None, [20_000] * 100, "pass"),
        ([], [400_000] * 100, "undecided"),
        # What is unknown counts as 0: 60 us on average for the half that is known, 30 for all.
        ([60_000] * 50, [60_000] * 100, "undecided"),
    ],
)
def test_the_answer_of_a_host(lower, upper, expected):
    assert answer(bounds_of(result(lower, upper))) == expected


def fleet(*shares, requests=20_000, iterations=3, seed=1):
    """Return the bounds of hosts of which these shares of the requests are slow, by chance."""
    chance = random.Random(seed)
    hosts = []
    for share in shares:
        slow = [sum(chance.random() < share for _request in range(requests)) for _iteration in range(iterations)]
        values = [[400_000] * each + [20_000] * (requests - each) for each in slow]
        hosts.append(bounds_of(*(result(each, each) for each in values)))
    return hosts


@pytest.mark.long
def test_equal_hosts_are_not_punished_for_their_number():
    """0.95 % of the requests of each are slow. In most fleets of 40 one host has more than 1 % by chance."""
    hosts = [fleet(*[0.0095] * 40, requests=2000, seed=seed) for seed in range(5)]
    worst = [max(host.figures()["upper"]["p99_us"] for host in each) for each in hosts]
    assert sum(p99 > SLO["p99_us"] for p99 in worst) >= 4
    wrong = sum(set(answers_of(each)) != {"pass"} for each in hosts)
    assert wrong == 0, "at a level of 5 %"


def test_a_sick_host_is_found_among_many():
    assert answers_of(fleet(*[0.008] * 20, 0.02, requests=5000)) == [*["pass"] * 20, "fail"]


def test_a_stall_that_slows_many_requests_at_once_counts_once():
    """In one of eight iterations of a host a stall slowed 3 % of the requests, and the same in another host."""
    quiet, stalled = [20_000] * 10_000, [400_000] * 300 + [20_000] * 9_700
    hosts = [bounds_of(*(result(each, each) for each in [stalled, *[quiet] * 7])) for _host in range(2)]
    assert answers_of(hosts) == ["pass", "pass"]


def test_iterations_are_judged_together():
    slow, quick = result([80_000] * 100, [80_000] * 100), result([10_000] * 100, [10_000] * 100)
    assert answer(bounds_of(slow)) == "fail"
    assert answer(bounds_of(slow, quick)) == "pass"


def test_the_bounds_are_rounded_away_from_the_truth():
    rng = random.Random(1)
    for _case in range(200):
        values = [int(rng.lognormvariate(10, 1.5)) for _request in range(rng.randrange(1, 400))]
        truth = sorted(values)[-(-99 * len(values) // 100) - 1] / 1000
        figures = bounds_of(result(values, values)).figures()
        assert figures["lower"]["p99_us"] <= truth <= figures["upper"]["p99_us"] <= 1.016 * figures["lower"]["p99_us"]
        assert figures["lower"]["avg_us"] == figures["upper"]["avg_us"]


@pytest.mark.parametrize(
    "measured, doubt",
    [
        (result([1], [400_000], lateness_us=350, wakeup_us=20), "the client itself was up to 350 us late"),
        (result([1], [400_000], lateness_us=20, wakeup_us=350), "replies waited up to 350 us"),
        (result([1], [1], requests={"lost": 3}), "3 requests failed"),
        (result([1], [1], requests={"errors": {"OOM": 1}}), "1 request failed"),
        (result(None, [400_000]), "no time stamps"),
    ],
)
def test_the_doubt_names_whose_delay_decides(measured, doubt):
    assert doubt in bounds_of(measured).doubt()
