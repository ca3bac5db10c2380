# SPDX-License-Identifier: GPL-3.0-or-later
"""Real processes are stopped by a plan: evidence that what virtual/test_truth.c shows exactly is so outside of it.

The truth is computed from when the stops really happened; see truth.py for what else the machine may do.
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
    measured = truth.measure_with_stalls(
        solotest.program, server.port, stop, PLAN, rate, SECONDS, server.process.pid, options
    )
    assert measured.report["test"]["requests"]["ok"] == len(measured.columns[0]) == rate * SECONDS
    return measured


def test_a_stalled_server_is_in_response(solotest, server):
    truth.check_stalled_server(measure(solotest, server, "server"))


# So many requests in flight that a stop meets some whose reply then waits to be read.
@pytest.mark.parametrize("rate, options", [(RATE, []), (4 * RATE, ["--pipeline", "2"])])
def test_a_stopped_client_is_in_lateness_and_intended(solotest, server, rate, options):
    truth.check_stopped_client(measure(solotest, server, "client", rate, options))
