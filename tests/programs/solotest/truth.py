# SPDX-License-Identifier: GPL-3.0-or-later
"""What the latencies must have been, computed from what was done to the server or to the client."""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time

PERMILLES = {"p50_ns": 500, "p99_ns": 990, "p999_ns": 999, "max_ns": 1000}


def percentile(values, permille):
    """The value at rank ceil(n * permille / 1000)."""
    ordered = sorted(values)
    return ordered[max(1, -(-len(ordered) * permille // 1000)) - 1]


def queue(count, period, services, stalls):
    """Return each request's wait and service on a schedule whose server is stalled at times.

    Times are in ns since the schedule's start. The server answers one request after the other, each in its
    service time, and does nothing during a stall (from, to): Lindley's recursion with holes in it.
    """
    responses = []
    free = 0
    for i in range(count):
        due = round(i * period)
        begin = max(due, free)
        end = begin + services[i]
        for stall_begin, stall_end in stalls:
            if begin < stall_end and end > stall_begin:
                end = max(begin, stall_end) + services[i]
        free = end
        responses.append(end - due)
    return responses


def usual_services(columns, period, stalls):
    """Return how long the server took for each request, without the stalls that were made.

    A request in flight during a stall gets the median instead of what it took. All others keep theirs: what
    else happens on the machine is as true as the plan.
    """
    usual = statistics.median(columns[0])
    services = []
    for i, (service, _response, intended, *_others) in enumerate(zip(*columns)):
        replied = i * period + intended
        stalled = any(replied - service < end and replied > begin for begin, end in stalls)
        services.append(usual if stalled else service)
    return services


def read_raw(path):
    """Return the columns of a --raw file: service, response, intended, lateness, wakeup, server."""
    with open(path, encoding="ascii") as raw:
        rows = [[None if value == "-" else int(value) for value in line.split()] for line in raw]
    return [list(column) for column in zip(*rows)]


def errors(truth, measured):
    """Relative error of each percentile of a JSON histogram against true values."""
    return {name: measured[name] / percentile(truth, permille) - 1 for name, permille in PERMILLES.items()}


class Stalls(threading.Thread):
    """Stops and continues a process by a plan of (after, length) in seconds from `start` (monotonic, ns).

    `happened` holds when it did so, since a busy machine never keeps a plan exactly.
    """

    def __init__(self, pid, plan, start):
        super().__init__()
        self.pid = pid
        self.plan = plan
        self.schedule_start = start
        self.happened = []

    def run(self):
        for after, length in self.plan:
            wait = self.schedule_start / 1e9 + after - time.monotonic()
            time.sleep(max(0, wait))
            os.kill(self.pid, signal.SIGSTOP)
            begin = time.monotonic_ns()
            time.sleep(length)
            end = time.monotonic_ns()
            os.kill(self.pid, signal.SIGCONT)
            self.happened.append((begin - self.schedule_start, end - self.schedule_start))


def measure_with_stalls(program, port, stop, plan, rate, seconds, server_pid, options=()):
    """Run the client while the "server" or the "client" is stopped by a plan.

    Returns the client's JSON, its raw columns, and what `intended` must have been.
    """
    start_at = time.time() + 0.5
    offset = time.time_ns() - time.monotonic_ns()
    count = math.floor(rate * seconds)
    with tempfile.TemporaryDirectory() as directory:
        raw = os.path.join(directory, "raw")
        client = subprocess.Popen(
            [
                program,
                "--json",
                "--raw",
                raw,
                "--start-at",
                f"{start_at:.6f}",
                "--requests",
                str(count),
                *options,
                "test",
                str(port),
                "1000",
                "1000",
                "0",
                str(rate),
            ],
            stdout=subprocess.PIPE,
        )
        stalls = Stalls(server_pid if stop == "server" else client.pid, plan, round(start_at * 1e9) - offset)
        stalls.start()
        output = client.communicate(timeout=seconds * 10 + 60)[0]
        stalls.join()
        report = json.loads(output)
        columns = read_raw(raw)
    services = usual_services(columns, 1e9 / rate, stalls.happened)
    return report, columns, queue(count, 1e9 / rate, services, stalls.happened)
