# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that are not there, refuse the client, or fail before the load: told from those that fail under it."""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import socket
import sys
import time

import pytest
from conftest import Client, error, measure
from servers import FakeServer, Redis, bulk, good_reply, requests, written

PASSWORD = "correct horse"


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
    assert "port" not in result.messages


def limited(number, most):
    """A function that limits a resource of the client."""
    return lambda: resource.setrlimit(number, (most, most))


def test_too_few_open_files(any_solotest, filled):
    result = any_solotest.run(
        "--connections", 100, *measure(filled.port), preexec_fn=limited(resource.RLIMIT_NOFILE, 50)
    )
    assert result.code == 7 and error(result) == "resources" and "ulimit -n" in result.messages


def test_too_few_open_files_to_look_up_a_name(any_solotest):
    """The process that looks it up needs a pipe."""
    result = any_solotest.run(
        "--host", "no-such-host.invalid", *measure(6379), preexec_fn=limited(resource.RLIMIT_NOFILE, 4)
    )
    assert result.code == 7 and error(result) == "resources" and "ulimit -n" in result.messages


def test_too_little_memory(solotest, fresh):
    result = solotest.run(
        "--json", "fill", fresh.port, 500_000_000, 10, preexec_fn=limited(resource.RLIMIT_AS, 200 << 20)
    )
    assert result.code == 7 and error(result) == "resources" and "not enough memory" in result.messages


# Starts the client where files of the test take the place of those in /etc; nothing else sees that.
RESOLVING = """
import ctypes, os, socket, sys
directory, network, *command = sys.argv[1:]
libc = ctypes.CDLL(None)
libc.unshare(0x00020000 | (0x40000000 if network == "silent" else 0))  # mounts of its own, and a network
libc.mount(b"none", b"/", None, 0x44000, None)  # private
for name in os.listdir(directory):
    libc.mount(os.path.join(directory, name).encode(), b"/etc/" + name.encode(), None, 0x1000, None)  # bind
if network == "silent":
    os.system("ip link set lo up")
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    os.set_inheritable(server.fileno(), True)
os.execv(command[0], command)
"""


def resolving_process(client, directory, network, *arguments, **files):
    for name, text in files.items():
        (directory / name.replace("_", ".")).write_text(text)
    return Client(sys.executable).start("-c", RESOLVING, directory, network, client.program, *arguments)


def resolving(client, *arguments, **files):
    return client.finish(resolving_process(client, *arguments, **files))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network with another name server")
def test_a_name_server_that_does_not_answer(solotest, tmp_path):
    """The resolver itself waits for 10 seconds; --connect-timeout ends it."""
    begin = time.monotonic()
    result = resolving(
        solotest,
        tmp_path,
        "silent",
        "--connect-timeout",
        0.4,
        "--host",
        "redis.example",
        *measure(6379),
        resolv_conf="nameserver 127.0.0.1\n",
        nsswitch_conf="hosts: dns\n",
    )
    assert result.code == 3 and error(result) == "connect" and "cannot resolve redis.example" in result.messages
    assert "timed out" in result.messages and time.monotonic() - begin < 8


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network with another name server")
def test_a_process_that_looks_up_a_name_and_crashes(solotest, tmp_path):
    """A static client loads the resolver's modules of the machine, which may be of another C library."""
    process = resolving_process(
        solotest,
        tmp_path,
        "silent",
        "--host",
        "redis.example",
        *measure(6379),
        resolv_conf="nameserver 127.0.0.1\n",
        nsswitch_conf="hosts: dns\n",
    )
    helpers = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    program = pathlib.Path(f"/proc/{process.pid}/exe")
    while program.readlink().name != "solotest" or not (helper := helpers.read_text().split()):
        assert process.poll() is None
    os.kill(int(helper[0]), signal.SIGSEGV)
    result = solotest.finish(process)
    assert result.code == 3 and error(result) == "connect" and "has crashed" in result.messages


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a name two addresses")
def test_a_name_whose_first_address_refuses(solotest, fresh, tmp_path):
    hosts = "::1 redis.example\n127.0.0.1 redis.example\n"
    arguments = ("--host", "redis.example", "ping", fresh.port)  # it listens on 127.0.0.1 alone
    result = resolving(solotest, tmp_path, "same", *arguments, hosts=hosts, nsswitch_conf="hosts: files\n")
    assert result.code == 0, result


def test_names_and_addresses_of_both_kinds(any_solotest):
    with Redis("--bind", "127.0.0.1 ::1") as server:
        for host in ("localhost", "::1", "127.0.0.1"):
            assert any_solotest.run("--host", host, "ping", server.port).code == 0
        result = any_solotest.run("--json", "--host", "::1", "filltest", server.port, 10, 100, 0, 1000)
    assert result.code == 0 and result.json["settings"]["host"] == "::1"
    assert result.json["test"]["latency"]["server"]["count"] > 0  # the kernel stamps IPv6, too


@pytest.mark.parametrize("pacing", ["sleep", "none"])
def test_a_schedule_waits_for_time_stamps(any_solotest, pacing):
    """The kernel switches them on in the background; `virtual/test_start.c` has a kernel that takes long."""
    connections = {}

    def script(connection, number):
        for words in requests(connection):
            connections.setdefault(number, []).append(words[0])
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run("--pacing", pacing, "--requests", 3, "test", server.port, 10, 100, 0, 1000)
    assert result.code == 0, result
    pings = next(words for words in connections.values() if b"GET" in words).count(b"PING")
    assert pings == 1 if pacing == "none" else pings > 1


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


@pytest.mark.parametrize("password", [None, PASSWORD])
@pytest.mark.parametrize(
    "why, code, kind",
    [
        ("ERR max number of clients reached", "ERR max number of clients", "no_client"),
        ("DENIED Redis is running in protected mode", "DENIED", "connect"),
    ],
)
def test_a_server_that_lets_nobody_in(solotest, why, code, kind, password):
    """With a password, too, that is not its matter. Only the code is shown then, since the rest may repeat it."""

    def script(connection, _number):
        connection.sendall(f"-{why}\r\n".encode())
        connection.recv(1000)

    with FakeServer(script) as server:
        result = solotest.run(*measure(server.port), environment={"SOLOTEST_PASSWORD": password} if password else {})
    assert result.code == 3 and error(result) == kind
    assert f"access denied: {code if password else why}\n" in result.messages


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


@pytest.mark.parametrize("password", ["s3cret-" * 4, "s3cret-" * 40])
def test_a_password_that_redis_repeats_is_in_no_message(any_solotest, password):
    """Without the command AUTH, Redis says which arguments it was given."""
    with Redis("--rename-command", "AUTH", "") as server:
        result = any_solotest.run(*measure(server.port), environment={"SOLOTEST_PASSWORD": password})
    assert result.code == 3 and error(result) == "auth" and "access denied: ERR" in result.messages
    assert "s3cret" not in result.messages + result.output


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
        "--json", "--duration", 30, "test", locked.port, 10, 100, 0, 100, environment={"SOLOTEST_PASSWORD": PASSWORD}
    )
    directory = pathlib.Path(f"/proc/{process.pid}")
    while PASSWORD.encode() in (directory / "environ").read_bytes():  # until the client has read it
        assert process.poll() is None
    assert PASSWORD.encode() not in (directory / "cmdline").read_bytes() and process.poll() is None
    process.terminate()
    result = solotest.finish(process)
    assert PASSWORD not in result.output + result.messages


@pytest.mark.parametrize("mode", ["fill", "test", "ping"])
def test_a_node_of_a_cluster_is_refused_by_name(any_solotest, mode):
    with Redis("--cluster-enabled", "yes") as server:
        result = any_solotest.run("--json", mode, server.port, 10, 100)
        assert result.code == 3 and error(result) == "unsupported" and "node of a cluster" in result.messages
        assert server.dbsize() == 0 and result.json["fill"] is None and result.json["test"] is None
        assert any_solotest.run(mode, server.port, 10, 100).code == 3  # without --json, too


def test_a_sentinel_is_refused_by_name(any_solotest, tmp_path):
    configuration = tmp_path / "sentinel.conf"
    configuration.write_text("sentinel monitor mine 127.0.0.1 1 1\n")
    with Redis(configuration=configuration) as server:
        result = any_solotest.run("--json", "ping", server.port)
    assert result.code == 3 and error(result) == "unsupported" and "Sentinel" in result.messages


def answering_info(text):
    """A script of a server whose reply to INFO is this. It counts as empty, and takes every key."""

    def script(connection, _number):
        for words in requests(connection):
            commands.append(words[0])
            connection.sendall(text if words[0] == b"INFO" else good_reply(words))

    commands = []
    script.commands = commands
    return script


VALKEY = b"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:"


@pytest.mark.parametrize("mode", ["fill", "test", "ping"])
@pytest.mark.parametrize(
    ("info", "name"),
    [
        (VALKEY + b"cluster\r\n", "node of a cluster"),
        (VALKEY + b"standalone\r\n# Cluster\r\ncluster_enabled:1\r\n", "node of a cluster"),
        (VALKEY + b"sentinel\r\n", "Sentinel"),
    ],
)
def test_a_valkey_that_is_not_alone_is_refused_by_name(any_solotest, info, name, mode):
    """Valkey calls its mode server_mode."""
    script = answering_info(bulk(info))
    with FakeServer(script) as server:
        result = any_solotest.run("--json", mode, server.port, 10, 100)
    assert result.code == 3 and error(result) == "unsupported" and name in result.messages
    assert not {b"FLUSHALL", b"SET", b"MSET", b"GET"} & set(script.commands)


def test_a_valkey_tells_both_versions(any_solotest):
    with FakeServer(answering_info(bulk(VALKEY + b"standalone\r\n# Cluster\r\ncluster_enabled:0\r\n"))) as server:
        result = any_solotest.run(*measure(server.port))
    assert result.code == 0
    assert result.json["server_before"]["redis_version"] == "7.2.4"
    assert result.json["server_before"]["valkey_version"] == "8.1.1"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"-NOPERM this user has no permissions to run the 'info' command\r\n", "NOPERM"),
        (b"$-1\r\n", "no mode"),
        (bulk(b"# Server\r\nredis_version:7.0.15\r\n"), "no mode"),
    ],
)
def test_a_server_that_does_not_tell_its_mode_is_not_emptied(any_solotest, reply, why):
    """It may be a node of a cluster. A test may go on."""
    script = answering_info(reply)
    with FakeServer(script) as server:
        result = any_solotest.run("--json", "fill", server.port, 10, 100)
        assert result.code == 5 and error(result) == "refused_foreign_data" and why in result.messages
        assert not {b"FLUSHALL", b"SET", b"MSET"} & set(script.commands)
        assert any_solotest.run(*measure(server.port)).code == 0


def test_a_user_of_an_access_list_on_every_kind_of_socket(any_solotest):
    rights = ("~*", "&*", "+@read", "+@write", "+info", "+dbsize", "+ping", "+flushall")
    with Redis("--bind", "127.0.0.1 ::1", "--user", "bench", "on", ">" + PASSWORD, *rights) as server:
        for where in (["--host", "::1"], ["--host", "127.0.0.1"], ["--socket", server.socket]):
            result = any_solotest.run(
                "--json",
                "--user",
                "bench",
                *where,
                "--requests",
                50,
                "filltest",
                server.port,
                10,
                100,
                0,
                1000,
                50,
                environment={"SOLOTEST_PASSWORD": PASSWORD},
            )
            assert result.code == 0, result
            assert result.json["test"]["requests"]["ok"] == 50


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
        result = any_solotest.run("--timeout", 1, *measure(server.port))
    assert result.code == 4 and error(result) == "not_ready" and "no reply in time" in result.messages


def test_a_server_that_falls_silent_before_the_first_time_stamp(any_solotest):
    def script(connection, _number):
        for number, words in enumerate(requests(connection)):
            if number == 0 or words[0] != b"PING":
                connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run("--json", "--timeout", 0.3, "--requests", 3, "test", server.port, 10, 100, 0, 1000)
    assert result.code == 4 and error(result) == "not_ready" and "PING: no reply in time" in result.messages


@pytest.mark.long
@pytest.mark.parametrize(("mode", "connections"), [("test", 1), ("fill", 8)])
def test_a_redis_that_is_killed_before_the_start(any_solotest, fresh, mode, connections):
    start_at = time.time() + 6
    # Without a schedule: with one, more PINGs may follow, until the first time stamp.
    arguments = ["--json", "--pacing", "none", "--duration", 1, "--start-at", start_at, mode, fresh.port, 100, 1000, 0]
    process = any_solotest.start(*arguments)
    # The load's connections wait after their PING; the one before them has counted the keys.
    while (
        "cmdstat_exists" not in fresh.command("INFO", "commandstats")
        or fresh.command("CLIENT", "LIST").count("cmd=ping") < connections
    ):
        assert process.poll() is None
    # Redis answers all commands of a turn at its end: after another command, the last PING has its reply.
    fresh.command("PING")
    fresh.process.kill()
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 4 and error(result) == "not_ready"
    assert mode == "fill" or result.json["test"]["requests"]["sent"] == 0


def test_a_server_that_goes_away_after_the_fill(any_solotest):
    """The note is written, the first DBSIZE is answered, and the second ends it."""
    keys = set()  # several connections write them

    def script(connection, _number):
        for words in requests(connection):
            if words[0] == b"DBSIZE" and len(keys) == 100:
                return
            keys.update({*written(words)} - {b"memstretch:fill"})
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = any_solotest.run("--json", "fill", server.port, 10, 100)
    assert result.code == 4 and error(result) == "lost" and result.json["fill"]["keys"] == 100
