# SPDX-License-Identifier: GPL-3.0-or-later
"""What the latencies must have been, computed from what was done to the server or to the client.

Something else on the machine may take the CPU from either as well. The kernel tells for how long, and the checks allow
for that: they hold on any machine, and are strict on one that is free.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

PERMILLES = {"p50_ns": 500, "p99_ns": 990, "p999_ns": 999, "max_ns": 1000}


def percentile(values, permille):
    """The value at rank ceil(n * permille / 1000)."""
    ordered = sorted(values)
    return ordered[max(1, -(-len(ordered) * permille // 1000)) - 1]


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
            try:
                os.kill(self.pid, signal.SIGSTOP)
            except ProcessLookupError:  # this thread was late, and the process has ended
                return
            begin = time.monotonic_ns()
            time.sleep(length)
            end = time.monotonic_ns()
            os.kill(self.pid, signal.SIGCONT)
            self.happened.append((begin - self.schedule_start, end - self.schedule_start))


CLOCKS_NS = 1e6  # between the clocks of this process and of the client
OVERHEAD_NS = 10e6  # the client's own work on all requests that queued up behind a stop
TICK_NS = 1e9 / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Measured:
    """A run of the client while something was stopped. All times are in ns, since the start of the schedule."""

    report: dict
    columns: list  # of the raw samples
    period: float
    stops: list  # when each began and ended
    client_waited: float  # for a CPU, by the kernel's account, with all that the hypervisor took
    server_waited: float
    start: int  # of the schedule, by the monotonic clock
    client: int  # the process that was the client
    watched: object  # what the caller's `watch` gave

    def least_waits(self):
        """Compute how long each request surely waited: one that is due during a stop waits for its end."""
        waits = [0.0] * len(self.columns[0])
        for begin, end in self.stops:
            for i in range(max(0, math.ceil(begin / self.period)), min(len(waits), math.ceil(end / self.period))):
                waits[i] = end - i * self.period
        return waits


def check_upper_bound(measured):
    """Check that nobody who waited is missing in the upper bound, and that the lower bound is below it."""
    _service, response, intended, lateness, _wakeup, server = measured.columns
    waits = measured.least_waits()
    assert max(waits) > 95e6, "no stop of the plan met the schedule"
    assert all(value >= wait - CLOCKS_NS for value, wait in zip(intended, waits))
    assert [a + b for a, b in zip(response, lateness)] == intended
    assert all(low <= high for low, high in zip(server, intended) if low is not None)


def check_stalled_server(measured):
    """Check that what the server took is in `response`, and in the lower bound where the client was on time."""
    check_upper_bound(measured)
    service, response, intended, _lateness, _wakeup, server = measured.columns
    waits = measured.least_waits()
    away = measured.client_waited + CLOCKS_NS + OVERHEAD_NS
    assert all(value >= wait - away for value, wait in zip(response, waits))
    for begin, end in measured.stops:
        met = next((i for i, value in enumerate(intended) if i * measured.period + value >= end), len(intended))
        if met == len(intended) or server[met] is None or intended[met] - service[met] > measured.period / 2:
            continue  # the client was late: the lower bound leaves this stall out
        for i in range(met + 1, len(intended)):
            if begin <= i * measured.period < end and server[i] is not None:
                assert server[i] >= waits[i] - measured.period - away


def check_stopped_client(measured):
    """Check that the stops are in `lateness`, and not in the lower bound.

    A client that is stopped while it sends blames the server. So two of five stops may be missing.
    """
    check_upper_bound(measured)
    _service, _response, _intended, lateness, _wakeup, server = measured.columns
    away = measured.server_waited + 3 * OVERHEAD_NS
    assert percentile(lateness, 990) >= percentile(measured.least_waits(), 980) - away
    assert percentile([value for value in server if value is not None] or [0], 990) <= away


def wall_offset():
    """Return the wall clock minus the monotonic clock, by the narrowest of several readings."""
    readings = []
    for _reading in range(5):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]


def waited_for_cpu(pid):
    """Compute how long a process has waited for a CPU, in ns."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1])


def stolen_ns():
    """Compute how long the hypervisor has taken CPUs away, in ns, to a tick."""
    return int(pathlib.Path("/proc/stat").read_text(encoding="ascii").split()[8]) * TICK_NS


def measure_with_stalls(
    program, port, stop, plan, rate, seconds, server_pid, options=(), watch=lambda client: contextlib.nullcontext()
):
    """Run the client, with one connection, while the "server" or the "client" is stopped by a plan.

    `watch` is called with the client's pid; the context manager that it returns is open until the client has ended.
    """
    start_at = time.time() + 0.5
    server_waited = waited_for_cpu(server_pid)
    with tempfile.TemporaryDirectory() as directory:
        raw = os.path.join(directory, "raw")
        client = subprocess.Popen(
            [
                *(program, "--json", "--raw", raw, "--start-at", f"{start_at:.6f}"),
                *("--requests", str(math.floor(rate * seconds)), *options),
                *("test", str(port), "1000", "1000", "0", str(rate)),
            ],
            stdout=subprocess.PIPE,
        )
        with watch(client.pid) as watched:
            start = round(start_at * 1e9) - wall_offset()
            stalls = Stalls(server_pid if stop == "server" else client.pid, plan, start)
            stalls.start()
            output = client.communicate(timeout=seconds * 10 + 60)[0]
            stalls.join()
        server_waited = waited_for_cpu(server_pid) - server_waited
        report = json.loads(output)
        columns = read_raw(raw)
    health = report["client_health"]
    stolen = (health["steal_ticks"] + 1) * TICK_NS
    waited = health["cpu_wait_s"]
    # A client that was started late begins its schedule late, too: it was due when its first request was, sent or not.
    late = (report["test"]["started_at"] - start_at) * 1e9 - (columns[2][0] - columns[0][0])
    return Measured(
        report=report,
        columns=columns,
        period=1e9 / rate,
        stops=[(begin - late, end - late) for begin, end in stalls.happened],
        client_waited=stolen + (waited * 1e9 if waited is not None else math.inf),
        server_waited=server_waited + stolen,
        start=start + round(late),
        client=client.pid,
        watched=watched,
    )
