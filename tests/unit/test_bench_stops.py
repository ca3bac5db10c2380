# SPDX-License-Identifier: GPL-3.0-or-later
"""The stops that tests/bench/stops.py finds in a trace of the kernel, and what they make of a schedule."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

_SCRIPT = pathlib.Path(__file__).parents[1] / "bench" / "stops.py"
_SPEC = importlib.util.spec_from_file_location("bench_stops", _SCRIPT)
stops = importlib.util.module_from_spec(_SPEC)
sys.modules["bench_stops"] = stops
_SPEC.loader.exec_module(stops)

REDIS, CLIENT, BENCH = 100, 200, 300
PERIOD = 1_000_000


def switch(at_us, left, state, to):
    return (
        f"  redis-server-{left}     [000] d..2. {1 + at_us / 1e6:.6f}: sched_switch: prev_comm=a b prev_pid={left} "
        f"prev_prio=120 prev_state={state} ==> next_comm=c d next_pid={to} next_prio=120"
    )


def waking(at_us, pid, waker):
    when = f"{1 + at_us / 1e6:.6f}"
    return f"  <idle>-{waker}  [001] d.h3. {when}: sched_waking: comm=a pid={pid} prio=120 target_cpu=000"


def found(*lines, pids=(REDIS, CLIENT), written=None):
    trace = stops.SchedulerTrace(REDIS, CLIENT)
    entries = f"# entries-in-buffer/entries-written: {len(lines)}/{written or len(lines)}   #P:2"
    trace._text = "\n".join([entries, *lines])
    return [(begin / 1000, end / 1000) for begin, end in trace.stops(1_000_000_000, PERIOD, *pids)]


def test_a_frozen_and_a_preempted_process_is_stopped_until_it_has_a_cpu():
    frozen = (switch(100, REDIS, "D", 0), waking(900, REDIS, BENCH), switch(950, 0, "R", REDIS))
    assert found(*frozen) == [(100, 950)]
    assert found(switch(100, REDIS, "R+", 7), switch(400, 7, "S", REDIS)) == [(100, 400)]
    assert found(switch(100, REDIS, "R", 7), switch(140, 7, "S", REDIS)) == [], "too short"


def test_a_sleep_is_a_stop_from_when_a_request_is_due():
    assert found(switch(1100, CLIENT, "S", 0), waking(1800, CLIENT, 0), switch(1810, 0, "R", CLIENT)) == []
    late = (switch(1100, CLIENT, "S", 0), waking(2700, CLIENT, 0), switch(2750, 0, "R", CLIENT))
    assert found(*late) == [(2000, 2750)]


def test_the_wait_for_a_peer_is_no_stop_but_the_wait_for_a_cpu_after_it_is():
    sleep = (switch(1100, CLIENT, "S", REDIS), waking(2700, CLIENT, REDIS))
    assert found(*sleep, switch(2720, REDIS, "S", CLIENT)) == []
    assert found(*sleep, switch(3700, 7, "R", CLIENT)) == [(2700, 3700)]
    soft = switch(10, 9, "S", 0).replace("redis-server-9 ", "ksoftirqd/0-9 ")
    assert found(soft, switch(1100, CLIENT, "S", 9), waking(2700, CLIENT, 9), switch(2720, 9, "S", CLIENT)) == []


def test_a_switch_from_an_idle_task_may_be_missing():
    lines = (switch(100, REDIS, "D", 0), waking(900, REDIS, BENCH), switch(1000, REDIS, "S", 0))
    assert found(*lines) == [(100, 900)]


def test_the_stops_of_both_processes_are_joined():
    redis = (switch(100, REDIS, "D", 0), switch(900, 0, "R", REDIS))
    client = (switch(150, CLIENT, "D", 0), switch(950, 0, "R", CLIENT))
    assert found(*redis, *client) == [(100, 950)]
    assert found(*redis, *client, pids=(REDIS,)) == [(100, 900)]


def test_a_trace_with_lost_events_is_refused():
    with pytest.raises(RuntimeError, match="too small"):
        found(switch(100, REDIS, "R", 7), written=5)


def columns(*rows):
    """Return columns of samples in us: service and intended of each request."""
    return [[1000 * row[0] for row in rows], [], [1000 * row[1] for row in rows]]


def test_those_who_are_due_in_a_stop_wait_for_its_end_and_for_each_other():
    measured = columns((50, 50), (1730, 1730), (40, 770), (50, 60))
    # Request 1 was under way when the stop began after 20 us, and request 2 waits behind it.
    truth = stops.expected(measured, PERIOD, [(1_020_000, 2_700_000)])
    assert truth == [50_000, 1_730_000, 770_000, 60_000]


def test_the_stops_in_a_request_are_not_its_service():
    """The second request took 950 us, 900 of them in the stop."""
    truth = stops.expected(columns((50, 50), (950, 950)), PERIOD, [(1_020_000, 1_920_000)])
    assert truth == [50_000, 950_000]


def test_a_delay_that_is_left_out_is_noticed():
    """A client that measures from when it sent leaves out the wait."""
    truth = stops.expected(columns((50, 50), (60, 60)), PERIOD, [(900_000, 1_500_000)])
    assert truth[1] >= 500_000


def test_a_response_has_the_stops_of_the_server_and_those_behind_them():
    measured = columns((50, 50), (1730, 1730), (40, 770), (50, 60))
    # Request 1 was under way when the server was stopped after 20 us, and then the client for 1.3 ms.
    server, client = [(1_020_000, 1_420_000)], [(1_400_000, 2_700_000)]
    assert stops.expected_response(measured, PERIOD, server, client) == [50_000, 450_000, 40_000, 50_000]
    long = columns((50, 50), (1730, 1730), (40, 770), (50, 60))
    assert stops.expected_response(long, PERIOD, [(1_020_000, 2_700_000)], []) == [50_000, 1_730_000, 770_000, 50_000]


def test_a_response_has_no_stop_of_the_client():
    """It is stopped before it sends request 1, and while reply 2 waits; after that only for a wake-up."""
    measured = columns((50, 50), (60, 860), (1600, 1600), (650, 1250))
    stopped = [(900_000, 1_800_000), (2_030_000, 3_580_000), (3_630_000, 4_230_000)]
    assert stops.expected_response(measured, PERIOD, [], stopped) == [50_000, 60_000, 50_000, 650_000]
