# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPUs of the client and of the Redis that it measures.

Placement matters more than any setting of Redis. On the CPU of Redis a request takes a fraction of the time that it
takes across two CPUs, where the other CPU must be woken first (docs/latency-rules.md). So the user can choose the
placement, and every result records it.
"""

from __future__ import annotations

import os
import re
import socket
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, parse_cpu_list
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import (
    ANY_CPU,
    BESIDE_REDIS,
    OWN_CPU,
    cpu_choice,
)

# Process names of servers that speak this protocol. The process id alone is not enough: behind a forwarded port, or
# inside a container, the server's id belongs to another process on this host.
_SERVERS = ("redis", "valkey", "keydb")


class PlacementError(Exception):
    """The CPU that was asked for is not possible. The text says why and what would help."""


class Server(t.NamedTuple):
    """The main thread of a Redis: the CPUs that it may use, and the one that it ran on last."""

    pid: int
    cpus: frozenset[int]
    last_cpu: int


def find_server(files: HostFiles, options: t.Mapping[str, t.Any], pid: int | None) -> Server:
    """Return the CPUs of the Redis whose process id is pid, as this host reports them.

    Args:
        files: of this host.
        options: of the module C(solotest).
        pid: what Redis reports as its process id; None if it does not report one.

    Raises:
        PlacementError: the Redis does not run on this host, or its process cannot be found.
    """
    if options["socket"] is None and not is_local(options["host"]):
        raise PlacementError(f"the Redis at {options['host']} does not run on this host")
    if pid is None:
        raise PlacementError("the Redis does not report its process id; the user needs the right to call INFO")
    name, status, stat = (files.text(f"/proc/{pid}/{each}") for each in ("comm", "status", "stat"))
    if name is None or status is None or stat is None:
        raise PlacementError(
            f"the Redis reports process id {pid}, which does not exist or is hidden on this host; "
            f"does it run in a container?"
        )
    if not any(each in name.lower() for each in _SERVERS):
        raise PlacementError(
            f"the Redis reports process id {pid}, which is {name!r} on this host; does it run in a container?"
        )
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    # proc(5): the 39th field. The second one, in parentheses, may contain spaces.
    fields = stat.rpartition(")")[2].split()
    if allowed is None or len(fields) < 37:
        raise PlacementError(f"/proc/{pid} does not show the CPUs of the Redis")
    return Server(pid, frozenset(parse_cpu_list(allowed.group(1))), int(fields[36]))


def is_local(host: str) -> bool:
    """Check whether an address of host belongs to this machine: only such an address can be bound.

    Raises:
        PlacementError: the name has no address.
    """
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PlacementError(f"the name {host} cannot be resolved: {error}") from error
    return any(_can_bind(family, kind, address) for family, kind, _protocol, _name, address in found)


def _can_bind(family: int, kind: int, address: t.Any) -> bool:
    with socket.socket(family, kind) as attempt:
        try:
            attempt.bind(address)
        except OSError:
            return False
    return True


def choose(files: HostFiles, wanted: str | int, server: Server, usable: t.AbstractSet[int], spread: int) -> int:
    """Return the CPU for the client.

    Args:
        files: of this host, for its topology.
        wanted: BESIDE_REDIS, for the CPU that Redis ran on last, or OWN_CPU, for a CPU without Redis.
        server: the Redis.
        usable: CPUs that the client may use.
        spread: any number that differs between the servers of one host, so that their clients get different CPUs.

    Raises:
        PlacementError: there is no such CPU.
    """
    if wanted == BESIDE_REDIS:
        shared = server.cpus & usable
        if not shared:
            raise PlacementError(
                f"Redis (process {server.pid}) runs on CPU {cpu_list(server.cpus)}, but the client may use only CPU "
                f"{cpu_list(usable)}; let the client use the CPUs of Redis"
            )
        return server.last_cpu if server.last_cpu in shared else min(shared)
    # A Redis that may run anywhere is assumed to stay where it is: the scheduler does not move it to a busy CPU.
    free = usable - server.cpus or usable - {server.last_cpu}
    if not free:
        raise PlacementError(
            f"the client may use only CPU {cpu_list(usable)}, which Redis (process {server.pid}) runs on; "
            f"give the host a second CPU, or choose another placement"
        )
    best = min(_distance(files, cpu, server.last_cpu) for cpu in free)
    nearest = sorted(cpu for cpu in free if _distance(files, cpu, server.last_cpu) == best)
    return nearest[spread % len(nearest)]


def _distance(files: HostFiles, cpu: int, server_cpu: int) -> tuple[bool, bool]:
    """Check whether cpu shares a core with Redis, which slows down both, and whether it is on another NUMA node."""
    base = "/sys/devices/system/cpu/cpu"
    siblings = parse_cpu_list(files.text(f"{base}{server_cpu}/topology/thread_siblings_list"))
    node, server_node = (
        [name for name in files.names(f"{base}{each}") if re.match(r"^node\d+$", name)] for each in (cpu, server_cpu)
    )
    return cpu in siblings, node != server_node


def place(files: HostFiles, options: t.Mapping[str, t.Any], ask_pid: t.Callable[[], int | None]) -> int | None:
    """Return the CPU to pin the client to, or None if it may run on any.

    Args:
        files: of this host.
        options: of the module C(solotest).
        ask_pid: asks Redis for its process id; called only if the placement depends on it.

    Raises:
        PlacementError: the CPU that was asked for is not possible.
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
            f"cpu: {wanted} is not possible: {error}. Use cpu: any or the number of a CPU, which work with every Redis"
        ) from None


def describe(
    files: HostFiles, options: t.Mapping[str, t.Any], report: t.Mapping[str, t.Any], pinned: int | None
) -> dict[str, t.Any]:
    """Return the placement of client and Redis, for the result.

    Args:
        files: of this host.
        options: of the module C(solotest).
        report: of the client.
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
        "server_cpus": server and cpu_list(server.cpus),
        "server_last_cpu": server and server.last_cpu,
        "shares_cpu": sharing(parse_cpu_list(client_cpus), server.cpus) if server and client_cpus else None,
        "unknown": unknown,
    }


def sharing(client: t.Iterable[int], server: t.Iterable[int]) -> str:
    """Check whether two processes that may use these CPUs run on the same one: always, never, or possibly."""
    shared, either = {*client} & {*server}, {*client} | {*server}
    if not shared:
        return "never"
    return "always" if len(either) == 1 else "possibly"


def cpu_list(cpus: t.Iterable[int]) -> str:
    """Return CPU numbers as the kernel writes them, such as "0-3,8"."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
