# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redis server that a ramp starts as a process of its machine. Containers and VMs have the same methods."""

from __future__ import annotations

import os
import secrets
import shutil
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.children import KILLED_FIRST, Child, Spawn
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import Plan, Server
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Connection, Refused

# On full CPUs a process needs more than half a minute until it answers.
_READY_SECONDS = 120.0


class ServerError(Exception):
    """A server or its client failed for a reason that is not memory; the text is for the user."""


class Login(t.NamedTuple):
    """How to reach the Redis of a server."""

    address: tuple[str, int]
    password: str


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


def is_ready(name: str, login: Login, waited: float, says: t.Callable[[], str]) -> bool:
    """Return whether a server that was started on this machine answers.

    Args:
        name: of the server.
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
            raise ServerError(f"{name}: port {login.address[1]} is another server's: {refused}") from None
    if waited > _READY_SECONDS:
        raise ServerError(f"{name} has not answered within {_READY_SECONDS:g} s: {says()}")
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
        self._name, self._began = server.name, time.monotonic()
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
        return is_ready(self._name, self.login, time.monotonic() - self._began, self.says)

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
