# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that refuse, break, lie or fall silent: named, counted, with the documented exit status; no hang."""

from __future__ import annotations

import os
import signal
import socket
import time

import pytest
from servers import FakeServer, Redis, good_reply, requests, reset, serving

PASSWORD = "correct horse"


def measure(port, count=50):
    return ["--json", "--pacing", "none", "--requests", count, "test", port, 10, 100, 0, 1]


def error(result):
    return result.json["error"]["kind"]


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


# ---- getting in ----


def test_connection_refused(any_solotest):
    result = any_solotest.run(*measure(1))
    assert result.code == 3 and error(result) == "connect" and "refused" in result.messages
    assert result.json["test"] is None


def test_a_name_that_does_not_resolve(solotest):
    result = solotest.run("--host", "no-such-host.invalid", *measure(6379))
    assert result.code == 3 and error(result) == "connect"


def test_a_socket_that_is_not_there(solotest):
    result = solotest.run("--socket", "/nonexistent/socket", *measure(6379))
    assert result.code == 3 and error(result) == "connect" and "/nonexistent/socket" in result.messages


def test_a_host_that_does_not_answer(solotest):
    """A full backlog drops what comes, as a host that is gone would."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for dummy in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        begin = time.monotonic()
        result = solotest.run("--connect-timeout", 0.3, *measure(listener.getsockname()[1]))
        assert result.code == 3 and error(result) == "connect"
        assert time.monotonic() - begin < 10
        for filler in fillers:
            filler.close()


def test_a_server_that_closes_at_once(any_solotest):
    with FakeServer(lambda connection, number: None) as server:
        result = any_solotest.run(*measure(server.port))
    assert result.code == 3 and error(result) == "connect"


def test_a_server_that_never_says_anything(any_solotest):
    with FakeServer(lambda connection, number: connection.recv(1) and time.sleep(3)) as server:
        result = any_solotest.run("--timeout", 0.3, *measure(server.port))
    assert result.code == 3 and error(result) == "connect"


def test_a_server_that_has_no_room(solotest):
    def script(connection, _number):
        connection.sendall(b"-ERR max number of clients reached\r\n")
        connection.recv(1000)

    with FakeServer(script) as server:
        result = solotest.run(*measure(server.port))
    assert result.code == 3 and error(result) == "connect" and "max number of clients" in result.messages


@pytest.fixture(scope="module")
def locked():
    with Redis("--requirepass", PASSWORD) as server:
        server.command("AUTH", PASSWORD)
        yield server


def test_no_password(any_solotest, locked):
    result = any_solotest.run(*measure(locked.port))
    assert result.code == 3 and error(result) == "auth" and "NOAUTH" in result.messages


def test_wrong_password(any_solotest, locked):
    result = any_solotest.run(*measure(locked.port), environment={"SOLOTEST_PASSWORD": "wrong"})
    assert result.code == 3 and error(result) == "auth" and "WRONGPASS" in result.messages
    assert 'wrong"' not in result.output


def test_right_password_by_environment_and_by_file(any_solotest, locked, tmp_path):
    environment = {"SOLOTEST_PASSWORD": PASSWORD}
    result = any_solotest.run("--json", "fill", locked.port, 10, 100, environment=environment)
    assert result.code == 0, result
    assert any_solotest.run(*measure(locked.port), environment=environment).code == 0
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    assert any_solotest.run("--password-file", secret, *measure(locked.port)).code == 0
    assert any_solotest.run("--user", "default", "--password-file", secret, *measure(locked.port)).code == 0
    result = any_solotest.run("--user", "nobody", "--password-file", secret, *measure(locked.port))
    assert result.code == 3 and error(result) == "auth"


def test_the_password_is_not_in_the_process_table(solotest, locked):
    process = solotest.start(
        "--json", "--duration", 1, "test", locked.port, 10, 100, 0, 100, environment={"SOLOTEST_PASSWORD": PASSWORD}
    )
    time.sleep(0.5)
    with open(f"/proc/{process.pid}/environ", "rb") as environ, open(f"/proc/{process.pid}/cmdline", "rb") as line:
        assert PASSWORD.encode() not in environ.read() + line.read()
    result = solotest.finish(process)
    assert PASSWORD not in result.output + result.messages


# ---- there, but not ready: before the first request of the load ----


def silent_to(*names):
    """A script that answers all commands but these."""

    def script(connection, _number):
        for words in requests(connection):
            if words[0].upper().decode() not in names:
                connection.sendall(good_reply(words))

    return script


def closing_at(name):
    def script(connection, _number):
        for words in requests(connection):
            if words[0].upper().decode() == name:
                return
            connection.sendall(good_reply(words))

    return script


@pytest.mark.parametrize("name", ["INFO", "DBSIZE", "FLUSHALL", "SET"])
def test_a_server_that_goes_away_before_the_load(any_solotest, name):
    with FakeServer(closing_at(name)) as server:
        result = any_solotest.run("--json", "fill", server.port, 10, 100)
    assert result.code == 4 and error(result) == "not_ready" and "connection lost" in result.messages


def test_a_server_that_falls_silent_before_the_load(any_solotest):
    with FakeServer(silent_to("INFO")) as server:
        result = any_solotest.run("--timeout", 0.3, *measure(server.port))
    assert result.code == 4 and error(result) == "not_ready" and "no reply in time" in result.messages


@pytest.mark.parametrize("mode", ["test", "fill"])
def test_a_redis_that_is_killed_before_the_start(any_solotest, fresh, mode):
    start_at = time.time() + 1.5
    process = any_solotest.start("--json", "--start-at", start_at, mode, fresh.port, 100, 1000, 0, 100)
    # The load's connection waits after its PING; the one before it has counted the keys.
    while "cmdstat_exists" not in fresh.command("INFO", "commandstats") or "cmd=ping" not in fresh.command(
        "CLIENT", "LIST"
    ):
        assert process.poll() is None
    fresh.process.kill()
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 4 and error(result) == "not_ready"
    assert mode == "fill" or result.json["test"]["requests"]["sent"] == 0


def test_a_server_that_goes_away_after_the_fill(any_solotest):
    """The note is written, the first DBSIZE is answered, and the second ends it."""

    def script(connection, _number):
        filled = False
        for words in requests(connection):
            if words[0] == b"DBSIZE" and filled:
                return
            filled = filled or words[0] == b"SET" and words[1] == b"99"
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run("--json", "fill", server.port, 10, 100)
    assert result.code == 4 and error(result) == "lost" and result.json["fill"]["keys"] == 100


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
    "ERR": b"-nonsense \xff\x1b[2J\r\n",
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
    assert f"{kind} 5" in result.messages and "\x1b" not in result.messages


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
        # one status too early for a GET is of the wrong type; the ones after it nobody asked for
        assert result.json["test"]["requests"]["errors"].get("type", 0) == 1
    assert result.code == 4 and error(result) in ("protocol", "lost")
    assert result.json["test"]["requests"]["ok"] == 7 and accounted(result.json)


@pytest.mark.parametrize(
    "head, rest", [(b"$536870912\r\n", b"x" * 4), (b"+", b"x" * 4), (b"*100000000\r\n", b":1\r\n")]
)
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


def test_no_reply_is_a_time_out(any_solotest):
    with FakeServer(serving(lambda n, words: good_reply(words) if n < 7 else b"")) as server:
        result = any_solotest.run("--timeout", 0.3, *measure(server.port), timeout=20)
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
        result = any_solotest.run("--timeout", 0.5, *extra, *measure(server.port), timeout=20)
    assert result.code == 4 and error(result) == "timeout" and accounted(result.json)


def test_one_silent_connection_of_several_is_a_time_out(any_solotest):
    def script(connection, number):
        for words in requests(connection):
            if words[0] == b"GET" and number == 3:  # the first connection asks for the server's figures
                time.sleep(30)
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run("--timeout", 0.5, "--connections", 3, *measure(server.port, 10000000), timeout=20)
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
    time.sleep(1)
    fresh.process.kill()
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 4 and error(result) == "lost"
    assert result.json["test"]["requests"]["ok"] > 100 and accounted(result.json)
    assert result.json["test"]["latency"]["response"]["count"] == result.json["test"]["requests"]["ok"]


@pytest.mark.parametrize("extra", [[], ["--connections", 3], ["--pacing", "none"]])
def test_a_client_that_was_stopped_does_not_blame_the_server(any_solotest, filled, extra):
    process = any_solotest.start(
        "--json",
        "--timeout",
        0.4,
        *extra,
        "--max-seconds",
        4,
        "--requests",
        10000000,
        "test",
        filled.port,
        100,
        1000,
        0,
        2000,
    )
    for _stop in range(3):
        time.sleep(0.2)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.8)
        process.send_signal(signal.SIGCONT)
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 0, result


@pytest.mark.parametrize("extra", [[], ["--connections", 3], ["--pacing", "none"], ["--pipeline", 8]])
def test_a_server_that_stays_stopped_is_a_time_out(any_solotest, fresh, extra):
    assert any_solotest.run("fill", fresh.port, 100, 1000).code == 0
    process = any_solotest.start(
        "--json", "--timeout", 0.6, *extra, "--requests", 10000000, "test", fresh.port, 100, 1000, 0, 2000
    )
    time.sleep(0.5)
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
    time.sleep(0.7)
    fresh.process.kill()
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 4 and error(result) == "lost"


# ---- the client itself ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_test_prints_what_it_has(any_solotest, filled, number):
    process = any_solotest.start("--json", "--duration", 30, "test", filled.port, 100, 1000, 0, 1000)
    time.sleep(1)
    process.send_signal(number)
    result = any_solotest.finish(process, timeout=10)
    assert result.code == 128 + number and error(result) == "interrupted"
    assert result.json["interrupted"] == number and "partial" in result.messages
    assert 100 < result.json["test"]["requests"]["ok"] < 5000 and accounted(result.json)
    assert result.json["test"]["latency"]["service"]["count"] == result.json["test"]["requests"]["ok"]


def test_an_interrupted_test_prints_six_lines(solotest, filled):
    process = solotest.start("--duration", 30, "test", filled.port, 100, 1000, 0, 1000)
    time.sleep(0.7)
    process.terminate()
    result = solotest.finish(process, timeout=10)
    assert result.code == 143 and 100 < result.lines[0] < 5000 and "interrupted by signal 15" in result.messages


@pytest.mark.parametrize(
    "arguments", [["--start-at", time.time() + 3600, "test"], ["test"], ["--start-at", time.time() + 3600, "fill"]]
)
def test_an_interruption_while_waiting(any_solotest, fresh, arguments):
    """Before the start, and while a stopped server keeps the reply to itself."""
    process = any_solotest.start("--json", *arguments, fresh.port, 100, 1000, 0, 1)
    time.sleep(0.5)
    os.kill(fresh.process.pid, signal.SIGSTOP)
    process.terminate()
    result = any_solotest.finish(process, timeout=10)
    assert result.code == 143 and error(result) == "interrupted"


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


def test_raw_that_cannot_be_written_leaves_the_result(any_solotest, filled):
    result = any_solotest.run("--raw", "/dev/full", *measure(filled.port))
    assert result.code == 6 and error(result) == "output" and result.json["test"]["requests"]["ok"] == 50
