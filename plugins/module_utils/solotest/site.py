# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How steady a host is: a small Redis of its own under a steady load, block by block.

The Redis listens on the loopback address, holds its data in DRAM, and ends with the measurement.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import tempfile
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.children import Child, Spawn, end
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_idle import kept_awake
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import cpu_ticks, stolen_share
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, private_directory
from ansible_collections.memstretch.density.plugins.module_utils.host.memory import stays_awake
from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client

RANGES: Ranges = {
    "blocks": Range(int, 3, 1000, "blocks"),
    "block_seconds": Range(float, 0.1, 600, "seconds"),
}
_HOST = "127.0.0.1"
_PATIENCE_S = 30.0
# Whose the Redis may be, the best first.
_USERS = ("redis", "valkey", "nobody")


class Load(t.NamedTuple):
    """The load of a block, as the options of the module solotest."""

    rate: float
    key_count: int
    value_size: int
    pacing: str


class SiteError(Exception):
    """The host cannot be measured; the message says why."""


class Server(t.NamedTuple):
    """A Redis of the check: its port and its password."""

    port: int
    password: str


@contextlib.contextmanager
def small_redis(executable: str) -> t.Iterator[Server]:
    """Run a Redis without persistence, and yield it.

    Any user of the host can reach it: so it has a password, and it is not root's.

    Raises:
        SiteError: it does not start.
    """
    directory = tempfile.mkdtemp(prefix="site-", dir=private_directory())
    try:
        server = Server(_free_port(), secrets.token_hex(16))
        spawn = Spawn([executable, "-"], os.path.join(directory, "output"), _configuration(server), user=_user())
        program = Child(spawn)
        try:
            _wait(program, server.port)
            yield server
        finally:
            end([program], signal.SIGTERM, _PATIENCE_S)
    finally:
        shutil.rmtree(directory)


def _user() -> str:
    """Return whose the Redis is to be: empty for this user, unless that is root."""
    if os.geteuid():
        return ""
    for name in _USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise SiteError(f"this host has none of the users {', '.join(_USERS)}, and its Redis must not be root's")


def _configuration(server: Server) -> str:
    lines = [f"port {server.port}", f"bind {_HOST}", f"requirepass {server.password}", 'save ""', "appendonly no"]
    return "\n".join([*lines, "dir /", ""])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]


def _wait(program: Child, port: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not program.ended() and time.monotonic() < until:
        try:
            socket.create_connection((_HOST, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SiteError(f"the Redis of the site check did not start on port {port}: {program.says()}")


def measure(
    load: Load,
    executable: str,
    redis: str,
    blocks: int,
    block_seconds: float,
    run_command: RunCommand,
    cpu_idle: str = "default",
) -> dict[str, t.Any]:
    """Return C(blocks), their figures, C(stolen), the share of CPU time that was stolen, and C(awake).

    C(awake) is whether the CPUs stayed awake when they were idle; None if this kernel has no way to keep them awake.

    Args:
        load: of each block.
        executable: path of the client.
        redis: path of the Redis server.
        blocks: the number of blocks.
        block_seconds: the length of each.
        run_command: AnsibleModule's method.
        cpu_idle: whether to keep the CPUs awake during the check (C(awake)) or not (C(default)).

    Raises:
        SiteError: Redis or the client failed.
        CpuIdleError: the CPUs cannot be kept awake.
    """
    with kept_awake() if cpu_idle == "awake" else contextlib.nullcontext(), small_redis(redis) as server:
        where = [str(server.port), str(load.value_size), str(load.key_count)]
        _run([executable, "--json", "fill", *where], server, run_command)
        options = ["--json", "--arrivals=jitter", f"--pacing={load.pacing}", f"--duration={block_seconds:f}"]
        command = [executable, *options, "test", *where, "0", f"{load.rate:f}"]
        before = cpu_ticks()
        # The first block wakes the CPUs and fills caches, so it does not count.
        measured = [_run(command, server, run_command) for _block in range(blocks + 1)][1:]
        stolen, awake = stolen_share(before, cpu_ticks()), stays_awake(HostFiles())
    return {"blocks": [_figures(each["latency"]) for each in measured], "stolen": stolen, "awake": awake}


def _run(command: list[str], server: Server, run_command: RunCommand) -> dict[str, t.Any]:
    """Run the client and return what it measured."""
    environment = {"SOLOTEST_PASSWORD": server.password}
    status, output, diagnostics = run_to_end(run_command, command, environ_update=environment)
    try:
        report = json.loads(output)
    except ValueError:
        raise SiteError(f"{command[0]} ended with status {status}: {diagnostics.strip()[-400:]}") from None
    if report["error"]:
        raise SiteError(f"the client failed: {report['error']['message']}")
    return client.facts(report, None, {}, {})


def _figures(latency: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return average and p99 of the upper bound, and p99 of the lower one."""
    upper, lower = latency["intended"], latency.get("server") or {}
    return {"avg_us": upper["avg_us"], "p99_us": upper["p99_us"], "lower_p99_us": lower.get("p99_us")}
