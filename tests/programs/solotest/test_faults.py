# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that break, lie or fall silent under the load: named, counted, with the documented exit status; no hang."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import socket
import termios
import time

import pytest
from conftest import error, measure
from servers import FakeServer, Redis, caught, good_reply, requests, reset, serving


def accounted(report):
    """Every request sent is a success or an error of some kind."""
    numbers = report["test"]["requests"]
    latency = report["test"]["latency"]
    return (
        numbers["sent"] == numbers["ok"] + sum(numbers["errors"].values())
        and numbers["lost"] == numbers["sent"] - numbers["ok"] + numbers["not_sent"]
        and latency["service"]["count"] == numbers["ok"]
        and latency["intended"]["count"] == numbers["ok"] + numbers["lost"]
    )


# ---- replies ----


def test_torn_replies_are_replies(any_solotest):
    def script(connection, _number):
        for words in requests(connection):
            for byte in good_reply(words):
                connection.sendall(bytes([byte]))

    with FakeServer(script) as server:
        result = any_solotest.run(*measure(server.port))
    assert result.code == 0 and result.json["test"]["requests"]["ok"] == 50


ERROR_REPLIES = {
    "LOADING": b"-LOADING Redis is loading the dataset in memory\r\n",
    "OOM": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "NOAUTH": b"-NOAUTH Authentication required.\r\n",
    "WRONGPASS": b"-WRONGPASS invalid username-password pair\r\n",
    "MOVED": b"-MOVED 3999 127.0.0.1:6381\r\n",
    "ERR": b"-nonsense \xff\x1b[2J\xc2\x9b31m\r\n",
    "nil": b"$-1\r\n",
    "type": b"*1\r\n:1\r\n",
}


@pytest.mark.parametrize("kind", ERROR_REPLIES)
def test_error_replies_are_counted_by_kind(any_solotest, kind):
    script = serving(lambda n, words: ERROR_REPLIES[kind] if n % 10 == 3 else good_reply(words))
    with FakeServer(script) as server:
        result = any_solotest.run(*measure(server.port))
    assert result.code == 1 and error(result) == "reply"
    assert result.json["test"]["requests"]["errors"] == {kind: 5}
    assert result.json["test"]["requests"]["ok"] == result.json["test"]["latency"]["service"]["count"] == 45
    assert f"{kind} 5" in result.messages and not set("\x1b\x9b") & set(result.messages + result.output)


def test_six_lines_hold_only_successes(solotest):
    with FakeServer(serving(lambda n, words: b"$-1\r\n" if n % 2 else good_reply(words))) as server:
        result = solotest.run("--pacing", "none", "--requests", 50, "test", server.port, 10, 100, 0, 1)
    assert result.code == 1 and result.lines[0] == 25


def test_no_success_at_all_prints_no_numbers(solotest):
    with FakeServer(serving(lambda n, words: b"$-1\r\n")) as server:
        result = solotest.run("--pacing", "none", "--requests", 50, "test", server.port, 10, 100, 0, 1)
    assert result.code == 1 and result.output == "" and "nil 50" in result.messages


def test_a_nil_for_a_key_that_should_be_there(solotest, fresh):
    result = solotest.run(*measure(fresh.port))
    assert result.code == 1 and result.json["test"]["requests"]["errors"] == {"nil": 50}


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n", b"$abc\r\n", b"+OK\r\n" * 3, b"$-5\r\n"])
def test_nonsense_is_a_protocol_error(any_solotest, reply):
    with FakeServer(serving(lambda n, words: reply if n == 7 else good_reply(words))) as server:
        result = any_solotest.run(*measure(server.port))
    if reply.startswith(b"+OK"):
        # one status too early for a GET is of the wrong type; the ones after it answer no request
        assert result.json["test"]["requests"]["errors"].get("type", 0) == 1
    assert result.code == 4 and error(result) in ("protocol", "lost")
    assert result.json["test"]["requests"]["ok"] == 7 and accounted(result.json)


@pytest.mark.parametrize("head, rest", [(b"+", b"x" * 4), (b"*100000000\r\n", b":1\r\n")])
def test_an_endless_reply_ends(any_solotest, head, rest):
    def endless(connection, _number):
        for n, words in enumerate(requests(connection)):
            if words[0] == b"GET" and n > 5:
                connection.sendall(head)
                while True:
                    connection.sendall(rest * 4096)
            connection.sendall(good_reply(words))

    with FakeServer(endless) as server:
        result = any_solotest.run(*measure(server.port))
    assert result.code == 4 and error(result) == "protocol" and "endless" in result.messages
    assert accounted(result.json)


@pytest.mark.parametrize("word", [b"PING", b"INFO", b"DBSIZE"])
@pytest.mark.parametrize("head", [b"*2147483647\r\n", b"*65\r\n"])
def test_a_huge_array_is_refused_at_once(any_solotest, word, head):
    """13 bytes made the parser allocate 16 GB, and clearing them took half a minute beyond the time-out."""

    def script(connection, _number):
        for words in requests(connection):
            connection.sendall(head if words[0] == word else good_reply(words))

    begin = time.monotonic()
    with FakeServer(script) as server:
        result = any_solotest.run("--json", "--timeout", 60, "test", server.port, 10, 100, 0, 1)
    assert result.code in (3, 4) and "too many elements" in result.messages
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("extra", [[], ["--pipeline", 16]])
def test_values_larger_than_asked_for(any_solotest, fresh, extra):
    """A fill with 4 MB, a test with 1 KB: both sizes are named, and Redis is not called broken."""
    assert any_solotest.run("fill", fresh.port, 4 << 20, 10).code == 0
    result = any_solotest.run("--json", *extra, "test", fresh.port, 1000, 10, 0, 10000)
    assert result.code == 1 and error(result) == "value_size" and accounted(result.json)
    assert "4194304 bytes" in result.messages and "VALUE_SIZE is 1000" in result.messages


@pytest.mark.parametrize("size", [65535, 65536, 200_000, 3 << 20])
def test_values_above_64_kb(any_solotest, fresh, size):
    """More than a read takes, and than a socket holds."""
    result = any_solotest.run(
        "--json", "--pipeline", 4, "--connections", 2, "--pacing", "none", "filltest", fresh.port, size, 20, 0, 1, 50
    )
    assert result.code == 0, result
    assert result.json["test"]["requests"]["ok"] == 20 and fresh.command("STRLEN", 7) == f":{size}\r\n"


@pytest.mark.parametrize("sizes", [(100, 101), (100_000, 100), (10, 10)])
def test_values_of_another_size_are_counted(any_solotest, fresh, sizes):
    """They make another load than was asked for. Small differences are not a failure."""
    filled, tested = sizes
    assert any_solotest.run("fill", fresh.port, filled, 10).code == 0
    result = any_solotest.run("--json", "--pacing", "none", "--requests", 50, "test", fresh.port, tested, 10, 0, 1, 100)
    other = 50 if filled != tested else 0
    assert result.code == 0 and result.json["test"]["requests"]["ok"] == 50
    assert result.json["test"]["requests"]["other_size"] == other
    assert (f"{other} of 50 GETs" in result.messages) == (other > 0)


def test_no_reply_is_a_time_out(any_solotest):
    with FakeServer(serving(lambda n, words: good_reply(words) if n < 7 else b"")) as server:
        result = any_solotest.run("--timeout", 1, *measure(server.port), timeout=20)
    assert result.code == 4 and error(result) == "timeout"
    assert result.json["test"]["requests"]["errors"] == {"timeout": 1} and accounted(result.json)


@pytest.mark.parametrize("extra", [[], ["--connections", 3, "--pipeline", 4]])
def test_a_reply_that_only_dribbles_is_a_time_out(any_solotest, extra):
    """One byte at a time keeps the socket's own time-out from ever passing."""

    def script(connection, _number):
        for words in requests(connection):
            if words[0] == b"GET":
                connection.sendall(b"$1000\r\n")
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.05)
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run("--timeout", 1, *extra, *measure(server.port), timeout=20)
    assert result.code == 4 and error(result) == "timeout" and accounted(result.json)


def test_one_silent_connection_of_several_is_a_time_out(any_solotest):
    def script(connection, number):
        for words in requests(connection):
            if words[0] == b"GET" and number == 3:  # the first connection asks for the server's figures
                time.sleep(30)
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run("--timeout", 1, "--connections", 3, *measure(server.port, 10000000), timeout=20)
        for connection in server.connections:
            connection.close()
        server.threads.clear()  # one of them still sleeps
    assert result.code == 4 and error(result) == "timeout" and accounted(result.json)


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_a_connection_that_ends_in_the_middle(any_solotest, ending):
    def script(connection, _number):
        for n, words in enumerate(requests(connection)):
            if n == 20 and words[0] == b"GET":
                if ending == "reset":
                    reset(connection)
                return
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run(*measure(server.port))
    assert result.code == 4 and error(result) == "lost"
    numbers = result.json["test"]["requests"]
    assert numbers["errors"] == {"lost": 1} and 15 <= numbers["ok"] <= 20 and accounted(result.json)


@pytest.mark.parametrize("extra", [[], ["--connections", 4, "--pipeline", 8]])
def test_a_redis_that_is_killed_in_the_middle(any_solotest, fresh, extra):
    assert any_solotest.run("fill", fresh.port, 100, 1000).code == 0
    process = any_solotest.start("--json", *extra, "--duration", 30, "test", fresh.port, 100, 1000, 0, 2000)
    fresh.await_gets(200, process)
    fresh.process.kill()
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 4 and error(result) == "lost"
    assert result.json["test"]["requests"]["ok"] > 100 and accounted(result.json)
    assert result.json["test"]["latency"]["response"]["count"] == result.json["test"]["requests"]["ok"]


@pytest.mark.long
def test_a_client_that_was_stopped_does_not_blame_the_server(any_solotest):
    """What waits for it may be more than it reads at once.

    The time-out is longer than a busy machine may keep a server from running, so all the clients are stopped at once.
    """
    time_out = 5
    loads = [(extra, size) for extra in ([], ["--connections", 3], ["--pacing", "none"]) for size in (100, 200_000)]
    with contextlib.ExitStack() as started:
        servers, processes = [started.enter_context(Redis()) for _load in loads], []
        for server, (_extra, size) in zip(servers, loads):
            assert any_solotest.run("fill", server.port, size, 100).code == 0
            server.command("CONFIG", "RESETSTAT")
        for server, (extra, size) in zip(servers, loads):
            load = ["--json", "--timeout", time_out, *extra, "--max-seconds", 2 * time_out + 8, "--requests", 10000000]
            rate, read_mix = (2000, -1) if size == 100 else (200, 100)
            processes.append(any_solotest.start(*load, "test", server.port, size, 100, 0, rate, read_mix))
        for server, (_extra, size), process in zip(servers, loads, processes):
            server.await_calls("set" if size == 100 else "get", 1, process)
        for _stop in range(2):
            time.sleep(0.2)
            for process in processes:
                process.send_signal(signal.SIGSTOP)
            time.sleep(time_out + 1)
            for process in processes:
                process.send_signal(signal.SIGCONT)
        for load, process in zip(loads, processes):
            result = any_solotest.finish(process, timeout=60)
            assert result.code == 0, (load, result)
            assert result.json["test"]["seconds"] > 2 * time_out


@pytest.mark.parametrize("extra", [[], ["--connections", 3], ["--pacing", "none"], ["--pipeline", 8]])
def test_a_server_that_stays_stopped_is_a_time_out(any_solotest, fresh, extra):
    assert any_solotest.run("fill", fresh.port, 100, 1000).code == 0
    process = any_solotest.start(
        "--json", "--timeout", 0.6, *extra, "--requests", 10000000, "test", fresh.port, 100, 1000, 0, 2000
    )
    fresh.await_gets(1, process)
    fresh.process.send_signal(signal.SIGSTOP)
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 4 and error(result) == "timeout" and accounted(result.json)


# ---- fill ----


def test_fill_into_a_redis_without_enough_memory(any_solotest):
    with Redis("--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as server:
        result = any_solotest.run("--json", "fill", server.port, 1000, 20000)
    assert result.code == 1 and error(result) == "reply" and "OOM" in result.messages
    assert result.json["fill"]["dbsize"] is None


def test_fill_into_a_redis_that_evicts(any_solotest):
    with Redis("--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random") as server:
        result = any_solotest.run("--json", "filltest", server.port, 1000, 20000)
    assert result.code == 1 and error(result) == "dbsize"
    assert result.json["fill"]["dbsize"] < 20000 and result.json["test"] is None


def test_fill_of_a_redis_that_is_killed(any_solotest, fresh):
    process = any_solotest.start("--json", "fill", fresh.port, 1000, 20000000)
    while fresh.dbsize() < 100:
        assert process.poll() is None
    fresh.process.kill()
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 4 and error(result) == "lost"


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_stop_during_the_fill(any_solotest, fresh, who):
    """Longer than the time-out for the client, which must not blame the server; shorter than it for the server."""
    keys = 1_000_000
    process = any_solotest.start("--json", "--timeout", 2 if who == "client" else 30, "fill", fresh.port, 10, keys)
    while fresh.dbsize() < 100:
        assert process.poll() is None
    pid = process.pid if who == "client" else fresh.process.pid
    os.kill(pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(pid, signal.SIGCONT)
    result = any_solotest.finish(process)
    assert result.code == 0 and result.json["fill"]["keys"] == result.json["fill"]["dbsize"] == keys
    assert result.json["fill"]["seconds"] > 2


FLUSH_ERRORS = {
    "unknown command": ["--rename-command", "FLUSHALL", ""],
    "NOPERM": ["--user", "default", "on", "nopass", "~*", "&*", "+@all", "-flushall"],
}


@pytest.mark.parametrize("named", FLUSH_ERRORS)
def test_a_redis_that_may_not_be_flushed(any_solotest, named):
    """Nothing is written then. With --protect, a fill needs no FLUSHALL."""
    with Redis(*FLUSH_ERRORS[named]) as server:
        assert server.command("SET", "mine", "1") == "+OK\r\n"
        result = any_solotest.run("--json", "fill", server.port, 10, 100)
        assert result.code == 1 and error(result) == "reply"
        assert "FLUSHALL failed" in result.messages and named in result.messages
        assert result.json["fill"] is None and server.dbsize() == 1
        server.command("DEL", "mine")
        assert any_solotest.run("--json", "--protect", "fill", server.port, 10, 100).code == 0
        assert any_solotest.run("--json", "--protect", "fill", server.port, 10, 50).code == 0


@pytest.mark.parametrize("reply", [b":1\r\n", b"$-1\r\n", b"*0\r\n"])
def test_a_flush_with_a_reply_of_another_type(any_solotest, reply):
    def script(connection, _number):
        for words in requests(connection):
            connection.sendall(reply if words[0] == b"FLUSHALL" else good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run("--json", "fill", server.port, 10, 100)
    assert result.code == 1 and error(result) == "reply" and "FLUSHALL failed: unexpected reply" in result.messages


@pytest.mark.parametrize("extra", [[], ["--connections", 3, "--pipeline", 4]])
def test_a_server_that_reads_slowly(any_solotest, extra):
    """A value is larger than the sockets hold: what was not accepted is sent later, in order."""
    size = 6_000_000

    def script(connection, _number):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        for words in requests(connection):
            if words[0] == b"SET":
                sizes.append(len(words[2]))
                time.sleep(0.02)
            connection.sendall(good_reply(words))

    sizes = []

    with FakeServer(script) as server:
        result = any_solotest.run("--json", *extra, "--requests", 9, "test", server.port, size, 100, 0, 500, -1)
    assert result.code == 0, result
    assert result.json["test"]["requests"]["ok"] == 9 and accounted(result.json) and sizes == [size] * 9
    assert result.json["test"]["latency"]["response"]["max_ns"] > 9 / 3 * 20e6


# ---- the client itself ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_test_prints_what_it_has(any_solotest, filled, number):
    process = any_solotest.start("--json", "--duration", 30, "test", filled.port, 100, 1000, 0, 1000)
    filled.command("CONFIG", "RESETSTAT")
    filled.await_gets(200, process)
    process.send_signal(number)
    result = any_solotest.finish(process, timeout=10)
    assert result.code == 128 + number and error(result) == "interrupted"
    assert result.json["interrupted"] == number and "partial" in result.messages
    assert 100 < result.json["test"]["requests"]["ok"] < 30000 and accounted(result.json)
    assert result.json["test"]["latency"]["service"]["count"] == result.json["test"]["requests"]["ok"]


def test_an_interrupted_test_prints_six_lines(solotest, filled):
    process = solotest.start("--duration", 30, "test", filled.port, 100, 1000, 0, 1000)
    filled.command("CONFIG", "RESETSTAT")
    filled.await_gets(200, process)
    process.terminate()
    result = solotest.finish(process, timeout=10)
    assert result.code == 143 and 100 < result.lines[0] < 30000 and "interrupted by signal 15" in result.messages


@pytest.mark.parametrize(
    "arguments", [["--start-at", time.time() + 3600, "test"], ["test"], ["--start-at", time.time() + 3600, "fill"]]
)
def test_an_interruption_while_waiting(any_solotest, fresh, arguments):
    """Before the start, and while a stopped server keeps the reply to itself."""
    process = any_solotest.start("--json", *arguments, fresh.port, 100, 1000, 0, 1)
    fresh.await_clients(1, process)
    os.kill(fresh.process.pid, signal.SIGSTOP)
    process.terminate()
    result = any_solotest.finish(process, timeout=10)
    assert result.code == 143 and error(result) == "interrupted"


def test_an_interruption_while_the_hot_set_is_counted(solotest, fresh):
    """The figures of the server are of the test's end, and the status shows that the result is not whole."""
    keys, count = 200_000_000, 300_000  # 229 passes over the accesses
    process = solotest.start(
        "--json", "--pacing", "none", "--pipeline", 64, "--requests", count, "test", fresh.port, 1, keys, 0, 1, -1
    )
    # The last question of server_after was asked, and its connection is closed: the client has read the reply.
    while "cmdstat_exists:calls=2," not in fresh.command("INFO", "commandstats"):
        assert process.poll() is None
    while "cmd=exists" in fresh.command("CLIENT", "LIST"):
        assert process.poll() is None
    process.terminate()
    result = solotest.finish(process, timeout=10)
    assert result.code == 143 and error(result) == "interrupted"
    assert result.json["test"]["requests"]["ok"] == count and result.json["test"]["hot_set"] is None
    assert 0 < result.json["server_after"]["dbsize"] <= count


def test_an_interruption_while_raw_samples_are_written(any_solotest, filled, tmp_path):
    """Into a pipe that nobody empties. The result is printed, and the status shows that the file is not whole."""
    raw = tmp_path / "raw"
    os.mkfifo(raw)
    process = any_solotest.start(
        "--json", "--raw", raw, "--pacing", "none", "--requests", 20_000, "test", filled.port, 100, 1000, 0, 1, 100
    )
    with open(raw, "rb") as reader:
        reader.read(1)  # the samples come after the test
        process.terminate()
        result = any_solotest.finish(process, timeout=10)
    assert result.code == 143 and error(result) == "interrupted"
    assert result.json["test"]["requests"]["ok"] == 20_000


def test_an_interruption_while_nobody_opens_the_pipe_of_raw_samples(any_solotest, filled, tmp_path):
    raw = tmp_path / "raw"
    os.mkfifo(raw)
    process = any_solotest.start("--json", "--raw", raw, *measure(filled.port)[1:])
    while not caught(process, signal.SIGTERM):
        assert process.poll() is None
    process.terminate()
    result = any_solotest.finish(process, timeout=10)
    assert result.code == 143 and error(result) == "interrupted"


def test_a_signal_while_a_slow_reader_reads_the_result(any_solotest, filled):
    """The test is over. Neither the signal nor its repetition each second interrupts the output."""
    process = any_solotest.start("--json", *measure(filled.port, 5000)[1:])
    size = fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    waiting = array.array("i", [0])
    while waiting[0] < size:
        assert process.poll() is None
        fcntl.ioctl(process.stdout, termios.FIONREAD, waiting)
    process.terminate()
    time.sleep(2.5)
    result = any_solotest.finish(process, timeout=10)
    assert result.code == 0 and len(result.output) > size and result.json["test"]["requests"]["ok"] == 5000


@pytest.mark.long
@pytest.mark.parametrize("after", [-0.15, -0.09, -0.05])
def test_a_client_that_is_stopped_before_a_common_start_is_late(solotest, filled, after):
    """While it sleeps, rehearses, or waits for its first request: other hosts have begun.

    On a busy machine this test may be late itself, and then stops it under its load.
    """
    start_at = time.time() + 1
    process = solotest.start(
        "--json", "--start-at", start_at, "--requests", 3000, "test", filled.port, 100, 1000, 0, 1000, 100
    )
    time.sleep(max(0, start_at + after - time.time()))
    process.send_signal(signal.SIGSTOP)
    time.sleep(max(0.4, start_at + 0.4 - time.time()))
    process.send_signal(signal.SIGCONT)
    result = solotest.finish(process)
    assert result.code == 0
    assert result.json["test"]["latency"]["lateness"]["max_ns"] > 0.2e9


def test_output_that_cannot_be_written(any_solotest, filled):
    with open("/dev/full", "w", encoding="ascii") as full:
        result = any_solotest.run("--requests", 100, "test", filled.port, 100, 1000, 0, 5000, stdout=full)
    assert result.code == 6 and "cannot write" in result.messages


def test_a_reader_that_is_gone(solotest, filled):
    read, write = os.pipe()
    os.close(read)
    result = solotest.run("--json", "--requests", 100, "test", filled.port, 100, 1000, 0, 5000, stdout=write)
    os.close(write)
    assert result.code == 6


def test_closed_standard_streams_do_not_become_sockets(solotest, filled):
    process = solotest.start("--requests", 100, "test", filled.port, 100, 1000, 0, 5000, preexec_fn=lambda: os.close(1))
    result = solotest.finish(process)
    assert result.code == 6 and filled.dbsize() == 1001  # the keys and the note


def test_raw_that_cannot_be_opened_is_found_before_the_test(any_solotest, filled):
    result = any_solotest.run("--raw", "/nonexistent/raw", *measure(filled.port))
    assert result.code == 6 and error(result) == "output" and result.json["test"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root")
@pytest.mark.parametrize("what", ["link", "file", "second name", "pipe"])
def test_raw_leaves_what_somebody_else_has_put_in_its_place(any_solotest, filled, tmp_path, what):
    """In a directory in which others may write, a user waits for root to write raw samples there."""
    tmp_path.chmod(0o777)
    victim, raw = tmp_path / "victim", tmp_path / "raw"
    victim.write_text("precious", encoding="ascii")
    if what == "link":
        raw.symlink_to(victim)
        os.lchown(raw, 1000, 1000)
    elif what == "pipe":
        os.mkfifo(raw)
        os.chown(raw, 1000, 1000)
    elif what == "file":
        raw = victim
        os.chown(victim, 1000, 1000)
    else:
        os.link(victim, raw)
    result = any_solotest.run("--raw", raw, *measure(filled.port))
    assert result.code == 6 and f"cannot write {raw}: Operation not permitted" in result.messages, result
    assert victim.read_text(encoding="ascii") == "precious"


def test_raw_replaces_a_file_of_ours_also_behind_our_link(any_solotest, filled, tmp_path):
    raw, link = tmp_path / "raw", tmp_path / "link"
    raw.write_bytes(b"x" * 10**6)
    link.symlink_to(raw)
    for path in (raw, link):
        assert any_solotest.run("--raw", path, *measure(filled.port)).code == 0
        assert raw.stat().st_size < 10**6
        raw.write_bytes(b"x" * 10**6)


def test_raw_that_cannot_be_written_leaves_the_result(any_solotest, filled):
    result = any_solotest.run("--raw", "/dev/full", *measure(filled.port))
    assert result.code == 6 and error(result) == "output" and result.json["test"]["requests"]["ok"] == 50
