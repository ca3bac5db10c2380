# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: the program in its several builds, and Redis instances of our own."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import certificates
from servers import Redis

HERE = pathlib.Path(__file__).resolve().parent

BUILD = HERE / "build"

pytest.register_assert_rewrite("truth")

# A process started in the background by a shell without job control ignores Ctrl-C, and hands that on; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Result:
    """What a run of the client left behind."""

    def __init__(self, code, output, messages):
        self.code = code
        self.output = output
        self.messages = messages

    @property
    def json(self):
        return json.loads(self.output)

    @property
    def lines(self):
        return [float(line) for line in self.output.split()]

    def __repr__(self):
        return f"exit {self.code}\n{self.output[:2000]}\n{self.messages}"


class Client:
    """Runs one build of solotest."""

    def __init__(self, program):
        self.program = str(program)

    def start(self, *arguments, environment=None, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen(
            [self.program, *map(str, arguments)], env={**os.environ, **(environment or {})}, **options
        )

    def finish(self, process, timeout=60):
        try:
            output, messages = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return Result(process.returncode, output, messages)

    def run(self, *arguments, timeout=60, **options):
        return self.finish(self.start(*arguments, **options), timeout)


def measure(port, count=50):
    """Return the arguments of a short closed loop."""
    return ["--json", "--pacing", "none", "--requests", count, "test", port, 10, 100, 0, 1]


def error(result):
    """Return the kind of the failure."""
    return result.json["error"]["kind"]


@pytest.fixture
def solotest():
    """The program as it is shipped."""
    return Client(BUILD / "solotest")


@pytest.fixture(params=["solotest", "solotest-sanitized"])
def any_solotest(request):
    """The program as it is shipped, and with the sanitizers looking on."""
    return Client(BUILD / request.param)


@pytest.fixture
def build_of():
    """A function that gives the program of another build."""
    return lambda name: Client(BUILD / name)


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """A directory with the certificates and keys of certificates.py."""
    directory = tmp_path_factory.mktemp("keys")
    certificates.make(directory)
    return directory


@pytest.fixture
def fresh():
    """An empty Redis for one test."""
    with Redis() as server:
        yield server


@pytest.fixture(scope="module")
def filled():
    """A Redis that holds the keys 0 .. 999 with values of 100 bytes, for tests that leave them alone."""
    with Redis() as server:
        result = Client(BUILD / "solotest").run("fill", server.port, 100, 1000)
        assert result.code == 0, result
        yield server
