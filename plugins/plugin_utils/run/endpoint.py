# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redis endpoint before a run: how it and its observer are called in the results, and its state."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import number, yes_or_no
from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import RANGES


def name(client: t.Mapping[str, t.Any]) -> str:
    """Return the name of an endpoint: its address, or its Unix socket.

    TLS costs time, so a run without it is another one, and its scheme is a part of the name. Certificates change no
    latency.

    Args:
        client: options of the module C(solotest).

    Raises:
        SettingError: tls is neither true nor false.
    """
    if client.get("socket"):
        return str(client["socket"])
    host = str(client["host"])
    scheme = "rediss://" if yes_or_no("latency_benchmark_tls", client.get("tls", False)) else ""
    return f"{scheme}{f'[{host}]' if ':' in host else host}:{client['port']}"


def observer(given: t.Mapping[str, t.Any] | None, client: t.Mapping[str, t.Any]) -> dict[str, t.Any] | None:
    """Return the observer of an endpoint, with the name of the endpoint as the observer reaches it; None without one.

    Args:
        given: C(name), C(host), by which it reaches the Redis, and C(rate).
        client: options of the module C(solotest) on the host itself.

    Raises:
        SettingError: the rate is not allowed.
    """
    if not given:
        return None
    return {
        "name": given["name"],
        "endpoint": name({**client, "host": given["host"], "socket": None}),
        "rate": number("latency_benchmark_observer_rate", given["rate"], RANGES["rate"]),
    }


def state(answer: dict[str, t.Any], known: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the state of an endpoint as C(endpoint), or why it did not answer.

    Args:
        answer: of the module C(solotest_schedule) with C(state=asked).
        known: what is known of the endpoint already.

    Raises:
        MeasurementError: the answer does not fit.
    """
    measured = measurement.result(answer)
    found = measured.pop("solotest", None)
    accepted = {**measured, "changed": False}
    if found and not accepted.get("failed"):
        accepted["endpoint"] = {
            "redis_version": found["server"]["before"].get("redis_version"),
            "kernel": found["kernel"] or {},
            "machine": found["machine"],
            "keys": found["server"]["before"].get("dbsize"),
            "memory": _memory(found),
            "wall_offset": found["wall_offset"],
            **known,
        }
    return accepted


def _memory(found: t.Mapping[str, t.Any]) -> dict[str, int] | None:
    """Return the free memory of the host, and the memory of its Redis; None if the Redis is on another host."""
    free = found.get("memory")
    if not free or not (found.get("placement") or {}).get("server_pid"):
        return None
    return {
        "free_bytes": free["available_bytes"] + free["swap_free_bytes"],
        "used_bytes": found["server"]["before"].get("used_memory") or 0,
    }
