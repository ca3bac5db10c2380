# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One server of a ramp: its Redis, container or VM, its fill and the client that loads it until the end."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import children
from ansible_collections.memstretch.density.plugins.module_utils.host.children import Child, Spawn, spare
from ansible_collections.memstretch.density.plugins.module_utils.ramp import containers, vms
from ansible_collections.memstretch.density.plugins.module_utils.ramp.clients_lease import ClientsLease
from ansible_collections.memstretch.density.plugins.module_utils.ramp.groups import RampGroup
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import Plan, Server
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import (
    Instance,
    Login,
    ServerError,
    port_is_taken,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest.client import plain

# The client reports so many seconds at a time, from whole seconds of the clock on.
PART_S = 1
# It connects within this time, and then waits for its first whole second.
_CONNECT_S = 0.25
# A client that loses its server ends so much before the server at most.
_ENDS_TOO_S = 1.0
_END_SECONDS = 2.0
# What Redis prints if it cannot have its port.
_NO_PORT = "Address already in use"
_STARTED_AT = re.compile(rb'"started_at":(\d+\.\d+)')

# What the client calls the three bounds, and what the record of a ramp does.
BOUNDS = {"intended": "upper", "server": "lower", "punctual": "punctual"}


class Shared(t.NamedTuple):
    """What the servers of a ramp have in common.

    Attributes:
        directory: for outputs.
        lease: which the clients watch.
    """

    plan: Plan
    directory: str
    lease: ClientsLease


def _started(
    server: Server, plan: Plan, group: RampGroup, prefix: str
) -> Instance | containers.Container | vms.VmServer:
    if server.address:
        return vms.VmServer(server, plan.password, group.admit)
    if plan.image:
        return containers.Container(server, plan, group, prefix)
    return Instance(server, plan, group.entry, prefix)


class Member:
    """A server that joins: it starts, is filled, and is loaded until the end.

    Args:
        server: of the plan.
        shared: what all have in common.
        group: the control group that it must be in.
        attempt: how often it was tried, with this one.

    Attributes:
        redis: its process, container or VM.
        joined: whether its client runs.
        is_newcomer: whether it is killed before all others when memory runs out.
        loaded_from: the time from which on its client loads it, in seconds since 1970.
        filled_seconds: how long start and fill took.
    """

    def __init__(self, server: Server, shared: Shared, group: RampGroup, attempt: int = 1) -> None:
        self.name, self.server, self._shared = server.name, server, shared
        # VMs may all have the same port.
        everybody = [*shared.plan.servers, *shared.plan.references]
        self._number = everybody.index(server) if server.address else server.port
        self._prefix = os.path.join(shared.directory, f"{self._number}.{attempt}")
        self._began = time.monotonic()
        self.redis = _started(server, shared.plan, group, self._prefix)
        self._fill: Child | None = None
        self.client: Child | None = None
        self.joined, self.loaded_from, self.filled_seconds = False, 0.0, 0.0
        self.is_newcomer = True
        self._ended: dict[int, float] = {}
        self._read, self._rest = 0, b""
        self._parts: dict[int, dict[str, t.Any]] = {}

    @property
    def login(self) -> Login:
        """How to reach its Redis."""
        return self.redis.login

    def children(self) -> list[Child]:
        """Return its processes. That of a VM is libvirt's, that of a container podman's."""
        return [child for child in (self.redis, self._fill, self.client) if isinstance(child, Child)]

    def advance(self) -> bool:
        """Take the next step of joining if the last one is done; return whether it has joined.

        Raises:
            ServerError: it cannot.
        """
        if self.joined or self.redis.ended():
            return self.joined
        if self._fill is None:
            if self.redis.ready():
                # The Redis of a VM is not this ramp's own, so other data than a client's is left alone.
                words = ["--protect", "fill"] if self.server.address else ["fill"]
                self._fill = Child(self._client_process("fill", [*words, *self._numbers(("value_size", "keys"))]))
        elif self._fill.ended():
            if self._fill.status == 0:
                self._load()
            elif self._outlives(self._fill):
                raise ServerError(f"{self.name} could not be filled: {self._fill.says()}")
        return self.joined

    def _load(self) -> None:
        load = self._shared.plan.load
        self.filled_seconds = time.monotonic() - self._began
        self.loaded_from = float(math.ceil((time.time() + _CONNECT_S) / PART_S) * PART_S)
        options = [
            f"--windows={PART_S}",
            f"--lease={self._shared.lease.path}",
            f"--start-at={self.loaded_from:.0f}",
            "--realtime=auto",
            f"--arrivals={load['arrivals']}",
        ]
        numbers = self._numbers(("value_size", "keys", "influence", "rate", "read_mix"))
        self.client = Child(self._client_process("client", [*options, "test", *numbers]))
        self.joined = True

    def spare(self) -> None:
        """Make it as likely to be killed as any other, once its step has settled."""
        spare(self.redis.pid)
        self.is_newcomer = False

    def _client_process(self, name: str, words: t.Sequence[str]) -> Spawn:
        # The seed decides the order of keys; equal ones would load all servers in step.
        share = plain(self._shared.plan.load["compressibility"])
        host = self.login.address[0]
        options = ["--json", f"--host={host}", f"--compressibility={share}", f"--seed={self._number}"]
        argv = [self._shared.plan.client, *options, *words]
        return Spawn(argv, f"{self._prefix}.{name}", environment={"SOLOTEST_PASSWORD": self.login.password})

    def _numbers(self, names: t.Sequence[str]) -> list[str]:
        return [str(self.server.port), *(plain(self._shared.plan.load[name]) for name in names)]

    def check(self) -> None:
        """Raise ServerError if its client has ended although its server lives."""
        if self.client and self._outlives(self.client):
            why = why_ended(self.report() or {}, self.client.says(), self._shared.lease)
            raise ServerError(f"the client of {self.name} has ended: {why}")

    def refuse_taken_port(self) -> None:
        """Raise ServerError if it has ended because another program has its port."""
        if self.joined or self.server.address or self.redis.was_killed:
            return
        if _NO_PORT in self.redis.says():
            raise ServerError(port_is_taken(self.server, self._shared.plan))

    def _outlives(self, child: Child) -> bool:
        """Return whether the server goes on although its fill or its client has ended.

        A server that is killed closes its connections before its end can be seen.
        """
        if not child.ended() or self.redis.ended():
            return False
        since = self._ended.setdefault(child.pid, time.monotonic())
        return time.monotonic() - since > _ENDS_TOO_S

    def parts(self, begin: int, end: int) -> list[dict[str, t.Any]]:
        """Return what its client has reported for the whole seconds from begin to end, as far as it has."""
        return list(self.seconds(begin, end).values())

    def seconds(self, begin: int, end: int) -> dict[int, dict[str, t.Any]]:
        """Return the same by second."""
        for line in self._new_lines():
            found = _STARTED_AT.search(line[:200])
            if line.startswith(b'{"schema":1,"window"') and found and begin <= round(float(found[1])) < end:
                self._parts[round(float(found[1]))] = json.loads(line)
        self._parts = {second: part for second, part in self._parts.items() if second >= begin}
        return {second: self._parts[second] for second in sorted(self._parts) if second < end}

    def _new_lines(self) -> list[bytes]:
        if not self.client:
            return []
        with open(self.client.output, "rb") as file:
            file.seek(self._read)
            content = file.read()
        self._read += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        return lines

    def report(self) -> dict[str, t.Any] | None:
        """Return the last line of its client, which has the whole test; None if it has not printed it to its end."""
        if not self.client:
            return None
        with open(self.client.output, "rb") as file:
            for line in reversed(file.read().splitlines(keepends=True)):
                # A client that is killed on a slow machine may have printed a part of it.
                if line.startswith(b'{"schema":1,"ended"') and line.endswith(b"\n"):
                    return json.loads(line)
        return None


def why_ended(report: t.Mapping[str, t.Any], said: str, lease: ClientsLease) -> str:
    """Explain why a client has ended although its server lives.

    Args:
        report: its last line; empty if it has printed none.
        said: the end of all that it has printed.
        lease: that it watched.
    """
    if report.get("ended") == "lease":
        return f"it waited too long for a sign of life of the conductor: {lease.why_lapsed()}"
    error = report.get("error")
    return error["message"] if error else said


def end_of(members: t.Sequence[Member], vm_seconds: float, meanwhile: t.Callable[[], None]) -> None:
    """End the processes of servers, remove their containers, and shut down their VMs.

    Args:
        vm_seconds: for a VM to shut down before it is switched off.
        meanwhile: called again and again while that goes on.

    Raises:
        ServerError: a container or a VM runs on.
    """
    children.end([child for member in members for child in member.children()], signal.SIGKILL, _END_SECONDS)
    servers = [member.redis for member in members]
    containers.remove([server for server in servers if isinstance(server, containers.Container)], meanwhile)
    vms.stop([server for server in servers if isinstance(server, vms.VmServer)], vm_seconds, meanwhile)


def load_of(parts: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the sum of what a client reported: buckets and sums by bound, requests that are lost, and each second."""
    bounds: dict[str, dict[str, t.Any]] = {
        name: {"counts": {}, "sum_ns": 0, "min_ns": None, "max_ns": None} for name in BOUNDS.values()
    }
    seconds = []
    for part in parts:
        for reported, name in BOUNDS.items():
            _add(bounds[name], part["latency"][reported])
        latency = part["latency"]
        seconds.append([latency["intended"]["count"], latency["intended"]["sum_ns"], latency["server"]["sum_ns"]])
    return {**bounds, "lost": sum(part["unanswered"] for part in parts), "seconds": seconds}


def _add(to: dict[str, t.Any], reported: t.Mapping[str, t.Any]) -> None:
    flat = reported["buckets"]
    for slot, count in zip(flat[::2], flat[1::2]):
        to["counts"][slot] = to["counts"].get(slot, 0) + count
    if flat:
        to["sum_ns"] += reported["sum_ns"]
        for name, choose in (("min_ns", min), ("max_ns", max)):
            to[name] = reported[name] if to[name] is None else choose(to[name], reported[name])
