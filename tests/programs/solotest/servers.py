# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers to measure: real Redis instances, and sockets that misbehave as a script says."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

SERVER = os.environ.get("REDIS_SERVER", "redis-server")  # such as valkey-server


def free_port():
    """Return a TCP port that nothing listens on. Somebody may take it before we do: callers try again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def caught(process, number):
    """True if a process has a handler for a signal."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt"))
    return mask >> (number - 1) & 1


class Redis:
    """One redis-server of our own, without persistence; ended by its process id.

    With a directory of certificates it also has a port with TLS, which demands one of its clients.
    """

    def __init__(self, *options, cpu=None, certificates=None, configuration=None):
        self.options = options
        self.configuration = configuration  # of a Sentinel
        self.cpu = cpu
        self.certificates = certificates
        self.tls_port = None
        self.directory = tempfile.mkdtemp(prefix="solotest-redis-")
        self.socket = os.path.join(self.directory, "redis.sock")
        self.port = None
        self.process = None

    def __enter__(self):
        for _attempt in range(5):
            self.port = free_port()
            if self.certificates:
                self.tls_port = free_port()
            self.process = subprocess.Popen(
                [
                    SERVER,
                    *([self.configuration, "--sentinel"] if self.configuration else []),
                    "--port",
                    str(self.port),
                    "--bind",
                    "127.0.0.1",
                    "--unixsocket",
                    self.socket,
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--dir",
                    self.directory,
                    *self._tls_options(),
                    *self.options,
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if self.cpu is not None:
                os.sched_setaffinity(self.process.pid, {self.cpu})
            if self._answers():
                return self
            self.process.kill()
            self.process.wait()
        self.__exit__()
        raise RuntimeError(f"{SERVER} does not start")

    def _tls_options(self):
        if not self.certificates:
            return []
        files = {"ca-cert": "ca.pem", "cert": "server.pem", "key": "server.key"}
        options = [word for name, file in files.items() for word in (f"--tls-{name}-file", self.certificates / file)]
        return ["--tls-port", str(self.tls_port), *map(str, options)]

    def _answers(self):
        for _attempt in range(200):
            if self.process.poll() is not None:
                return False
            try:
                self.command("PING")
                return True
            except OSError:
                time.sleep(0.05)
        return False

    def __exit__(self, *_exception):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory)

    def command(self, *words):
        """Send one command and return its reply's text, good or bad."""
        with contextlib.closing(self.connect()) as connection:
            return connection.send(*words)

    def connect(self):
        """Return a connection that sends many commands."""
        return Connection(self.port)

    def dbsize(self):
        return int(self.command("DBSIZE").strip(": \r\n"))

    def await_gets(self, count, client):
        """Wait until clients have sent this many GETs; the process of one must go on."""
        self.await_calls("get", count, client)

    def await_calls(self, command, count, client):
        """Wait until clients have sent a command this many times; the process of one must go on."""
        counter = rf"cmdstat_{command}:calls=(\d+)"
        while (calls := re.search(counter, self.command("INFO", "commandstats"))) is None or int(calls[1]) < count:
            assert client.poll() is None

    def await_clients(self, count, client):
        """Wait until this many are connected."""
        while self.command("CLIENT", "LIST").count("id=") <= count:
            assert client.poll() is None


class Connection:
    """A connection to a Redis."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def close(self):
        self.socket.close()

    def send(self, *words):
        """Send one command and return its reply's text, good or bad. A long one may be cut off."""
        request = b"*%d\r\n" % len(words)
        for word in words:
            data = str(word).encode()
            request += b"$%d\r\n%s\r\n" % (len(data), data)
        self.socket.sendall(request)
        return self.socket.recv(65536).decode(errors="replace")


class FakeServer:
    """Calls `script(connection, number)` for each connection, in a thread of its own.

    A script that returns closes the connection; `reset()` makes that a reset.
    """

    def __init__(self, script):
        self.script = script
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.threads = []
        self.connections = []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_exception):
        self.listener.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):  # the client has closed it
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10)

    def _accept(self):
        while True:
            try:
                connection, _address = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, len(self.connections)), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, connection, number):
        try:
            self.script(connection, number)
        except OSError:
            pass
        finally:
            connection.close()


def reset(connection):
    """Make the coming close() a reset instead of an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def requests(connection):
    """Yield the commands that arrive, each a list of bytes."""
    stream = connection.makefile("rb")
    while True:
        head = stream.readline()
        if not head.startswith(b"*"):
            return
        words = []
        for _word in range(int(head[1:])):
            length = int(stream.readline()[1:])
            words.append(stream.read(length + 2)[:-2])
        yield words


def written(words):
    """Return the data that a command writes, {key: value}: none unless it is SET or MSET."""
    return dict(zip(words[1::2], words[2::2])) if words[0] in (b"SET", b"MSET") else {}


def bulk(text):
    """Return a text as a reply."""
    return b"$%d\r\n%s\r\n" % (len(text), text)


INFO = b"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"


def good_reply(words, value_size=10):
    """What a Redis with every key filled would answer."""
    name = words[0].upper()
    if name == b"GET":
        return b"$%d\r\n%s\r\n" % (value_size, b"v" * value_size)
    if name == b"PING":
        return b"+PONG\r\n"
    if name == b"INFO":
        return bulk(INFO)
    if name == b"DBSIZE":
        return b":0\r\n"
    return b"+OK\r\n"


def serving(reply):
    """A script that answers the n-th GET or SET of a connection with `reply(n, words)`, all else well.

    A reply of None ends the connection.
    """

    def script(connection, _number):
        count = 0
        for words in requests(connection):
            answer = good_reply(words)
            if words[0].upper() in (b"GET", b"SET"):
                answer = reply(count, words)
                count += 1
            if answer is None:
                return
            connection.sendall(answer)

    return script
