# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which CPU the client runs, and on which the Redis that it measures.

Placement decides more than any setting of Redis: beside the server a request takes a fraction of what it takes across two
CPUs, because the other one must be woken first (docs/measurement.md). So it can be chosen, and is recorded either way.
"""

from __future__ import annotations

import os
import re
import socket
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, parse_cpu_list
from ansible_collections.memstretch.density.plugins.module_utils.options import (
    ANY_CPU,
    BESIDE_REDIS,
    OWN_CPU,
    cpu_choice,
)

# What the kernel calls the process of a server that speaks this protocol. A process id alone would not do: behind a
# forwarded port, or out of a container, it is the number of something else here.
_SERVERS = ("redis", "valkey", "keydb")


class PlacementError(Exception):
    """The client cannot be placed as asked. The text says why and what would help."""


class Server(t.NamedTuple):
    """The main thread of a Redis: where it may run, and where it ran last."""

    pid: int
    cpus: frozenset[int]
    last_cpu: int


def find_server(files: HostFiles, options: t.Mapping[str, t.Any], pid: int | None) -> Server:
    """Return what this host knows of the Redis that says its process id is pid.

    Raises:
        PlacementError: it does not run on this host, or nothing here may know.
    """
    if options["socket"] is None and not is_local(options["host"]):
        raise PlacementError(f"the Redis at {options['host']} does not run on this host")
    if pid is None:
        raise PlacementError("the Redis does not tell its process id; the user needs the right to call INFO")
    name, status, stat = (files.text(f"/proc/{pid}/{each}") for each in ("comm", "status", "stat"))
    if name is None or status is None or stat is None:
        raise PlacementError(
            f"the Redis says it is process {pid}, which this host does not have or show; does it run in a container?"
        )
    if not any(each in name.lower() for each in _SERVERS):
        raise PlacementError(
            f"the Redis says it is process {pid}, which is {name!r} on this host; does it run in a container?"
        )
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    # proc(5): the 39th field; the second one, in brackets, may hold spaces
    fields = stat.rpartition(")")[2].split()
    if allowed is None or len(fields) < 37:
        raise PlacementError(f"/proc/{pid} does not tell the CPUs of the Redis")
    return Server(pid, frozenset(parse_cpu_list(allowed.group(1))), int(fields[36]))


def is_local(host: str) -> bool:
    """Say whether an address of host is this machine's: only those can be bound to.

    Raises:
        PlacementError: it has no address.
    """
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PlacementError(f"the name {host} cannot be resolved: {error}") from error
    return any(_can_bind(family, kind, address) for family, kind, dummy, dummy, address in found)


def _can_bind(family: int, kind: int, address: t.Any) -> bool:
    with socket.socket(family, kind) as probe:
        try:
            probe.bind(address)
        except OSError:
            return False
    return True


def choose(files: HostFiles, wanted: str | int, server: Server, usable: t.AbstractSet[int], spread: int) -> int:
    """Return the CPU for the client.

    Args:
        files: this host's, for its topology.
        wanted: BESIDE_REDIS, for the CPU on which Redis ran last, or OWN_CPU, for one on which Redis is not.
        server: the Redis.
        usable: CPUs that the client may use.
        spread: any number that differs between the servers of one host, so that their clients get different CPUs.

    Raises:
        PlacementError: there is none.
    """
    if wanted == BESIDE_REDIS:
        shared = server.cpus & usable
        if not shared:
            raise PlacementError(
                f"Redis (process {server.pid}) runs on CPU {text(server.cpus)} and the client may use CPU {text(usable)} only; "
                f"let the client use the CPUs of Redis"
            )
        return server.last_cpu if server.last_cpu in shared else min(shared)
    # A Redis that may run anywhere is taken to stay where it is: the scheduler does not move it to a CPU that is busy.
    free = usable - server.cpus or usable - {server.last_cpu}
    if not free:
        raise PlacementError(
            f"a CPU of its own needs one that Redis is not on; the client may use CPU {text(usable)} only, which Redis "
            f"(process {server.pid}) runs on: give the host a second CPU, or choose another placement"
        )
    best = min(_distance(files, cpu, server.last_cpu) for cpu in free)
    nearest = sorted(cpu for cpu in free if _distance(files, cpu, server.last_cpu) == best)
    return nearest[spread % len(nearest)]


def _distance(files: HostFiles, cpu: int, server_cpu: int) -> tuple[bool, bool]:
    """What speaks against cpu: that it is a thread of the core of Redis, which halves both; that it is on another NUMA node."""
    base = "/sys/devices/system/cpu/cpu"
    siblings = parse_cpu_list(files.text(f"{base}{server_cpu}/topology/thread_siblings_list"))
    node, server_node = (
        [name for name in files.names(f"{base}{each}") if re.match(r"^node\d+$", name)] for each in (cpu, server_cpu)
    )
    return cpu in siblings, node != server_node


def place(files: HostFiles, options: t.Mapping[str, t.Any], ask_pid: t.Callable[[], int | None]) -> int | None:
    """Return the CPU that the client is to be pinned to, or None if it may run on any.

    Args:
        files: this host's.
        options: of the module C(solotest).
        ask_pid: asks the Redis for its process id; called only if the placement depends on it.

    Raises:
        PlacementError: it cannot be placed as asked.
    """
    wanted = cpu_choice("cpu", options["cpu"])
    if wanted == ANY_CPU:
        return None
    if wanted not in (BESIDE_REDIS, OWN_CPU):
        return int(wanted)
    try:
        server = find_server(files, options, ask_pid())
        return choose(
            files, wanted, server, os.sched_getaffinity(0), options["port"] if options["socket"] is None else server.pid
        )
    except PlacementError as error:
        raise PlacementError(
            f"cpu: {wanted} is not possible: {error}. Any Redis can be measured with cpu: any or the number of a CPU"
        ) from None


def describe(
    files: HostFiles, options: t.Mapping[str, t.Any], report: t.Mapping[str, t.Any], pinned: int | None
) -> dict[str, t.Any]:
    """Return where client and Redis were, for the record.

    Args:
        files: this host's.
        options: of the module C(solotest).
        report: the client's.
        pinned: what place() returned.
    """
    health = report["client_health"] or {}
    state = report["server_after"] or report["server_before"] or {}
    client_cpus = health.get("cpus_allowed") or (None if pinned is None else str(pinned))
    try:
        server, unknown = find_server(files, options, state.get("process_id")), None
    except PlacementError as error:
        server, unknown = None, str(error)
    return {
        "requested": cpu_choice("cpu", options["cpu"]),
        "client_cpus": client_cpus,
        "client_last_cpu": health.get("cpu_last"),
        "server_pid": server and server.pid,
        "server_cpus": server and text(server.cpus),
        "server_last_cpu": server and server.last_cpu,
        "shares_cpu": sharing(parse_cpu_list(client_cpus), server.cpus) if server and client_cpus else None,
        "unknown": unknown,
    }


def sharing(client: t.Iterable[int], server: t.Iterable[int]) -> str:
    """Say whether two processes that may run on these CPUs share one: always, never, or possibly."""
    client, server = set(client), set(server)
    if not client & server:
        return "never"
    return "always" if client == server and len(client) == 1 else "possibly"


def text(cpus: t.Iterable[int]) -> str:
    """Return numbers as the kernel lists them, "0-3,8"."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
