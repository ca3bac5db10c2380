# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run import observer

from .test_bounds import SLO, answer, bounds_of, result

QUIET = [20_000] * 6000


def figures(values):
    return Histogram.from_values(values).figures()


def observed(server=(), intended=None, lateness_us=(), lost=0):
    """Return an observer's excerpt from nanoseconds of its requests and microseconds by which some were late."""
    return {
        "latency": {
            "server": figures(server),
            "intended": figures(intended or server),
            "lateness": figures([1000 * each for each in lateness_us] + [0] * (len(server) - len(lateness_us))),
        },
        "requests": {"lost": lost},
    }


def host(lower, upper, *excerpts):
    """Return the bounds of a host whose iterations have these excerpts."""
    return bounds_of(*(result(lower, upper, **({"observed": each} if each else {})) for each in excerpts))


LATE_CLIENT = ([20_000] * 6000, [20_000] * 5000 + [900_000] * 1000)


def test_an_observer_narrows_what_a_late_client_leaves_open():
    assert answer(host(*LATE_CLIENT, None).figures(), SLO) == "undecided"
    figures = host(*LATE_CLIENT, observed(QUIET)).figures()
    assert (answer(figures, SLO), figures["upper_by"]) == ("pass", "observer")


def test_an_observer_sees_what_the_clock_of_a_paused_guest_hides():
    quiet = ([20_000] * 6000, [20_000] * 6000)
    bounds = host(*quiet, observed([20_000] * 5900 + [5_000_000] * 100))
    assert answer(bounds.figures(), SLO) == "undecided"
    assert "pauses of the guest" in bounds.doubt()


def test_an_observer_that_stalls_with_its_host_narrows_nothing():
    # Everything was frozen for 9 % of the time: the requests due then were sent late, and found a quick Redis.
    frozen = observed(QUIET, [20_000] * 5460 + [900_000] * 540, lateness_us=[880] * 540)
    bounds = host(*LATE_CLIENT, frozen)
    assert answer(bounds.figures(), SLO) == "undecided"
    assert "540 of its 6,000 requests late" in bounds.doubt()


def test_a_request_without_a_time_stamp_counts_as_slow():
    excerpt = observed([20_000] * 5900, [20_000] * 5900 + [2_000_000] * 100)
    assert host(*LATE_CLIENT, excerpt).figures()["upper"]["p99_us"] == pytest.approx(2000, rel=0.01)


def test_a_request_that_the_observer_lost_keeps_a_host_from_passing():
    assert answer(host(*LATE_CLIENT, observed(QUIET, lost=1)).figures(), SLO) == "undecided"


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
    measured = {"latency": latency, "requests": {"lost": 0}, "rate": {}, "machine": "b", "series": {}, "mode": "test"}
    kept = observer.excerpt({"changed": False, "solotest": measured})
    assert set(kept) == {"latency", "requests", "rate", "machine"}
    assert set(kept["latency"]) == {"server", "intended", "lateness"}
    assert observer.excerpt({"failed": True, "msg": "no route"}) == {"error": "no route"}
    del latency["server"]
    assert "no time stamps" in observer.excerpt({"solotest": measured})["error"]
