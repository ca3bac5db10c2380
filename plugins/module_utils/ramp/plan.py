# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a ramp on one machine: what the conductor starts, how it is loaded, and when it looks."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    Ranges,
    SettingError,
    choice,
    number,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARRIVALS
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import RANGES as CLIENT

_MIB = 2**20
# By this share a fleet grows once its objective has been missed.
_NEAR = 0.04
# By this share it grows to see whether it meets the objective again.
_LEAP = 0.5

RANGES: Ranges = {
    "budget_bytes": Range(int, 16 * _MIB, 2**50, "bytes"),
    "growth": Range(float, 0.01, 1, "share by which a step is larger than the one before"),
    "window_seconds": Range(int, 1, 3600, "seconds"),
    "window_requests": Range(int, 1, 10**9, "requests"),
    "settle_seconds": Range(float, 1, 600, "seconds"),
    "wait_seconds": Range(float, 0, 86_400, "seconds"),
    "hold_seconds": Range(float, 0, 86_400, "seconds"),
    "touch_seconds": Range(int, 0, 3600, "seconds"),
    "looks": Range(int, 1, 100, "windows"),
    "lease_seconds": Range(float, 2, 3600, "seconds"),
    "stolen_limit": Range(float, 0, 1, "share of the time of a CPU"),
    "written_bytes": Range(int, _MIB, 2**60, "bytes"),
    "port": Range(int, 1, 65_535, "port"),
    "size": Range(int, 1, 10_000, "servers"),
    "factor": Range(float, 1, 1e6, "times"),
    "microseconds": Range(float, 0.001, 1e9, "microseconds"),
}
# A ramp has a rate and a number of keys that one machine can carry many times, and always some GETs.
LOAD: Ranges = {
    "rate": Range(float, 0.1, 1e6, "requests per second"),
    "keys": Range(int, 1, 10**9, "keys"),
    "read_mix": Range(int, 0, 100, "percent of GETs"),
    **{name: CLIENT[name] for name in ("value_size", "influence", "compressibility")},
}
OBJECTIVES = ("relative", "absolute")
DEFAULTS: dict[str, t.Any] = {
    "references": [],
    "tier": [],
    "sizes": [],
    "growth": 0.1,
    "window_seconds": 4,
    "window_requests": 2000,
    "settle_seconds": 15.0,
    "wait_seconds": 300.0,
    "hold_seconds": 0.0,
    "touch_seconds": 0,
    "looks": 5,
    "lease_seconds": 30.0,
    "stolen_limit": 0.0025,
    "written_bytes": 2**31,
    "objective": None,
    "user": "",
    "redis": "redis-server",
    "image": "",
    "password": "",
}
_NUMBERS = (
    "budget_bytes",
    "growth",
    "window_seconds",
    "window_requests",
    "settle_seconds",
    "wait_seconds",
    "hold_seconds",
    "touch_seconds",
    "looks",
    "lease_seconds",
    "stolen_limit",
    "written_bytes",
)
# As podman takes it: a registry, a path, a tag or a digest. No option begins like this.
IMAGE = re.compile(r"[A-Za-z0-9][\w./:@-]*", re.ASCII)
_KEYS = {*DEFAULTS, "budget_bytes", "servers", "load", "client"}


class Server(t.NamedTuple):
    """A server that takes part in a ramp.

    Attributes:
        name: of the server, and of its VM.
        port: of its Redis.
        address: of its VM; empty for a process of the machine itself.
    """

    name: str
    port: int
    address: str = ""


class Plan(t.NamedTuple):
    """A checked plan.

    Attributes:
        servers: those that may join, in this order.
        references: those outside of the budget.
        budget_bytes: what group and compressed memory may hold together.
        tier: the swap areas that belong to what is measured; without one, the group may not swap.
        sizes: how many servers each of the first steps has; without any, first_size() gives the first.
        growth: the share by which each further step is larger.
        window_seconds, window_requests: the least of a window.
        settle_seconds: the longest time until reclaim is steady.
        wait_seconds: how long a ramp waits for a quiet machine, altogether.
        hold_seconds: how long it stays at its last size.
        touch_seconds: how long it looks at it after that, when all servers are touched at once; 0 to leave that out.
        looks: the most windows in a row at one size while they are disturbed.
        lease_seconds: the ramp ends if the controller has not renewed its lease for so long.
        stolen_limit: a window in which a CPU lost a larger share is disturbed.
        written_bytes: the most that a ramp may write to drives.
        load: rate, value_size, keys, influence, read_mix, compressibility, arrivals.
        objective: C(kind) V(absolute) with C(avg_us) and C(p99_us), or V(relative): the fleet at most C(factor) times
            as slow as the references, and these as idle DRAM: windows of at most C(fits) servers show that, until then
            C(plateau) says it, if it is known. None to end by nothing but capacity.
        user: who the servers run as; empty for the user of this process.
        redis, client: the programs.
        image: of the containers that the servers are; empty for plain processes.
        password: of the Redis in the VMs.
    """

    servers: tuple[Server, ...]
    references: tuple[Server, ...]
    budget_bytes: int
    tier: tuple[str, ...]
    sizes: tuple[int, ...]
    growth: float
    window_seconds: int
    window_requests: int
    settle_seconds: float
    wait_seconds: float
    hold_seconds: float
    touch_seconds: int
    looks: int
    lease_seconds: float
    stolen_limit: float
    written_bytes: int
    load: t.Mapping[str, t.Any]
    objective: t.Mapping[str, t.Any] | None
    user: str
    redis: str
    client: str
    image: str
    password: str

    @property
    def has_vms(self) -> bool:
        """Whether its servers are VMs."""
        return bool(self.servers[0].address)

    @property
    def has_drive(self) -> bool:
        """Whether its tier is not only compressed memory."""
        return bool(drives(self.tier))


def drives(tier: t.Iterable[str]) -> list[str]:
    """Return the swap areas of a tier that are not compressed memory."""
    return [name for name in tier if not os.path.basename(name).startswith("zram")]


def checked(plan: t.Mapping[str, t.Any]) -> Plan:
    """Return a plan.

    Raises:
        SettingError: an option is missing, unknown or out of range.
    """
    unknown = sorted(set(plan) - _KEYS)
    missing = sorted(_KEYS - set(DEFAULTS) - set(plan))
    if unknown or missing:
        raise SettingError(f"plan: {', '.join(unknown or missing)}: {'unknown' if unknown else 'is missing'}")
    given = {**DEFAULTS, **plan}
    servers, references = (_servers(name, given[name]) for name in ("servers", "references"))
    if not servers:
        raise SettingError("servers: the list is empty; it must have at least one server")
    _refuse_twice(servers + references)
    sizes = tuple(number("sizes", size, RANGES["size"]) for size in given["sizes"])
    if list(sizes) != sorted(set(sizes)) or (sizes and sizes[-1] > len(servers)):
        raise SettingError(f"sizes: {list(sizes)} is not allowed; they must ascend, to at most {len(servers)} servers")
    numbers: dict[str, t.Any] = {name: number(name, given[name], RANGES[name]) for name in _NUMBERS}
    return Plan(
        servers=servers,
        references=references,
        tier=tuple(map(str, given["tier"])),
        sizes=sizes,
        load=_load(given["load"]),
        objective=_objective(given["objective"]),
        user=str(given["user"]),
        redis=str(given["redis"]),
        client=str(given["client"]),
        image=_image(given["image"], servers),
        password=str(given["password"]),
        **numbers,
    )


def _servers(option: str, given: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[Server, ...]:
    return tuple(
        Server(
            str(each["name"]),
            number(f"{option}.port", each["port"], RANGES["port"]),
            _address(option, each.get("address", "")),
        )
        for each in given
    )


def _address(option: str, text: t.Any) -> str:
    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError:
        raise SettingError(f"{option}.address: {text!r} is not allowed; it must be an IP address") from None


def _image(text: t.Any, servers: t.Sequence[Server]) -> str:
    if text and not IMAGE.fullmatch(str(text)):
        raise SettingError(f"image: {text!r} is not allowed; it must be a name such as docker.io/library/redis:7")
    if text and servers[0].address:
        raise SettingError("image: is for containers, and these servers have addresses, as VMs do")
    return str(text)


def _refuse_twice(servers: t.Sequence[Server]) -> None:
    if len({bool(server.address) for server in servers}) > 1:
        raise SettingError("servers, references: some have an address, as VMs do, and others have none")
    places = [f"{server.address} {server.port}".strip() for server in servers]
    for name, values in (("name", [server.name for server in servers]), ("port", places)):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise SettingError(f"servers, references: the {name} {twice[0]} occurs twice; each must have its own")


def _load(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    if set(given) != {*LOAD, "arrivals"}:
        raise SettingError(f"load: {', '.join(sorted(given))} is not allowed; it must have {', '.join(LOAD)}, arrivals")
    numbers = {name: number(f"load.{name}", given[name], allowed) for name, allowed in LOAD.items()}
    return {**numbers, "arrivals": choice("load.arrivals", given["arrivals"], ARRIVALS)}


def _objective(given: t.Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
    if not given:
        return None
    kind = choice("objective.kind", given.get("kind"), OBJECTIVES)
    if kind == "absolute":
        return {"kind": kind, **_limits("objective", given)}
    plateau = given.get("plateau")
    return {
        "kind": kind,
        "factor": number("objective.factor", given.get("factor"), RANGES["factor"]),
        "plateau": _plateau(plateau) if plateau else None,
    }


def _plateau(given: t.Mapping[str, t.Any]) -> dict[str, float]:
    figures = _limits("objective.plateau", given)
    return {**figures, "fits": number("objective.plateau.fits", given.get("fits"), RANGES["size"])}


def _limits(option: str, given: t.Mapping[str, t.Any]) -> dict[str, float]:
    names = ("avg_us", "p99_us")
    return {name: number(f"{option}.{name}", given.get(name), RANGES["microseconds"]) for name in names}


def first_size(budget_bytes: int, charged_bytes: int, filled: int, most: int) -> int:
    """Return the size of the first step: half of what fits in DRAM, as the first servers show.

    Args:
        budget_bytes: of the ramp.
        charged_bytes: what these servers are charged.
        filled: how many there are.
        most: as many as there may be.
    """
    fits = budget_bytes * filled / max(1, charged_bytes)
    return max(filled, min(most, round(fits / 2)))


def grown(size: int, growth: float, most: int) -> int | None:
    """Return the size of the next step, None after the last one. A whole server is the smallest step."""
    return None if size >= most else min(most, max(size + 1, round(size * (1 + growth))))


def following(plan: Plan, size: int, near: bool, leap: bool) -> int | None:
    """Return the size of the next step, None after the last one.

    Args:
        near: whether the last clean window has missed the objective, so that the end is near. A coarse step beyond it
            takes most of a minute, since the budget can hardly be met there, and says nothing.
        leap: whether it must be much larger, to see whether the objective is met there again.
    """
    if leap:
        return grown(size, _LEAP, len(plan.servers))
    planned = [each for each in plan.sizes if each > size]
    wanted = planned[0] if planned else grown(size, plan.growth, len(plan.servers))
    close = grown(size, _NEAR, len(plan.servers))
    return min(wanted, close) if near and wanted and close else wanted


def window_seconds(plan: Plan, size: int) -> int:
    """Return how long a window is: whole seconds, long enough for the requests of the fleet."""
    return max(plan.window_seconds, math.ceil(plan.window_requests / (size * plan.load["rate"])))
