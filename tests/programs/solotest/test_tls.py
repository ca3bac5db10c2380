# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS: real Redis servers that demand a certificate, servers that break off, and the bounds of what was measured."""

from __future__ import annotations

import contextlib
import ssl
import time

import pytest
import truth
from certificates import NAME
from conftest import BUILD, Client, error
from servers import FakeServer, Redis, good_reply, requests


@pytest.fixture
def solotest():
    """The program as it is shipped where TLS is wanted."""
    return Client(BUILD / "solotest-tls")


@pytest.fixture(params=["solotest-tls", "solotest-sanitized"])
def any_solotest(request):
    return Client(BUILD / request.param)


@pytest.fixture(scope="module")
def server(keys):
    with Redis("--bind", "127.0.0.1 ::1", certificates=keys) as redis:
        yield redis


def trust(keys):
    return ["--tls", "--cacert", keys / "ca.pem"]


def mutual(keys):
    """Trust the server and show a certificate."""
    return [*trust(keys), "--cert", keys / "client.pem", "--key", keys / "client.key"]


def measure(port, count=50):
    return ["--json", "--pacing", "none", "--requests", count, "test", port, 10, 100, 0, 1]


# ---- getting in ----


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_fill_and_test(any_solotest, server, keys, host):
    result = any_solotest.run(
        "--json",
        *mutual(keys),
        "--host",
        host,
        "--connections",
        3,
        "--pipeline",
        4,
        "--requests",
        2000,
        "filltest",
        server.tls_port,
        1000,
        500,
        10,
        4000,
        70,
    )
    assert result.code == 0, result
    test = result.json["test"]
    assert test["requests"]["ok"] == 2000 and server.dbsize() == 501
    assert result.json["settings"]["tls"] is True and result.json["client"]["tls"].startswith("OpenSSL")
    assert test["latency"]["server"]["count"] > 1000  # the kernel's time stamps are known


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("size", [16384, 200_000, 3 << 20])
def test_values_of_many_records(any_solotest, keys, protocol, size):
    with Redis("--tls-protocols", protocol, certificates=keys) as redis:
        result = any_solotest.run(
            "--json",
            *mutual(keys),
            "--pipeline",
            4,
            "--connections",
            2,
            "--pacing",
            "none",
            "--requests",
            40,
            "filltest",
            redis.tls_port,
            size,
            20,
            0,
            1,
            50,
        )
        assert result.code == 0, result
        assert result.json["test"]["requests"]["ok"] == 40 and redis.command("STRLEN", 7) == f":{size}\r\n"


def test_the_largest_overhead_of_a_record(any_solotest, keys):
    """A cipher that needs a block, a digest and padding in each record."""
    old = ("--tls-protocols", "TLSv1.2", "--tls-ciphers", "ECDHE-ECDSA-AES256-SHA384")
    with Redis(*old, certificates=keys) as redis:
        result = any_solotest.run("--json", *mutual(keys), "filltest", redis.tls_port, 100_000, 20, 0, 1000, 50)
    assert result.code == 0, result


def test_a_user_with_a_password(any_solotest, keys):
    with Redis("--user", "bench", "on", ">secret", "~*", "&*", "+@all", certificates=keys) as redis:
        known = {"SOLOTEST_PASSWORD": "secret"}
        fill = ("--json", *mutual(keys), "--user", "bench", "fill", redis.tls_port, 10, 100)
        assert any_solotest.run(*fill, environment=known).code == 0
        result = any_solotest.run(*fill, environment={"SOLOTEST_PASSWORD": "wrong"})
        assert result.code == 3 and error(result) == "auth"


def test_a_server_that_is_not_trusted(any_solotest, server, keys):
    shown = ("--cert", keys / "client.pem", "--key", keys / "client.key")
    for authority in ([], ["--cacert", keys / "stranger.pem"]):
        result = any_solotest.run("--tls", *authority, *shown, *measure(server.tls_port))
        assert result.code == 3 and error(result) == "tls"
        assert "certificate of the server is not accepted" in result.messages and "--cacert" in result.messages
    assert any_solotest.run("--json", "--tls", "--insecure", *shown, "ping", server.tls_port).code == 0


def test_a_server_of_another_name(any_solotest, server, keys):
    result = any_solotest.run(*mutual(keys), "--host", "localhost", *measure(server.tls_port))
    assert result.code == 3 and error(result) == "tls" and "mismatch" in result.messages
    result = any_solotest.run(*mutual(keys), "--sni", "127.0.0.2", *measure(server.tls_port))
    assert result.code == 3 and error(result) == "tls" and "mismatch" in result.messages
    result = any_solotest.run("--json", *mutual(keys), "--host", "localhost", "--sni", NAME, "ping", server.tls_port)
    assert result.code == 0, result


def test_no_certificate_where_one_is_demanded(any_solotest, server, keys):
    result = any_solotest.run(*trust(keys), *measure(server.tls_port))
    assert result.code == 3 and error(result) == "tls" and result.json["test"] is None


def test_a_server_without_tls(any_solotest, server, keys):
    with FakeServer(lambda connection, number: connection.sendall(b"-ERR nonsense\r\n") or connection.recv(9)) as plain:
        result = any_solotest.run(*trust(keys), *measure(plain.port))
        assert result.code == 3 and error(result) == "tls" and "does not speak TLS" in result.messages
    begin = time.monotonic()
    result = any_solotest.run(*trust(keys), "--connect-timeout", 0.5, *measure(server.port))
    assert result.code == 3 and error(result) == "tls" and "TLS handshake" in result.messages
    assert time.monotonic() - begin < 20  # --timeout is 30


def test_a_client_without_tls(any_solotest, server):
    result = any_solotest.run(*measure(server.tls_port))
    assert result.code == 3 and error(result) == "connect"


def test_a_program_that_was_built_without_tls(build_of):
    result = build_of("solotest").run("--json", "--tls", "ping", 1)
    assert result.code == 2 and "--tls" in result.messages and "built without TLS" in result.messages


FILES = [
    (["--cacert", "/nonexistent"], "--cacert"),
    (["--cacert", "ca.key"], "--cacert"),
    (["--cert", "/nonexistent", "--key", "client.key"], "--cert"),
    (["--cert", "client.pem", "--key", "/nonexistent"], "--key"),
    (["--cert", "client.pem", "--key", "server.key"], "--key"),
    (["--cert", "client.pem", "--key", "encrypted.key"], "without a password"),
]


@pytest.mark.parametrize("arguments, named", FILES, ids=[" ".join(case[0]) for case in FILES])
def test_files_that_cannot_be_used(any_solotest, keys, arguments, named):
    with FakeServer(lambda connection, number: None) as server:
        result = any_solotest.run("--json", "--tls", *arguments, "ping", server.port, cwd=keys)
        assert result.code == 2 and named in result.messages and not server.connections


# ---- servers of our own ----


@pytest.fixture
def context(keys):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(keys / "server.pem", keys / "server.key")
    return made


@pytest.mark.parametrize("host, sent", [("127.0.0.1", None), ("localhost", "localhost")])
def test_the_name_of_the_server_is_sent(any_solotest, context, host, sent):
    names = []
    context.sni_callback = lambda connection, name, context: names.append(name)

    def script(connection, _number):
        with contextlib.closing(context.wrap_socket(connection, server_side=True)) as secret:
            for words in requests(secret):
                secret.sendall(good_reply(words))

    with FakeServer(script) as server:
        assert any_solotest.run("--tls", "--insecure", "--host", host, *measure(server.port)).code == 0
        named = any_solotest.run("--tls", "--insecure", "--host", host, "--sni", NAME, *measure(server.port))
    assert named.code == 0 and set(names) == {sent, NAME}


class Wire:
    """A server's side of TLS whose records the test sends as it likes."""

    def __init__(self, context, connection):
        self.connection = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.secret = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.until_done(self.secret.do_handshake)

    def until_done(self, step):
        while True:
            try:
                result = step()
                self.connection.sendall(self.outgoing.read())
                return result
            except ssl.SSLWantReadError:
                self.connection.sendall(self.outgoing.read())
                received = self.connection.recv(65536)
                if not received:
                    raise OSError("the client is gone") from None
                self.incoming.write(received)

    def receive(self):
        """Read what the client sent, decrypted."""
        return self.until_done(lambda: self.secret.read(65536))

    def sealed(self, text):
        self.secret.write(text)
        return self.outgoing.read()


def answering(context, send):
    """A script that answers each command with `send(connection, sealed reply, number of the command)`."""

    def script(connection, _number):
        wire, count = Wire(context, connection), 0
        while True:
            words = wire.receive().split(b"\r\n")[2::2]
            count += 1
            send(connection, wire.sealed(good_reply(words)), count)

    return script


def test_torn_records(any_solotest, context):
    def send(connection, record, _count):
        for byte in record:
            connection.sendall(bytes([byte]))

    with FakeServer(answering(context, send)) as server:
        result = any_solotest.run("--tls", "--insecure", *measure(server.port))
    assert result.code == 0 and result.json["test"]["requests"]["ok"] == 50


DAMAGES = {
    "bad record mac": lambda record: record[:-1] + bytes([record[-1] ^ 1]),
    "does not speak TLS": lambda record: b"+OK\r\n",
    "too large": lambda record: b"\x17\x03\x03\xff\xff" + record,
    "closed by the server": lambda record: None,
}


@pytest.mark.parametrize("named", DAMAGES)
def test_records_that_are_damaged(any_solotest, context, named):
    def send(connection, record, count):
        damaged = DAMAGES[named](record) if count == 20 else record
        if damaged is None:
            raise OSError("enough")
        connection.sendall(damaged)

    with FakeServer(answering(context, send)) as server:
        result = any_solotest.run("--tls", "--insecure", *measure(server.port))
    assert result.code == 4 and error(result) == "lost" and named in result.messages
    assert result.json["test"]["requests"]["errors"] == {"lost": 1}


def test_a_client_that_redis_kills(any_solotest, server, keys):
    """Redis ends TLS in order, then resets the connection if a request has just come."""
    assert any_solotest.run("--json", *mutual(keys), "fill", server.tls_port, 100, 1000).code == 0
    process = any_solotest.start("--json", *mutual(keys), "--duration", 30, "test", server.tls_port, 100, 1000, 0, 1000)
    while "cmd=get" not in server.command("CLIENT", "LIST"):
        assert process.poll() is None
    server.command("CLIENT", "KILL", "TYPE", "normal")
    result = any_solotest.finish(process, timeout=20)
    assert result.code == 4 and error(result) == "lost" and result.json["test"]["requests"]["ok"] > 0


# ---- what is measured ----


@pytest.mark.parametrize("stop", ["server", "client"])
def test_a_stall_is_where_it_belongs(solotest, keys, stop):
    """As in test_truth.py: the truth is between the bounds with TLS, too."""
    rate, seconds = 1000, 3
    plan = [(0.3005 + 0.5 * i, 0.1) for i in range(5)]
    with Redis(certificates=keys) as redis:
        assert solotest.run("--json", *mutual(keys), "fill", redis.tls_port, 1000, 1000).code == 0
        options = [str(word) for word in mutual(keys)]
        measured = truth.measure_with_stalls(
            solotest.program, redis.tls_port, stop, plan, rate, seconds, redis.process.pid, options
        )
    assert measured.report["test"]["requests"]["ok"] == len(measured.columns[0]) == rate * seconds
    assert measured.report["test"]["latency"]["server"]["count"] > rate * seconds / 2  # the kernel's stamps are known
    (truth.check_stalled_server if stop == "server" else truth.check_stopped_client)(measured)
