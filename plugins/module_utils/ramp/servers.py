# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redis server that a ramp starts as a process of its machine. Containers and VMs have the same methods."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import socket
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.children import KILLED_FIRST, Child, Spawn
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import Plan, Server
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Connection, Refused

# On full CPUs a process needs more than half a minute until it answers.
_READY_SECONDS = 120.0
# The servers of a conductor that was killed end within this time.
_PORT_SECONDS, _PORT_POLL_S = 5.0, 0.1


class ServerError(Exception):
    """A server or its client failed for a reason that is not memory; the text is for the user."""


class Login(t.NamedTuple):
    """How to reach the Redis of a server."""

    address: tuple[str, int]
    password: str


def refuse_taken_ports(plan: Plan) -> None:
    """Raise ServerError if another program has the port of a server that would start on this machine."""
    deadline = time.monotonic() + _PORT_SECONDS
    taken = [server for server in (*plan.servers, *plan.references) if not server.address]
    while True:
        taken = [server for server in taken if _is_taken(server.port)]
        if not taken:
            return
        if time.monotonic() > deadline:
            raise ServerError(port_is_taken(taken[0], plan, len(taken) - 1))
        time.sleep(_PORT_POLL_S)


def port_is_taken(server: Server, plan: Plan, more: int = 0) -> str:
    """Return the text of an error: another program has the port of a server.

    Args:
        server: of the plan.
        plan: of the ramp.
        more: so many other ports of the ramp are taken, too.
    """
    option = f"latency_benchmark_port of {server.name}"
    if server in plan.references:
        option = f"of {server.name}; references have the ports after the highest latency_benchmark_port"
    if more:
        others = f"{more} other port{'s' if more > 1 else ''} of the ramp"
        return f"port {server.port} ({option}) and {others} are taken by other programs; stop them, or set other ports"
    return f"port {server.port} ({option}) is taken by another program; stop it, or set another port"


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        # As Redis does: connections that have just ended do not keep a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
        return False


def answers(login: Login, seconds: float) -> bool:
    """Return whether a Redis answers within so many seconds.

    Raises:
        Refused: it answers, but not with what it should.
    """
    try:
        with Connection(login.address, seconds) as connection:
            connection.log_in("default", login.password)
            return connection.require("PING") == "+PONG"
    except OSError:
        return False


def is_ready(server: Server, plan: Plan, login: Login, waited: float, says: t.Callable[[], str]) -> bool:
    """Return whether a server that was started on this machine answers.

    Args:
        server: of the plan.
        plan: of the ramp.
        login: its own.
        waited: seconds since its start.
        says: returns what it printed.

    Raises:
        ServerError: it does not within a long time, or somebody else does.
    """
    try:
        if answers(login, 1):
            return True
    except Refused as refused:
        # Nobody else may answer in its place: Redis itself ends if its port is taken.
        if waited > 1:
            raise ServerError(f"{refused}: {port_is_taken(server, plan)}") from None
    if waited > _READY_SECONDS:
        raise ServerError(f"{server.name} has not answered within {_READY_SECONDS:g} s: {says()}")
    return False


class Instance(Child):
    """The process.

    Args:
        server: of the plan.
        plan: of the ramp.
        entry: the file by which it enters its control group; empty to stay.
        prefix: of the path of its output.

    Attributes:
        login: how to reach it.
    """

    def __init__(self, server: Server, plan: Plan, entry: str, prefix: str) -> None:
        self._server, self._plan, self._began = server, plan, time.monotonic()
        # Whoever has taken its port before it is told this password, so no other server may have the same.
        self.login = Login(("127.0.0.1", server.port), secrets.token_hex(16))
        super().__init__(
            Spawn(
                [_program(plan.redis), "-"],
                f"{prefix}.redis",
                given=configuration(server.port, self.login.password),
                entry=entry,
                user=plan.user,
                out_of_memory=KILLED_FIRST,
            )
        )

    def ready(self) -> bool:
        """Return whether it answers.

        Raises:
            ServerError: it does not within a long time, or somebody else does.
        """
        return is_ready(self._server, self._plan, self.login, time.monotonic() - self._began, self.says)

    def how(self) -> str:
        """Return how it ended."""
        status = self.status or 0
        if os.WIFSIGNALED(status):
            return f"with signal {os.WTERMSIG(status)}"
        return f"with status {os.WEXITSTATUS(status)}"


def configuration(port: int, password: str) -> str:
    """Return the configuration of a Redis that keeps nothing, as a text."""
    lines = (
        f"port {port}",
        "bind 127.0.0.1",
        f"requirepass {password}",
        'save ""',
        "appendonly no",
        "dir /",
        "loglevel warning",
    )
    return "\n".join(lines) + "\n"


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise ServerError(f"redis: {name} is not a program on this host; install Redis or Valkey, or name its server")
    return path
