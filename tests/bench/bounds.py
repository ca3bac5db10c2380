# SPDX-License-Identifier: GPL-3.0-or-later
"""Plant known delays on real servers and look at the answer of the host: pass, fail or undecided.

python tests/bench/bounds.py [--rounds N] [--write]

The objective is made of what this machine does without planted delays. Needs root, redis-server, a C compiler and
libhiredis. With --write the figures go to docs/bench/bounds.md.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "programs" / "solotest"
sys.path[:0] = [str(ROOT / ".ansible" / "collections"), str(TESTS)]

import machine  # noqa: E402
import truth  # noqa: E402
from servers import Redis  # noqa: E402

from ansible_collections.memstretch.density.plugins.module_utils.solotest import client  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.run import observer  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import HostBounds, answer  # noqa: E402

PROGRAM = TESTS / "build" / "solotest"
PAGE = ROOT / "docs" / "bench" / "bounds.md"
SECONDS = 4
RATE = 1000
FREEZER = pathlib.Path("/sys/fs/cgroup/freezer/memstretch-bench")
FREEZER_V2 = pathlib.Path("/sys/fs/cgroup/memstretch-bench")
OBSERVER_RATE = 1500  # so that a measurement has enough of its requests
LARGEST_P99_US = 800  # the shortest planted delay is 900 us
REPLY_TIME = 1 / 4900  # seconds; the schedule asks for 5,000 requests a second


class FrozenGroup(contextlib.AbstractContextManager):
    """A control group of processes that are frozen and thawed together, as the VM that they run in would be."""

    def __init__(self, *pids):
        self._is_v1 = FREEZER.parent.is_dir()
        self.path = FREEZER if self._is_v1 else FREEZER_V2
        self.path.mkdir()
        for pid in pids:
            (self.path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def freeze(self):
        """Return when all processes are frozen."""
        if self._is_v1:
            (self.path / "freezer.state").write_text("FROZEN", encoding="ascii")
            while (self.path / "freezer.state").read_text(encoding="ascii") != "FROZEN\n":
                pass
        else:
            (self.path / "cgroup.freeze").write_text("1", encoding="ascii")
            while "frozen 1" not in (self.path / "cgroup.events").read_text(encoding="ascii"):
                pass

    def thaw(self):
        """Let all processes continue."""
        name, value = ("freezer.state", "THAWED") if self._is_v1 else ("cgroup.freeze", "0")
        (self.path / name).write_text(value, encoding="ascii")

    def __exit__(self, *_exception):
        self.thaw()
        root = self.path.parent / "cgroup.procs"
        for pid in (self.path / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                root.write_text(pid, encoding="ascii")
        for _attempt in range(100):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)
        self.path.rmdir()


class Freezes(threading.Thread):
    """Freezes a group by a plan, as truth.Stalls stops a process. Has the same attributes."""

    def __init__(self, group, plan, start):
        super().__init__()
        self.group, self.plan, self.schedule_start, self.happened = group, plan, start, []

    def run(self):
        for after, length in self.plan:
            time.sleep(max(0, self.schedule_start / 1e9 + after - time.monotonic()))
            begin = time.monotonic_ns()
            self.group.freeze()
            frozen = time.monotonic_ns()
            while time.monotonic_ns() < frozen + 1e9 * length:
                pass
            self.group.thaw()
            self.happened.append((begin - self.schedule_start, time.monotonic_ns() - self.schedule_start))


class SlowServer(threading.Thread):
    """Passes one connection on to a Redis, and each reply back at most every REPLY_TIME: one server, 4,900 a second."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self._redis = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def run(self):
        while True:
            with self._listener.accept()[0] as side, socket.create_connection(("127.0.0.1", self._redis)) as redis:
                for each in (side, redis):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._serve(side, redis)

    @staticmethod
    def _serve(side, redis):
        free = 0.0
        while True:
            for each in select.select([side, redis], [], [])[0]:
                data = each.recv(1 << 20)
                if not data:
                    return
                if each is side:
                    free = max(free, time.monotonic()) + REPLY_TIME
                    redis.sendall(data)
                else:
                    while time.monotonic() < free:
                        pass
                    side.sendall(data)


def launch(port, rate, start_at, *options):
    """Start a client that loads a Redis from a time on."""
    return subprocess.Popen(
        [
            *(PROGRAM, "--json", "--start-at", f"{start_at:.6f}", "--requests", str(SECONDS * rate), *options),
            *("test", str(port), "1000", "1000", "0", str(rate)),
        ],
        stdout=subprocess.PIPE,
    )


def measure(port, rate=RATE, delays=lambda client_pid, start: None, observe=False):
    """Run the client and return its result as the module returns it, and the thread that delayed something.

    Args:
        port: of the Redis.
        rate: requests per second.
        delays: called with the client's pid and the start on the monotonic clock in ns; returns a thread, which is run.
        observe: run an observer too.
    """
    start_at = time.time() + 0.5
    offset = time.time_ns() - time.monotonic_ns()
    process = launch(port, rate, start_at, "--pacing", "sleep")
    watching = launch(port, OBSERVER_RATE, start_at, "--arrivals", "poisson") if observe else None
    thread = delays(process.pid, round(start_at * 1e9) - offset)
    if thread:
        thread.start()
    output = process.communicate(timeout=120)[0]
    if thread:
        thread.join()
    result = client.facts(json.loads(output), None, {}, {})
    if watching:
        seen = client.facts(json.loads(watching.communicate(timeout=120)[0]), None, {}, {})
        result["observed"] = observer.excerpt({"solotest": seen})
    return result, thread


def judged(result, slo):
    bounds = HostBounds()
    bounds.add(result)
    figures = bounds.figures()
    return answer(figures, slo), figures


def together(redis, length, per_second, observe=False):
    """Freeze Redis and client together, each time for so many seconds; an observer runs on."""
    plan = [((number + 0.5) / per_second, length) for number in range(SECONDS * per_second - 1)]
    with contextlib.ExitStack() as stack:

        def delays(pid, start):
            group = stack.enter_context(FrozenGroup(redis.process.pid, pid))
            return Freezes(group, plan, start)

        result, freezes = measure(redis.port, delays=delays, observe=observe)
    services = [1000 * result["latency"]["service"]["p50_us"]] * (SECONDS * RATE)
    expected = truth.queue(SECONDS * RATE, 1e9 / RATE, services, freezes.happened)
    return result, result["latency"]["intended"]["avg_us"] * 1000 / statistics.fmean(expected) - 1


def stopped(redis, who, length, count, observe=False):
    """Stop the client or the server alone."""
    plan = [((number + 0.5) * SECONDS / count, length) for number in range(count)]
    result, _stalls = measure(
        redis.port,
        delays=lambda pid, start: truth.Stalls(redis.process.pid if who == "server" else pid, plan, start),
        observe=observe,
    )
    return result, None


def saturated(redis):
    """Ask 5,000 requests a second of a server that answers 4,900."""
    server = SlowServer(redis.port)
    server.start()
    return measure(server.port, rate=5000)[0], None


SCENARIOS = (
    # name, the answers that must not come out, and how it is made
    ("nothing planted", ("fail",), lambda redis: (measure(redis.port)[0], None)),
    ("frozen together, 100 x 0.9 ms a second", ("pass",), lambda redis: together(redis, 0.0009, 100)),
    ("frozen together, 20 x 3 ms a second", ("pass",), lambda redis: together(redis, 0.003, 20)),
    ("only the client stopped, 10 x 20 ms", ("fail", "pass"), lambda r: stopped(r, "client", 0.02, 10)),
    ("the same with an observer", ("fail", "undecided"), lambda r: stopped(r, "client", 0.02, 10, True)),
    ("frozen together, 20 x 3 ms, with an observer", ("pass",), lambda redis: together(redis, 0.003, 20, True)),
    ("only Redis stopped, 10 x 20 ms", ("pass", "undecided"), lambda r: stopped(r, "server", 0.02, 10)),
    ("4,900 of 5,000 requests a second", ("pass", "undecided"), saturated),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    subprocess.run(["make", "-s", "-C", TESTS, "build/solotest"], check=True)
    found = {name: [] for name, *_rest in SCENARIOS}
    with Redis() as redis:
        subprocess.run([PROGRAM, "fill", str(redis.port), "1000", "1000"], check=True, stdout=subprocess.DEVNULL)
        calm = [measure(redis.port)[0]["latency"]["intended"] for _round in range(3)]
        slo = {
            "avg_us": 3 * statistics.median(each["avg_us"] for each in calm),
            "p99_us": 2 * statistics.median(each["p99_us"] for each in calm),
        }
        if slo["p99_us"] > LARGEST_P99_US:
            sys.exit(f"this machine is too busy: p99 <= {slo['p99_us']:,.0f} us would hide the planted delays")
        print(f"SLO: avg <= {slo['avg_us']:.0f} us, p99 <= {slo['p99_us']:.0f} us", flush=True)
        for number in range(options.rounds):
            for name, never, make in SCENARIOS:
                result, error = make(redis)
                given, figures = judged(result, slo)
                found[name].append((given, figures, error))
                print(f"{number + 1:3} {name:42} {given:10} {'WRONG' if given in never else ''}", flush=True)
    lines = list(table(found))
    print("\n".join(lines))
    if options.write:
        PAGE.write_text(
            f"# Planted delays and the answers of a host\n\n`tests/bench/bounds.py`, {datetime.date.today()}: "
            f"{SECONDS} s at {RATE:,} requests/s with `pacing: sleep`, judged with avg <= {slo['avg_us']:.0f} us and "
            f"p99 <= {slo['p99_us']:.0f} us (3 times the average and 2 times the p99 of this machine without planted "
            f"delays). Medians of the rounds.\n\n{machine.describe(load)}" + "\n".join(lines) + "\n",
            encoding="utf-8",
        )
    wrong = [name for name, never, _make in SCENARIOS for given, *_other in found[name] if given in never]
    sys.exit(f"wrong answers: {', '.join(wrong)}" if wrong else 0)


COLUMNS = (
    "planted",
    "pass",
    "fail",
    "undecided",
    "must not come",
    "p99 at least, us",
    "p99 at most, us",
    "average of `intended` off by",
)


def table(found):
    """Yield the lines of the page's table."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "| --- " * len(COLUMNS) + "|"
    for name, never, _make in SCENARIOS:
        answers, figures, errors = zip(*found[name])
        known = [error for error in errors if error is not None]
        cells = [
            name,
            *(str(answers.count(each)) for each in ("pass", "fail", "undecided")),
            " or ".join(never),
            *(f"{statistics.median(each[bound]['p99_us'] for each in figures):,.0f}" for bound in ("lower", "upper")),
            f"{statistics.median(known):+.1%}" if known else "",
        ]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
