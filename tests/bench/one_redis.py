# SPDX-License-Identifier: GPL-3.0-or-later
"""One small Redis on this machine and clients that load it, for the benches of latency."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "programs" / "solotest"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))

from servers import Redis

from ansible_collections.memstretch.density.plugins.module_utils.solotest import client

ROOT = pathlib.Path(__file__).resolve().parents[2]
_TESTS = ROOT / "tests" / "programs" / "solotest"

SECONDS = 4
_PROGRAM = _TESTS / "build" / "solotest"
_VALUE_SIZE, _KEYS = "1000", "1000"


@contextlib.contextmanager
def filled_redis() -> t.Iterator[Redis]:
    """Build the client, run a Redis with 1,000 values of 1,000 bytes, and end it."""
    subprocess.run(["make", "-s", "-C", _TESTS, "build/solotest"], check=True)
    with Redis() as redis:
        command = [_PROGRAM, "fill", str(redis.port), _VALUE_SIZE, _KEYS]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield redis


def launch(port: int, rate: int, *options: str) -> subprocess.Popen[bytes]:
    """Start a client that loads a Redis for SECONDS."""
    positional = ("test", str(port), _VALUE_SIZE, _KEYS, "0", str(rate))
    command = [_PROGRAM, "--json", f"--requests={SECONDS * rate}", *options, *positional]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def result(process: subprocess.Popen[bytes]) -> dict[str, t.Any]:
    """Wait for a client and return its result as the module solotest returns it."""
    output = process.communicate(timeout=120)[0]
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return client.facts(json.loads(output), None, {}, {})


def latencies(port: int, rate: int, *options: str) -> dict[str, t.Any]:
    """Load a Redis for SECONDS and return the latencies of the client."""
    return result(launch(port, rate, *options))["latency"]
