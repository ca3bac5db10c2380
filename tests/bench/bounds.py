# SPDX-License-Identifier: GPL-3.0-or-later
"""Plant known delays on real servers and look at the answer of the host: pass, fail or undecided.

python tests/bench/bounds.py [--rounds N] [--write]

Redis and its client share a CPU, as in a virtual machine with one. The observer and this program have the others. The
CPUs stay awake when they are idle. The objective is made of what this machine does without planted delays. What a
freeze makes of `intended` is compared with the stops that the kernel recorded. Needs root, redis-server, a C compiler
and libhiredis. With --write the figures go to docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import pathlib
import random
import select
import socket
import statistics
import sys
import tempfile
import threading
import time
import typing as t

import machine
import stops
from one_redis import ROOT, SECONDS, filled_redis, launch, result

from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_idle import kept_awake
from ansible_collections.memstretch.density.plugins.plugin_utils.run import observer
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import HostBounds, answers

sys.path.insert(0, str(ROOT / "tests" / "programs" / "solotest"))

import truth

RATE = 1000
PERIOD = 1e9 / RATE
FREEZER = pathlib.Path("/sys/fs/cgroup/freezer/memstretch-bench")
FREEZER_V2 = pathlib.Path("/sys/fs/cgroup/memstretch-bench")
START_S = 1.0  # from the launch of the clients to the start of their schedules
OBSERVER_RATE = 1500  # so that a measurement has enough of its requests
LARGEST_P99_US = 800  # the shortest planted delay is 900 us
REPLY_TIME = 1 / 4900  # seconds; the schedule asks for 5,000 requests a second
# How far `intended` may be from what the recorded stops make of it, on average over the rounds.
BAR = 0.02


class FrozenGroup(contextlib.AbstractContextManager):
    """A control group of processes that are frozen and thawed together, as the VM that they run in would be."""

    def __init__(self, *pids: int) -> None:
        is_v1 = FREEZER.parent.is_dir()
        self.path = FREEZER if is_v1 else FREEZER_V2
        self._file = self.path / ("freezer.state" if is_v1 else "cgroup.freeze")
        self._frozen, self._thawed = ("FROZEN", "THAWED") if is_v1 else ("1", "0")
        self.path.mkdir()
        for pid in pids:
            (self.path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def freeze(self) -> None:
        """Begin to freeze all processes."""
        self._file.write_text(self._frozen, encoding="ascii")

    def thaw(self) -> None:
        """Let all processes continue."""
        self._file.write_text(self._thawed, encoding="ascii")

    def __exit__(self, *_exception: object) -> None:
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
    """Freezes a group by a plan of (after, length) in seconds from a start (monotonic, ns)."""

    def __init__(self, group: FrozenGroup, plan: list[tuple[float, float]], start: int) -> None:
        super().__init__()
        self._group, self._plan, self._start = group, plan, start

    def run(self) -> None:
        for after, length in self._plan:
            # A thread that spins would take a CPU from those that it freezes.
            time.sleep(max(0, self._start / 1e9 + after - time.monotonic()))
            self._group.freeze()
            time.sleep(length)
            self._group.thaw()


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


class Measured(t.NamedTuple):
    """What a client measured.

    Attributes:
        result: as the module solotest returns it, with what an observer saw.
        columns: the raw samples; see truth.read_raw().
        start: of its schedule, by the monotonic clock in ns.
    """

    result: dict[str, t.Any]
    columns: list[list[int]]
    start: int


class Machine:
    """One Redis with its client on a CPU, and an observer on another one."""

    def __init__(self, port: int, redis: int) -> None:
        self.port, self.redis = port, redis
        cpus = sorted(os.sched_getaffinity(0))
        self._guest, others = cpus[0], set(cpus[1:]) or set(cpus)
        os.sched_setaffinity(redis, {self._guest})
        os.sched_setaffinity(0, others)
        self._observer = min(others)

    def measure(
        self,
        rate: int = RATE,
        delays: t.Callable[[int, int], threading.Thread | None] = lambda client, start: None,
        observe: bool = False,
        port: int | None = None,
    ) -> Measured:
        """Run the client.

        Args:
            rate: requests per second.
            delays: called with the client's pid and the start on the monotonic clock in ns; the thread that it returns
                delays something.
            observe: run an observer too.
            port: of another server than Redis.
        """
        start_at, offset = time.time() + START_S, truth.wall_offset()
        when = f"--start-at={start_at:.6f}"
        watching = None
        with tempfile.TemporaryDirectory() as directory:
            raw = f"{directory}/raw"
            process = launch(port or self.port, rate, when, f"--cpu={self._guest}", f"--raw={raw}")
            if observe:
                poisson = ("--arrivals=poisson", f"--cpu={self._observer}")
                watching = launch(self.port, OBSERVER_RATE, when, *poisson)
            thread = delays(process.pid, round(start_at * 1e9) - offset)
            if thread:
                thread.start()
            measured = result(process)
            if thread:
                thread.join()
            columns = truth.read_raw(raw)
        if watching:
            measured["observed"] = observer.excerpt({"solotest": result(watching)})
        # A client that was late to start has shifted its schedule.
        first_due = round(measured["started_at"] * 1e9) - columns[2][0] + columns[0][0]
        return Measured(measured, columns, first_due - offset)

    def together(self, length: float, per_second: int, observe: bool = False) -> tuple[dict[str, t.Any], list[float]]:
        """Freeze Redis and client together, each time for C(length) seconds; an observer runs on.

        Returns:
            The result of the client, and by how much average and p99 of C(intended) exceed what the stops make of them.
        """
        # A freeze that always began when a request is due would just meet it, or just not.
        early = [random.uniform(0, 1 - 2 * length * per_second) for _number in range(SECONDS * per_second)]
        plan = [((number + part) / per_second, length) for number, part in enumerate(early)]
        with contextlib.ExitStack() as stack:
            traces: list[tuple[stops.SchedulerTrace, int]] = []

            def delays(client: int, start: int) -> threading.Thread:
                traces.append((stack.enter_context(stops.SchedulerTrace(self.redis, client)), client))
                return Freezes(stack.enter_context(FrozenGroup(self.redis, client)), plan, start)

            measured = self.measure(delays=delays, observe=observe)
        trace, client = traces[0]
        happened = trace.stops(measured.start, PERIOD, self.redis, client)
        expected, intended = stops.expected(measured.columns, PERIOD, happened), measured.columns[2]
        figures = (statistics.fmean, lambda values: truth.percentile(values, 990))
        return measured.result, [of(intended) / of(expected) - 1 for of in figures]

    def stopped(self, who: str, length: float, count: int, observe: bool = False) -> tuple[dict[str, t.Any], None]:
        """Stop the client or the server alone."""
        plan = [((number + 0.5) * SECONDS / count, length) for number in range(count)]

        def delays(client: int, start: int) -> threading.Thread:
            return truth.Stalls(self.redis if who == "server" else client, plan, start)

        return self.measure(delays=delays, observe=observe).result, None

    def saturated(self) -> tuple[dict[str, t.Any], None]:
        """Ask 5,000 requests a second of a server that answers 4,900."""
        server = SlowServer(self.port)
        server.start()
        return self.measure(rate=5000, port=server.port).result, None

    def calm(self, observe: bool = False) -> tuple[dict[str, t.Any], None]:
        """Plant nothing."""
        return self.measure(observe=observe).result, None


def judged(measured: dict[str, t.Any], slo: dict[str, float]) -> tuple[str, dict[str, t.Any]]:
    """Return the answer for a host, and the figures of its bounds."""
    bounds = HostBounds(slo["p99_us"])
    bounds.add(measured)
    seen = bounds.seen()
    return answers([seen], slo)[0], seen.figures


SCENARIOS: tuple[tuple[str, tuple[str, ...], t.Callable[[Machine], t.Any]], ...] = (
    # name, the answers that must not come out, and how it is made
    ("nothing planted", ("fail",), lambda m: m.calm()),
    ("nothing planted, with an observer", ("fail",), lambda m: m.calm(True)),
    ("frozen together, 100 x 0.9 ms a second", ("pass",), lambda m: m.together(0.0009, 100)),
    ("frozen together, 20 x 3 ms a second", ("pass",), lambda m: m.together(0.003, 20)),
    ("only the client stopped, 10 x 20 ms", ("fail", "pass"), lambda m: m.stopped("client", 0.02, 10)),
    ("the same with an observer", ("fail", "undecided"), lambda m: m.stopped("client", 0.02, 10, True)),
    ("frozen together, 20 x 3 ms, with an observer", ("pass",), lambda m: m.together(0.003, 20, True)),
    ("only Redis stopped, 10 x 20 ms", ("pass", "undecided"), lambda m: m.stopped("server", 0.02, 10)),
    ("4,900 of 5,000 requests a second", ("pass", "undecided"), lambda m: m.saturated()),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found: dict[str, list[tuple[str, dict[str, t.Any], list[float] | None]]] = {name: [] for name, *_rest in SCENARIOS}
    with filled_redis() as redis, kept_awake():
        described = machine.describe(load)
        bench = Machine(redis.port, redis.process.pid)
        calm = [bench.calm()[0]["latency"]["intended"] for _round in range(3)]
        slo = {
            "avg_us": 3 * statistics.median(each["avg_us"] for each in calm),
            "p99_us": 2 * statistics.median(each["p99_us"] for each in calm),
        }
        if slo["p99_us"] > LARGEST_P99_US:
            sys.exit(f"this machine is too busy: p99 <= {slo['p99_us']:,.0f} us would hide the planted delays")
        print(f"SLO: avg <= {slo['avg_us']:.0f} us, p99 <= {slo['p99_us']:.0f} us", flush=True)
        for number in range(options.rounds):
            for name, never, make in SCENARIOS:
                measured, errors = make(bench)
                given, figures = judged(measured, slo)
                found[name].append((given, figures, errors))
                off = " ".join(f"{error:+.1%}" for error in errors or ())
                print(f"{number + 1:3} {name:46} {given:10} {off} {'WRONG' if given in never else ''}", flush=True)
    lines = list(table(found))
    print("\n".join(lines))
    if options.write:
        machine.write_section(
            "bounds",
            "Planted delays and the answers of a host",
            f"`tests/bench/bounds.py`, {datetime.date.today()}: "
            f"{SECONDS} s at {RATE:,} requests/s with `pacing: hybrid`, Redis and client on one CPU, the observer on "
            f"another. Judged with avg <= {slo['avg_us']:.0f} us and p99 <= {slo['p99_us']:.0f} us (3 times the "
            f"average and 2 times the p99 of this machine without planted delays). Medians of the rounds.\n\n"
            f"{described}" + "\n".join(lines) + "\n\n"
            "The last two columns compare `intended` with what the stops make of it that the kernel's scheduler "
            f"recorded (`tests/bench/stops.py`), with the range over the rounds. The medians must be within {BAR:.0%}.",
        )
    wrong = [name for name, never, _make in SCENARIOS for given, *_other in found[name] if given in never]
    wrong += [f"{name} is not within {BAR:.0%} of the stops" for name in found if is_off(found[name])]
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
    "p99 of `intended` off by",
)


def errors_of(rounds: t.Sequence[tuple[str, dict[str, t.Any], list[float] | None]]) -> list[tuple[float, ...]]:
    """Return the errors of the rounds, those of the average and those of the p99; none where no truth is known."""
    return list(zip(*(errors for _given, _figures, errors in rounds if errors is not None)))


def is_off(rounds: t.Sequence[tuple[str, dict[str, t.Any], list[float] | None]]) -> bool:
    """Check whether the median of an error is larger than it may be."""
    return any(abs(statistics.median(errors)) > BAR for errors in errors_of(rounds))


def table(found: dict[str, list[tuple[str, dict[str, t.Any], list[float] | None]]]) -> t.Iterator[str]:
    """Yield the lines of the page's table."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "| --- " * len(COLUMNS) + "|"
    for name, never, _make in SCENARIOS:
        answers, figures, _errors = zip(*found[name])
        errors = [f"{statistics.median(e):+.1%} ({min(e):+.1%} to {max(e):+.1%})" for e in errors_of(found[name])]
        cells = [
            name,
            *(str(answers.count(each)) for each in ("pass", "fail", "undecided")),
            " or ".join(never),
            *(f"{statistics.median(each[bound]['p99_us'] for each in figures):,.0f}" for bound in ("lower", "upper")),
            *(errors or ["", ""]),
        ]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
