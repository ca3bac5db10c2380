# SPDX-License-Identifier: GPL-3.0-or-later
"""One client for all phases of a schedule: armed, released, a line for each phase, and each way to end."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest
import truth
from servers import FakeServer, Redis, free_port, good_reply, requests

KEYS = 1000
SIZE = 100


class Follower:
    """A client that follows a schedule, and what it has written so far."""

    def __init__(self, stack, solotest, directory, port, phases, *options, within=20):
        self.solotest = solotest
        self.plan = directory / "plan"
        self.lines_path = directory / "lines"
        self.plan.write_text(
            "\n".join(["solotest-schedule 1", f"release_within {within}", *(f"phase {p}" for p in phases), ""])
        )
        self.output = stack.enter_context(self.lines_path.open("a"))
        self.process = solotest.start(
            f"--schedule={self.plan}", *options, "test", port, SIZE, KEYS, 0, 1000, stdout=self.output
        )
        self.start = None

    def documents(self):
        return [json.loads(line) for line in self.lines_path.read_text().splitlines()]

    def wait_for(self, found, seconds=20):
        """Return the first document for which `found` is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for document in self.documents():
                if found(document):
                    return document
            time.sleep(0.01)
        raise TimeoutError(self.documents())

    def armed(self):
        return self.wait_for(lambda d: "armed" in d)

    def phase(self, name):
        return self.wait_for(lambda d: d.get("phase") == name)

    def release(self, after=0.4):
        assert self.armed()["armed"] is True
        self.start = time.time() + after
        ready = self.plan.with_suffix(".new")
        ready.write_text(f"{self.start:.6f}\n")
        ready.rename(f"{self.plan}.start")
        return self

    def finish(self, timeout=30):
        self.result = self.solotest.finish(self.process, timeout)
        return self.documents()


@contextlib.contextmanager
def following(*arguments, **options):
    with contextlib.ExitStack() as stack:
        follower = Follower(stack, *arguments, **options)
        try:
            yield follower
        finally:
            if follower.process.poll() is None:
                follower.process.kill()
                follower.process.wait()


def phases_of(documents):
    return [document for document in documents if "phase" in document]


def check_begin(document, start, at):
    """The first request was sent at its time, but for what the client says it was late."""
    test = document["test"]
    late = test["started_at"] - start - at
    assert -1e-3 < late < 5e-3 + test["latency"]["lateness"]["max_ns"] / 1e9, document["phase"]


PLAN = [
    "w at=0 requests=200 rate=1000 seed=1 max_seconds=0.5",
    "i at=0.6 requests=500 influence=25 seed=2 max_seconds=1",
    "s at=1.4 requests=300 read_mix=0 arrivals=poisson seed=3 max_seconds=1",
]


def test_phases_run_at_their_times_and_are_like_a_run_of_their_own(any_solotest, filled, tmp_path):
    with following(any_solotest, tmp_path, filled.port, PLAN) as follower:
        documents = follower.release().finish()
    assert follower.result.code == 0, follower.result
    lines = phases_of(documents)
    assert [(line["phase"], line["index"]) for line in lines] == [("w", 0), ("i", 1), ("s", 2)]
    for line, at, sent in zip(lines, (0, 0.6, 1.4), (200, 500, 300)):
        assert line["error"] is None and line["test"]["requests"]["ok"] == sent
        assert line["test"]["latency"]["service"]["count"] == sent
        assert abs(line["settings"]["start_at"] - follower.start - at) < 2e-6
        assert abs(line["wall_offset"] - (time.time() - time.monotonic())) < 0.1
        check_begin(line, follower.start, at)
    assert lines[1]["settings"]["influence"] == 25 and lines[2]["test"]["requests"]["sets"] > 200
    assert lines[0]["server_after"] == lines[1]["server_before"] and lines[2]["server_after"]["process_id"]
    # alone, each of them sends the same keys
    alone = any_solotest.run("--json", "--requests", 500, "--seed", 2, "test", filled.port, SIZE, KEYS, 25, 1000).json
    assert set(alone) | {"phase", "index", "wall_offset"} == set(lines[1])
    assert documents[-2]["hot_sets"]["i"] == alone["test"]["hot_set"]
    assert list(documents[-2]["hot_sets"]) == ["w", "i"] and documents[-1] == {"schema": 1, "ended": "done"}
    assert filled.command("STRLEN", 7) == f":{SIZE}\r\n"


def test_a_server_that_closes_idle_connections(solotest, tmp_path):
    """`timeout 1` closes each that sends nothing for a second."""
    with Redis("--timeout", "1") as server:
        solotest.run("fill", server.port, SIZE, KEYS)
        with following(solotest, tmp_path, server.port, ["a at=0 requests=10", "b at=4 requests=10"]) as follower:
            follower.armed()
            time.sleep(3)
            lines = phases_of(follower.release().finish())
    assert [line["error"] for line in lines] == [None, None] and follower.result.code == 0


def test_connections_that_the_server_closes_between_phases(any_solotest, filled, tmp_path):
    with following(
        any_solotest, tmp_path, filled.port, ["a at=0 requests=10", "b at=2 requests=10"], "--connections", 3
    ) as follower:
        follower.release().phase("a")
        filled.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        lines = phases_of(follower.finish())
    assert [line["error"] for line in lines] == [None, None]


def test_a_server_without_a_free_client_is_asked_again(solotest, tmp_path):
    with Redis("--maxclients", "1") as server:
        held = socket.create_connection(("127.0.0.1", server.port))
        held.sendall(b"PING\r\n")
        assert held.recv(7) == b"+PONG\r\n"
        with following(solotest, tmp_path, server.port, ["a at=0 requests=10 read_mix=-1"]) as follower:
            time.sleep(1)
            assert follower.documents() == []
            held.close()
            lines = phases_of(follower.release().finish())
    assert lines[0]["error"] is None and lines[0]["test"]["requests"]["ok"] == 10


def test_a_server_without_a_free_client_says_so_in_the_phase(any_solotest, tmp_path):
    """It ends the connection after the first phase, and has no place for another one."""

    def script(connection, number):
        if number > 1:
            connection.sendall(b"-ERR max number of clients reached\r\n")
            return
        for words in requests(connection):
            connection.sendall(good_reply(words))
            if words[0] == b"GET":
                return

    with (
        FakeServer(script) as server,
        following(any_solotest, tmp_path, server.port, ["a at=0 requests=1", "b at=1 requests=10"]) as follower,
    ):
        lines = phases_of(follower.release().finish())
    assert [line["error"] and line["error"]["kind"] for line in lines] == [None, "no_client"]
    assert "max number of clients" in lines[1]["error"]["message"] and lines[1]["test"] is None
    assert follower.result.code == 3


def test_a_server_that_was_restarted_is_not_loaded(solotest, tmp_path):
    with Redis() as first:
        solotest.run("fill", first.port, SIZE, KEYS)
        with following(
            solotest, tmp_path, first.port, ["a at=0 requests=10", "b at=3 requests=10", "c at=3.5 requests=10"]
        ) as follower:
            follower.release().phase("a")
            old = first.process.pid
            first.process.kill()
            first.process.wait()
            with restarted(first.port):
                lines = phases_of(follower.finish())
    assert [line["error"] and line["error"]["kind"] for line in lines] == [None, "lost", "lost"]
    assert "Redis was restarted" in lines[1]["error"]["message"] and str(old) in lines[1]["error"]["message"]
    assert lines[1]["test"] is None and follower.result.code == 4


@contextlib.contextmanager
def restarted(port):
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_a_server_that_is_gone_fails_its_phases_and_says_why(solotest, tmp_path):
    with Redis() as server:
        solotest.run("fill", server.port, SIZE, KEYS)
        with following(solotest, tmp_path, server.port, ["a at=0 requests=10", "b at=1 requests=10"]) as follower:
            follower.release().phase("a")
            server.process.kill()
            server.process.wait()
            lines = phases_of(follower.finish())
    assert lines[0]["error"] is None
    assert lines[1]["error"]["kind"] == "connect" and "refused" in lines[1]["error"]["message"]


def test_a_server_that_dies_under_the_load_is_lost(solotest, tmp_path):
    with Redis() as server:
        solotest.run("fill", server.port, SIZE, KEYS)
        with following(solotest, tmp_path, server.port, ["a at=0 requests=5000", "b at=6 requests=10"]) as follower:
            follower.release()
            server.await_gets(200, follower.process)
            server.process.kill()
            server.process.wait()
            lines = phases_of(follower.finish())
    assert [line["error"]["kind"] for line in lines] == ["lost", "connect"]
    assert lines[0]["test"]["requests"]["lost"] > 0 and follower.result.code == 4


def test_replies_that_do_not_come_do_not_shift_the_next_phase(solotest, filled, tmp_path):
    plan = ["a at=0 requests=1000 max_seconds=1", "b at=1.6 requests=100"]
    with following(solotest, tmp_path, filled.port, plan) as follower:
        follower.release()
        filled.command("CONFIG", "RESETSTAT")
        filled.await_gets(300, follower.process)
        os.kill(filled.process.pid, signal.SIGSTOP)
        time.sleep(max(0, follower.start + 1.58 - time.time()))
        os.kill(filled.process.pid, signal.SIGCONT)
        lines = phases_of(follower.finish())
    test = lines[0]["test"]
    assert lines[0]["error"] is None and test["cut_off"] is True
    assert test["requests"]["errors"] == {"unanswered": 1} and test["requests"]["not_sent"] > 0
    assert test["latency"]["intended"]["max_ns"] > 0.2e9
    assert lines[0]["server_after"] is None
    assert lines[1]["error"] is None and lines[1]["test"]["requests"]["ok"] == 100
    check_begin(lines[1], follower.start, 1.6)


@pytest.mark.long
@pytest.mark.parametrize("connections", [1, 3])
def test_a_server_that_is_silent_in_a_gap_is_no_dead_server(any_solotest, tmp_path, connections):
    """What it is asked in the gap gets its reply in the next phase, before the replies of the load."""
    plan = ["a at=0 requests=100", "b at=1.2 requests=1000", "c at=3 requests=10"]
    answered, silent = itertools.count(1), threading.Event()

    def script(connection, _number):
        for words in requests(connection):
            if silent.is_set():
                time.sleep(max(0, follower.start + 1.7 - time.time()))
            if words[0] == b"GET" and next(answered) == 100:
                silent.set()  # before this reply, so that nothing else is answered
            connection.sendall(good_reply(words))

    with (
        FakeServer(script) as server,
        following(any_solotest, tmp_path, server.port, plan, "--connections", connections) as follower,
    ):
        follower.release()
        lines = phases_of(follower.finish())
    assert [line["error"] for line in lines] == [None, None, None] and follower.result.code == 0
    assert [line["test"]["requests"]["ok"] for line in lines] == [100, 1000, 10]
    assert lines[0]["server_after"] is None
    assert lines[1]["server_before"] is None and lines[1]["server_after"] is not None
    assert lines[2]["server_before"] == lines[1]["server_after"]
    assert lines[1]["test"]["latency"]["intended"]["max_ns"] > 0.4e9
    check_begin(lines[2], follower.start, 3)


def test_a_server_that_is_silent_for_a_whole_phase_is_loaded_again(solotest, filled, tmp_path):
    plan = ["a at=0 requests=100", "b at=0.5 requests=500 max_seconds=0.6", "c at=2 requests=100"]
    with following(solotest, tmp_path, filled.port, plan) as follower:
        follower.release()
        filled.command("CONFIG", "RESETSTAT")
        filled.await_gets(100, follower.process)
        os.kill(filled.process.pid, signal.SIGSTOP)
        follower.phase("b")
        os.kill(filled.process.pid, signal.SIGCONT)
        lines = phases_of(follower.finish())
    assert [line["error"] for line in lines] == [None, None, None]
    assert lines[1]["test"]["cut_off"] is True and lines[1]["test"]["requests"]["ok"] == 0
    assert lines[2]["test"]["requests"]["ok"] == 100
    check_begin(lines[2], follower.start, 2)


def test_a_server_that_never_answers_again_is_timed_out_under_the_load(solotest, filled, tmp_path):
    plan = ["a at=0 requests=100", "b at=1 requests=5000"]
    with following(solotest, tmp_path, filled.port, plan, "--timeout", 1) as follower:
        follower.release()
        filled.command("CONFIG", "RESETSTAT")
        filled.await_gets(100, follower.process)
        os.kill(filled.process.pid, signal.SIGSTOP)
        try:
            lines = phases_of(follower.finish())
        finally:
            os.kill(filled.process.pid, signal.SIGCONT)
    assert lines[0]["error"] is None and lines[1]["error"]["kind"] == "timeout"
    assert lines[1]["test"]["requests"]["ok"] == 0


def test_a_client_that_was_stopped_leaves_out_what_is_over(solotest, filled, tmp_path):
    plan = ["a at=0 requests=10", "b at=1 requests=10", "c at=3 requests=10"]
    with following(solotest, tmp_path, filled.port, plan) as follower:
        follower.release().phase("a")
        os.kill(follower.process.pid, signal.SIGSTOP)
        time.sleep(max(0, follower.start + 2 - time.time()))
        os.kill(follower.process.pid, signal.SIGCONT)
        lines = phases_of(follower.finish())
    assert lines[1]["error"]["kind"] == "late" and "phase b should have begun" in lines[1]["error"]["message"]
    assert lines[1]["test"] is None and lines[2]["error"] is None
    check_begin(lines[2], follower.start, 3)


# ---- ends ----


@pytest.mark.parametrize("how", ["removed", "TERM", "INT"])
@pytest.mark.parametrize("when", ["waiting", "gap", "load"])
def test_it_ends_at_once(any_solotest, filled, tmp_path, how, when):
    plan = ["a at=0 requests=10", "b at=60 requests=10"] if when == "gap" else ["a at=0 requests=100000"]
    with following(any_solotest, tmp_path, filled.port, plan) as follower:
        follower.armed()
        if when != "waiting":
            follower.release()
        if when == "gap":
            follower.phase("a")
        if when == "load":
            filled.command("CONFIG", "RESETSTAT")
            filled.await_gets(200, follower.process)  # the client may not have read the last of them
        begin = time.monotonic()
        if how == "removed":
            follower.plan.unlink()
        else:
            follower.process.send_signal(getattr(signal, f"SIG{how}"))
        documents = follower.finish(timeout=20)
        took = time.monotonic() - begin
    assert documents[-1] == {"schema": 1, "ended": "removed" if how == "removed" else "signal"}
    assert follower.result.code == 128 + (signal.SIGINT if how == "INT" else signal.SIGTERM)
    assert took < 2 + truth.waited_for_cpu(os.getpid()) / 1e9
    if when == "load":
        line = phases_of(documents)[0]
        assert line["error"]["kind"] == "interrupted" and line["test"]["requests"]["ok"] >= 100


def test_it_is_not_released_for_ever(solotest, filled, tmp_path):
    with following(solotest, tmp_path, filled.port, ["a at=0 requests=10"], within=1) as follower:
        documents = follower.finish()
    assert documents[-1] == {"schema": 1, "ended": "not_released"} and follower.result.code > 128


def test_a_start_that_is_no_time_is_not_followed(solotest, filled, tmp_path):
    with following(solotest, tmp_path, filled.port, ["a at=0 requests=10"], within=1) as follower:
        follower.armed()
        (tmp_path / "plan.start").write_text("soon\n")
        documents = follower.finish()
    assert documents[-1]["ended"] == "not_released"


def test_a_fifo_in_place_of_the_start_holds_nobody(solotest, filled, tmp_path):
    with following(solotest, tmp_path, filled.port, ["a at=0 requests=10"], within=1) as follower:
        follower.armed()
        os.mkfifo(tmp_path / "plan.start")
        assert follower.finish()[-1]["ended"] == "not_released"


def test_a_server_that_refuses_is_not_armed(solotest, tmp_path):
    begin = time.monotonic()
    with following(solotest, tmp_path, free_port(), ["a at=0 requests=10"]) as follower:
        documents = follower.finish()
    assert [d["armed"] for d in documents] == [False] and documents[0]["error"]["kind"] == "connect"
    assert "refused" in documents[0]["error"]["message"] and follower.result.code == 3
    assert 4 < time.monotonic() - begin < 15


def test_a_server_that_cannot_be_reached_yet_is_asked_again(solotest, tmp_path):
    port = free_port()
    with following(solotest, tmp_path, port, ["a at=0 requests=10 read_mix=-1"]) as follower:
        time.sleep(1)
        assert follower.documents() == []
        with restarted(port):
            lines = phases_of(follower.release().finish())
    assert lines[0]["error"] is None and lines[0]["test"]["requests"]["ok"] == 10


def test_a_wrong_password_is_not_asked_twice(solotest, tmp_path):
    with (
        Redis("--requirepass", "secret") as server,
        following(solotest, tmp_path, server.port, ["a at=0 requests=10"]) as follower,
    ):
        documents = follower.finish(timeout=4)
    assert documents[0]["error"]["kind"] == "auth"


def test_an_answer_that_takes_long_is_no_dead_server(solotest, tmp_path):
    """A server that hangs while nothing is asked of it is found again."""

    def script(connection, number):
        for n, words in enumerate(requests(connection)):
            if number == 1 and n > 14:
                return  # closes the connection in a gap
            connection.sendall(good_reply(words))

    with (
        FakeServer(script) as server,
        following(solotest, tmp_path, server.port, ["a at=0 requests=5", "b at=5 requests=5"]) as follower,
    ):
        lines = phases_of(follower.release().finish())
    assert [line["error"] for line in lines] == [None, None]


# ---- the file ----


@pytest.mark.parametrize(
    "text, said",
    [
        ("solotest-schedule 2\n", "plan:1: the first line: 'solotest-schedule 2'"),
        ("solotest-schedule 1\nphase a requests=1\n", "plan:2: a: '' is not allowed; allowed: a phase with at=SECONDS"),
        ("solotest-schedule 1\nphase a at=0\n", "requests=N"),
        ("solotest-schedule 1\nphase a at=0 requests=0\n", "plan:2: requests: '0' is not allowed; allowed: a whole"),
        ("solotest-schedule 1\nphase a at=0 requests=1 rate=x\n", "plan:2: rate: 'x'"),
        ("solotest-schedule 1\nphase a at=0 requests=1 pace=1\n", "plan:2: phase: 'pace'"),
        ("solotest-schedule 1\nphase a at=1 requests=1\nphase b at=1 requests=1\n", "in the order of their times"),
        ("solotest-schedule 1\nphase a at=1 requests=1\nphase a at=2 requests=1\n", "plan:3: phase: 'a'"),
        ("solotest-schedule 1\nphase ../a at=1 requests=1\n", "plan:2: phase: '../a'"),
        ("solotest-schedule 1\nrelease_within never\n", "plan:2: release_within: 'never'"),
        ("solotest-schedule 1\nphase a at=0 requests=1\n", "release_within"),
        ("solotest-schedule 1\nrelease_within 9\n", "at least one phase"),
        ("", "--schedule"),
    ],
)
def test_a_schedule_that_is_wrong_is_refused_before_anything_is_connected(any_solotest, tmp_path, text, said):
    plan = tmp_path / "plan"
    plan.write_text(text)
    result = any_solotest.run(f"--schedule={plan}", "test", free_port(), SIZE, KEYS)
    assert result.code == 2 and said in result.messages and result.output == "", result


@pytest.mark.parametrize(
    "options, mode",
    [
        (["--start-at", 1], "test"),
        (["--raw", "x"], "test"),
        (["--requests", 1], "test"),
        (["--duration", 1], "test"),
        (["--max-seconds", 1], "test"),
        (["--pacing", "none"], "test"),
        ([], "filltest"),
        ([], "ping"),
    ],
)
def test_options_that_a_schedule_replaces(solotest, tmp_path, options, mode):
    result = solotest.run("--schedule", tmp_path / "plan", *options, mode, free_port(), SIZE, KEYS)
    named = options[0] if options else mode
    assert result.code == 2 and f"--schedule: not possible with {named}" in result.messages
