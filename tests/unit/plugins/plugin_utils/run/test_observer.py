# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import highest_of
from ansible_collections.memstretch.density.plugins.plugin_utils.run import observer

from .test_bounds import answer, bounds_of, figures, result

QUIET = [20_000] * 6000
RATE = 1500
PERIOD = 1e9 / RATE


def observed(server=(), intended=None, lateness_us=(), lost=0):
    """Return an observer's excerpt from nanoseconds of its requests and microseconds by which some were late."""
    return {
        "latency": {
            "server": figures(server),
            "intended": figures(intended or server),
            "lateness": figures([1000 * each for each in lateness_us] + [0] * (len(server) - len(lateness_us))),
        },
        "requests": {"lost": lost},
        "rate": {"target": RATE},
    }


def host(lower, upper, *excerpts):
    """Return the bounds of a host whose iterations have these excerpts."""
    return bounds_of(*(result(lower, upper, **({"observed": each} if each else {})) for each in excerpts))


LATE_CLIENT = ([20_000] * 6000, [20_000] * 5000 + [900_000] * 1000)


def test_an_observer_narrows_what_a_late_client_leaves_open():
    assert answer(host(*LATE_CLIENT, None)) == "undecided"
    bounds = host(*LATE_CLIENT, observed(QUIET))
    assert (answer(bounds), bounds.figures()["upper_by"]) == ("pass", "observer")


def test_an_observer_sees_what_the_clock_of_a_paused_guest_hides():
    quiet = ([20_000] * 6000, [20_000] * 6000)
    bounds = host(*quiet, observed([20_000] * 5900 + [5_000_000] * 100))
    assert answer(bounds) == "undecided"
    assert "pauses of the guest" in bounds.doubt()


def test_an_observer_that_stalls_with_its_host_narrows_nothing():
    # Everything was frozen for 9 % of the time: the requests due then were sent late, and found a quick Redis.
    frozen = observed(QUIET, [20_000] * 5460 + [900_000] * 540, lateness_us=[880] * 540)
    bounds = host(*LATE_CLIENT, frozen)
    assert answer(bounds) == "undecided"
    assert "540 of its 6,000 requests late" in bounds.doubt()


def test_a_request_without_a_time_stamp_counts_with_all_of_its_delay():
    excerpt = observed([20_000] * 5900, [20_000] * 5900 + [2_000_000] * 100)
    assert host(*LATE_CLIENT, excerpt).figures()["upper"]["p99_us"] == pytest.approx(2000, rel=0.01)


def test_one_long_delay_of_an_observer_is_not_that_of_all_its_late_requests():
    """Of 6,000 requests 100 were late by 60 us, and one of these by 5 ms."""
    delays = [20_000] * 5900 + [80_000] * 99 + [5_000_000]
    bounds = host(*LATE_CLIENT, observed(QUIET, delays, lateness_us=[60] * 99 + [4980]))
    assert bounds.observed.late == 100 and bounds.observed.upper.count == 6000
    assert bounds.figures()["upper"]["p99_us"] == pytest.approx(80, rel=0.01)
    assert answer(bounds) == "pass"


def test_a_stall_that_is_longer_than_a_period_counts_whole():
    """The client counts a period of it for the request that met it, which is careful for its lower bound only."""
    server = [20_000] * 5990 + [round(PERIOD)] * 10
    upper = host(*LATE_CLIENT, observed(server, [20_000] * 5990 + [900_000_000] * 10)).observed.upper
    assert upper.sum_ns == pytest.approx(10 * 900_000_000 + 5990 * 20_000, rel=0.01)


def intervals(chance, often, longest):
    """Return random times, in ns, in which something is stopped."""
    found, at = [], 0.0
    while at < 2000 * PERIOD:
        at += chance.expovariate(often)
        found.append((at, at + chance.uniform(0, longest)))
        at = found[-1][1]
    return found


def after(stops, begin, work=0.0):
    """Find when work ends that begins then, and goes on only outside of the stops."""
    for since, until in stops:
        if until > begin and since < begin + work + 1e-3:
            work -= max(0.0, since - begin)
            begin = until
    return begin + work


def observe(chance, stalls, stops):
    """Return what users wait who ask at random times, and the observer's excerpt, which asks then unless stopped.

    The recursions are those of files/solotest/latency.h.
    """
    due, users, seen = 0.0, [], {"server": [], "intended": [], "lateness": []}
    free = arrived = read = ideal = bound = 0.0
    for _request in range(2000):
        due += chance.expovariate(1 / PERIOD)
        free = after(stalls, max(due, free), 30_000)
        users.append(free - due)
        sent = after(stops, max(due, read))
        begin, previous = max(due, bound), arrived
        arrived = after(stalls, max(sent, arrived), 30_000)
        took = arrived - max(sent, previous)
        bound = begin + (0 if sent - begin > PERIOD / 2 else took)
        seen["server"].append(min(bound, begin + PERIOD) - due)
        ideal = max(due, ideal) + after(stops, arrived) - max(sent, read)
        read = after(stops, arrived)
        seen["intended"].append(read - due)
        seen["lateness"].append(max(0.0, read - ideal))
    latency = {name: figures([round(value) for value in values]) for name, values in seen.items()}
    return users, {"latency": latency, "requests": {"lost": 0}, "rate": {"target": RATE}}


@pytest.mark.parametrize("seed", range(30))
def test_no_user_waits_longer_than_the_observer_says(seed):
    """Sorted by size, no wait exceeds that of the upper bound by more than a request may be late."""
    chance = random.Random(seed)
    stalls = intervals(chance, 1 / chance.uniform(5e6, 50e6), chance.choice((4e5, 3e6, 2e7)))
    stops = intervals(chance, 1 / chance.uniform(5e6, 50e6), chance.choice((4e5, 3e6, 2e7)))
    stops = stalls if chance.random() < 0.3 else stops  # frozen together
    users, excerpt = observe(chance, stalls, stops)
    seen = observer.Observed()
    seen.add(excerpt)
    bound = [highest_of(slot) for slot in sorted(seen.upper.counts) for _one in range(seen.upper.counts[slot])]
    assert len(bound) == len(users)
    assert all(wait <= limit + 1000 * observer.LATE_US for wait, limit in zip(sorted(users), bound))
    assert sum(users) <= seen.upper.sum_ns + len(users) * 1000 * observer.LATE_US


def test_a_request_that_the_observer_lost_keeps_a_host_from_passing():
    assert answer(host(*LATE_CLIENT, observed(QUIET, lost=1))) == "undecided"


@pytest.mark.parametrize(
    "excerpts, text",
    [
        ((observed(QUIET[:4999]),), "made 4,999 requests and 5,000 are needed"),
        ((observed(QUIET), None), "1 iterations were measured without the observer"),
        ((observed(QUIET), {"error": "no route to host"}), "measured nothing in 1 iterations: no route to host"),
    ],
)
def test_the_client_is_the_upper_bound_where_the_observer_has_too_little(excerpts, text):
    bounds = host(*LATE_CLIENT, *excerpts)
    assert bounds.figures()["upper_by"] == "client" and text in bounds.doubt()


def test_the_samples_of_all_iterations_count_together():
    assert host(*LATE_CLIENT, observed(QUIET[:2500]), observed(QUIET[:2500])).figures()["upper_by"] == "observer"


def test_what_is_kept_of_a_result():
    latency = {name: figures([1]) for name in ("service", "server", "response", "intended", "lateness", "wakeup")}
    measured = {
        "latency": latency,
        "requests": {"lost": 0},
        "rate": {"target": 100.0},
        "machine": "b",
        "series": {},
        "mode": "test",
    }
    kept = observer.excerpt({"changed": False, "solotest": measured})
    assert set(kept) == {"latency", "requests", "rate", "machine"}
    assert set(kept["latency"]) == {"server", "intended", "lateness"}
    assert observer.excerpt({"failed": True, "msg": "no route"}) == {"error": "no route"}
    del latency["server"]
    assert "no time stamps" in observer.excerpt({"solotest": measured})["error"]
    for wrong in ({"mode": "fill", "latency": None, "rate": None}, {"rate": {"target": None}}):
        assert "at a fixed rate" in observer.excerpt({"solotest": {**measured, **wrong}})["error"]
