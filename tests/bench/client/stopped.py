# SPDX-License-Identifier: GPL-3.0-or-later
"""What solotest measures while Redis or the client is stopped by a plan, next to what it must have been.

The plan is not all that happens: other work of the machine takes the CPU from both, too. The trace of the scheduler has
all stops (stops.py), and the truth is made of them.
"""

from __future__ import annotations

import os
import random
import statistics

from common import KEYS, OTHER_CPU, PROGRAM, REDIS_CPU, VALUE_SIZE, Redis, solotest, stops, truth

RATE = 5000
SECONDS = 10
BUFFER_KB = 65_536  # of the trace, for one CPU


def worst(errors):
    return max(abs(error) for error in errors.values())


def bench_truth(table, options):
    if os.geteuid() != 0:
        table.add("stalls and stops", "not measured: the trace of the scheduler needs root", "", None)
        return
    plans = {
        "9 x 50 ms": [(0.5 + i, 0.05) for i in range(9)],
        "random 20-300 ms": [(0.5 + 1.5 * i, random.Random(i).uniform(0.02, 0.3)) for i in range(6)],
    }
    repetitions = max(3, options.repetitions // 5)
    with Redis(cpu=REDIS_CPU) as server:
        solotest("fill", server.port, VALUE_SIZE, KEYS)
        for name, plan in plans.items():
            runs = {stop: [] for stop in TRUTHS}
            for _repetition in range(repetitions):
                for stop, found in runs.items():
                    found.append(measure(server, stop, plan))
            report_stalls(table, name, runs["server"])
            report_stops(table, name, runs["client"], 1e9 * min(length for _at, length in plan))


def measure(server, stop, plan):
    """Return the latencies of a run in which one of the two was stopped, and the relative errors of one of them."""
    redis = server.process.pid

    def watch(client):
        return stops.SchedulerTrace(redis, client, buffer_kb=BUFFER_KB)

    placement = ["--cpu", str(OTHER_CPU)]
    run = truth.measure_with_stalls(str(PROGRAM), server.port, stop, plan, RATE, SECONDS, redis, placement, watch)
    name, expected = TRUTHS[stop]
    latency = run.report["test"]["latency"]
    return latency, truth.errors(expected(run, redis), latency[name])


def stalled(run, redis):
    """Compute what `response` must have been: all stops of Redis are in it, those of the client are not."""
    server, client = (run.watched.stops(run.start, run.period, pid) for pid in (redis, run.client))
    return stops.expected_response(run.columns, run.period, server, client)


def stopped(run, redis):
    """Compute what `intended` must have been: all stops are in it."""
    return stops.expected(run.columns, run.period, run.watched.stops(run.start, run.period, redis, run.client))


TRUTHS = {"server": ("response", stalled), "client": ("intended", stopped)}


def report_stalls(table, name, runs):
    table.note(
        f"server stalls {name}: relative error of response",
        [{key: round(error, 4) for key, error in errors.items()} for _latency, errors in runs],
    )
    for key in truth.PERMILLES:
        error = statistics.median(abs(errors[key]) for _latency, errors in runs)
        table.add(
            f"server stalls {name}: {key[:-3]} of response against truth", f"{error:.2%}", "<= 2 %", error <= 0.02
        )
    latency = runs[0][0]
    table.add(
        f"server stalls {name}: p99 of service, of response",
        f"{latency['service']['p99_ns'] / 1e3:,.0f} us, {latency['response']['p99_ns'] / 1e3:,.0f} us",
        "",
        None,
    )


def report_stops(table, name, runs, shortest_stop):
    errors = [{key: own[key] for key in ("p99_ns", "p999_ns", "max_ns")} for _latency, own in runs]
    error = statistics.median(worst(e) for e in errors)
    table.note(
        f"client stops {name}: relative error of intended", [{k: round(v, 4) for k, v in e.items()} for e in errors]
    )
    table.add(f"client stops {name}: p99 .. max of intended against truth", f"{error:.2%}", "<= 2 %", error <= 0.02)
    # Every repetition has every planned stop, so a stop that leaked into `response` would show in all of them. Time
    # that the machine takes from the server belongs there, but only in some: hence the minimum, not the median.
    responses = [latency["response"] for latency, _errors in runs]
    cleanest = min(responses, key=lambda response: response["max_ns"])
    table.note(
        f"client stops {name}: p99.9, maximum of response in ms",
        [(round(response["p999_ns"] / 1e6, 2), round(response["max_ns"] / 1e6, 2)) for response in responses],
    )
    table.add(
        f"client stops {name}: p99.9, max of response, least of {len(responses)}",
        f"{cleanest['p999_ns'] / 1e6:.2f} ms, {cleanest['max_ns'] / 1e6:.2f} ms",
        f"< {shortest_stop / 2e6:.0f} ms, half a stop",
        cleanest["max_ns"] < shortest_stop / 2,
    )
