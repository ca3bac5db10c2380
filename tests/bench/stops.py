# SPDX-License-Identifier: GPL-3.0-or-later
"""When processes were stopped, as the kernel's scheduler recorded it, and what that makes of a schedule of requests.

A plan of freezes is not what happens. A process is frozen a little after the kernel is asked for it. It goes on when it
was thawed and has got a CPU, and other work of the machine takes that away, too. The trace of the scheduler has all of
this, to a microsecond.
"""

from __future__ import annotations

import bisect
import contextlib
import math
import os
import pathlib
import re
import subprocess
import typing as t

TRACING = pathlib.Path("/sys/kernel/tracing")
# Shorter stops are a part of what a request takes.
LEAST_NS = 50_000
# A shorter wait of a reply for the client is a wake-up, which every client has (OWN_DELAY_NS of latency.h).
WAKE_UP_NS = 1_000_000
# Of one CPU: some ten seconds of a client with 1,000 requests a second. Each request makes some 300 bytes.
_BUFFER_KB = 16_384

_EVENT = re.compile(r"^ *(?P<task>.+)-(?P<pid>\d+) +\[\d+\] \S+ +(?P<at>[\d.]+): sched_(?P<name>\w+): (?P<rest>.*)$")
_SWITCH = re.compile(r"prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+)")
_WOKEN = re.compile(r"\bpid=(\d+)")
_ENTRIES = re.compile(r"entries-in-buffer/entries-written: (\d+)/(\d+)")

Stop = tuple[float, float]


class _Sleep(t.NamedTuple):
    """A time in which a process had no CPU; in ns of the monotonic clock.

    Attributes:
        begin: when it lost its CPU.
        end: when it got one again.
        woken: when it was woken, if it slept.
        waker: the process that ran then.
        slept: whether it slept by itself; otherwise another one took its CPU, or it was frozen.
    """

    begin: int
    end: int
    woken: int
    waker: int
    slept: bool


class SchedulerTrace(contextlib.AbstractContextManager):
    """Records when processes are switched to and from the CPUs, and woken."""

    def __init__(self, *pids: int, buffer_kb: int = _BUFFER_KB) -> None:
        self._pids = pids
        self._buffer_kb = buffer_kb
        self._instance = TRACING / "instances" / f"memstretch-bench-{os.getpid()}"
        self._text = ""

    def __enter__(self) -> SchedulerTrace:
        self._mounted = not self._instance.parent.is_dir()
        if self._mounted:
            subprocess.run(["mount", "-t", "tracefs", "nodev", TRACING], check=True)
        self._instance.mkdir()
        switched = " || ".join(f"prev_pid == {pid} || next_pid == {pid}" for pid in self._pids)
        self._set("events/sched/sched_switch/filter", switched)
        self._set("events/sched/sched_waking/filter", " || ".join(f"pid == {pid}" for pid in self._pids))
        self._set("buffer_size_kb", str(self._buffer_kb))
        self._set("trace_clock", "mono")
        self._set("set_event", "sched:sched_switch\nsched:sched_waking\n")
        return self

    def __exit__(self, *_exception: object) -> None:
        self._set("tracing_on", "0")
        self._text = (self._instance / "trace").read_text(encoding="utf-8", errors="replace")
        self._set("set_event", "")
        self._instance.rmdir()
        if self._mounted:
            subprocess.run(["umount", TRACING], check=True)

    def _set(self, name: str, value: str) -> None:
        (self._instance / name).write_text(value, encoding="ascii")

    def stops(self, start: int, period: float, *pids: int) -> list[Stop]:
        """Find when one of some traced processes was stopped, in ns after the start of a schedule of requests.

        A process is stopped while it is frozen, while it waits for a CPU, and while it sleeps although a request is
        due: the kernel woke it too late. A sleep that another traced process ends was the wait for a message from it.

        Args:
            start: of the schedule, by the monotonic clock in ns.
            period: of the schedule in ns.
            pids: the processes that serve a request together.
        """
        found = _ENTRIES.search(self._text)
        if not found or found[1] != found[2]:
            raise RuntimeError("the buffer of the trace was too small")
        peers = {*self._pids, *(int(pid) for pid in re.findall(r"\bksoftirqd/\d+-(\d+) ", self._text))}
        stops = []
        for pid in pids:
            for sleep in self._sleeps(pid):
                begin, end = sleep.begin - start, sleep.end - start
                if sleep.slept and sleep.waker in peers:
                    begin = sleep.woken - start
                elif sleep.slept:
                    begin = math.ceil(begin / period) * period
                if end - begin >= LEAST_NS:
                    stops.append((begin, end))
        return _joined(stops)

    def _sleeps(self, pid: int) -> t.Iterator[_Sleep]:
        """Yield when a process had no CPU.

        Where the switch to it is missing (there are machines that do not trace those from the idle task of a CPU), the
        process ran from when it was woken.
        """
        left: tuple[int, str] | None = None
        woken, waker = 0, -1
        for match in filter(None, map(_EVENT.match, self._text.splitlines())):
            at = round(float(match["at"]) * 1e9)
            if match["name"] == "waking":
                if int(_WOKEN.search(match["rest"])[1]) == pid and not woken:
                    woken, waker = at, int(match["pid"])
                continue
            previous, state, following = _SWITCH.search(match["rest"]).groups()
            if int(previous) == pid:
                if left and woken:
                    yield _Sleep(left[0], woken, woken, waker, left[1] == "S")
                left, woken, waker = (at, state[0]), 0, -1
            elif int(following) == pid and left:
                yield _Sleep(left[0], at, woken or at, waker, left[1] == "S")
                left = None


def _joined(stops: t.Iterable[Stop]) -> list[Stop]:
    """Return stops in order, those that overlap as one."""
    joined: list[Stop] = []
    for begin, end in sorted(stops):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def expected(columns: t.Sequence[t.Sequence[int]], period: float, stops: t.Sequence[Stop]) -> list[float]:
    """Compute what C(intended) of each request must have been, by the stops and Lindley's recursion.

    A request takes what the client measured as its service, less the stops in it. It is sent when it is due, or after
    the request before it. If nothing kept it from that, it is sent when the client did, and does not end before it did:
    one that is a little later may just meet a stop, or just miss it.

    Args:
        columns: the raw samples of the client, which has one request in flight; see truth.read_raw().
        period: of the schedule in ns.
        stops: in order.
    """
    service, _response, intended = columns[:3]
    waits, free, replied = [], 0.0, 0.0
    for number, (took, delay) in enumerate(zip(service, intended)):
        due = number * period
        sent = due + delay - took
        is_kept = replied > due or _overlap(stops, due, sent) > 0
        replied = sent + took
        is_kept = is_kept or free > sent
        free = _finished(stops, max(free, due if is_kept else sent), took - _overlap(stops, sent, replied))
        free = free if is_kept else max(free, replied)
        waits.append(free - due)
    return waits


def expected_response(
    columns: t.Sequence[t.Sequence[int]], period: float, server: t.Sequence[Stop], client: t.Sequence[Stop]
) -> list[float]:
    """Compute what C(response) of each request must have been, by the server's stops and Lindley's recursion.

    A request takes what the client measured as its service, less the stops of either process in it. The server begins
    with it when it is due, or after the request before, and does nothing in a stop of its own. A stop of the client
    alone counts for nothing, unless it is so short that the client takes it for a wake-up.

    Args:
        columns: the raw samples of the client, which has one request in flight; see truth.read_raw().
        period: of the schedule in ns.
        server: its stops in order.
        client: its stops in order.
    """
    service, _response, intended = columns[:3]
    both = _joined([*server, *(stop for stop in client if stop[1] - stop[0] > WAKE_UP_NS)])
    responses, free = [], 0.0
    for number, (took, delay) in enumerate(zip(service, intended)):
        due = number * period
        replied = due + delay
        free = _finished(server, max(free, due), took - _overlap(both, replied - took, replied))
        responses.append(free - due)
    return responses


def _overlap(stops: t.Sequence[Stop], begin: float, end: float) -> float:
    """Compute how much of a time is in stops."""
    found = 0.0
    for since, until in stops[max(0, bisect.bisect(stops, (begin, 0)) - 1) :]:
        if since >= end:
            break
        found += max(0.0, min(end, until) - max(begin, since))
    return found


def _finished(stops: t.Sequence[Stop], begin: float, work: float) -> float:
    """Find when work ends that begins then, and goes on only outside of the stops."""
    for since, until in stops[max(0, bisect.bisect(stops, (begin, 0)) - 1) :]:
        if since >= begin + work:
            break
        if until > begin:
            work -= max(0.0, since - begin)
            begin = until
    return begin + work
