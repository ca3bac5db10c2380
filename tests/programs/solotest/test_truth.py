# SPDX-License-Identifier: GPL-3.0-or-later
"""Real processes are stopped by a plan: evidence that what virtual/test_truth.c shows exactly is so outside of it.

The truth is computed from when the stops really happened. Something else on the machine may stop server or client as
well, which only adds to the latencies: so the plan is a lower limit, and a measure for what must be much smaller.
"""

from __future__ import annotations

import pytest
import truth

RATE = 1000
SECONDS = 3
PLAN = [(0.3005 + 0.5 * i, 0.1) for i in range(5)]


@pytest.fixture
def server(fresh, solotest):
    """A Redis of this test's own, since it is stopped."""
    assert solotest.run("fill", fresh.port, 1000, 1000).code == 0
    return fresh


def measure(solotest, server, stop, rate=RATE, options=()):
    return truth.measure_with_stalls(
        solotest.program, server.port, stop, PLAN, rate, SECONDS, server.process.pid, options
    )


def test_a_stalled_server_is_in_response(solotest, server):
    report, _columns, expected = measure(solotest, server, "server")
    latency = report["test"]["latency"]
    assert report["test"]["requests"]["ok"] == RATE * SECONDS
    for name in ("p99_ns", "p999_ns", "max_ns"):
        assert latency["response"][name] >= 0.98 * truth.percentile(expected, truth.PERMILLES[name])
    # The lower bound has them, too, and a client without a schedule sees each stall once.
    assert latency["server"]["p99_ns"] > 50e6
    assert latency["service"]["p50_ns"] < latency["response"]["p99_ns"] / 4


def test_a_stalled_client_is_in_lateness_and_intended(solotest, server):
    report, _columns, expected = measure(solotest, server, "client")
    latency = report["test"]["latency"]
    for name in ("p99_ns", "p999_ns", "max_ns"):
        assert latency["intended"][name] >= 0.98 * truth.percentile(expected, truth.PERMILLES[name])
    assert latency["lateness"]["p99_ns"] > latency["intended"]["p99_ns"] / 2 > 40e6
    assert latency["server"]["p99_ns"] < latency["intended"]["p99_ns"] / 2


def test_a_reply_that_waits_for_a_stopped_client_is_the_clients(solotest, server):
    """So many requests in flight that a stop meets some whose reply then waits to be read."""
    report, columns, _expected = measure(solotest, server, "client", 4000, ["--connections", "2"])
    intended, lateness = max(columns[2]), max(columns[3])
    assert report["test"]["requests"]["ok"] == 4000 * SECONDS
    assert intended > 95e6 and lateness > 95e6
    assert report["test"]["latency"]["server"]["p99_ns"] < 50e6
