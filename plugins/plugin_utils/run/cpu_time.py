# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU time of a request: that of Redis, of the client, and of the reclaim that makes room for both.

The processes are read, not the host's idle time. On a machine that is controller, host and fleet at once, Ansible takes
more CPU time around a phase than the load takes in it.
"""

from __future__ import annotations

import typing as t

PARTS = ("redis", "client", "reclaim")

_Document = t.Mapping[str, t.Any]


class CpuTime:
    """Collects the CPU time of a run from its measured phases."""

    def __init__(self) -> None:
        self._requests = 0
        self._seconds: dict[str, float | None] = dict.fromkeys(PARTS, 0.0)

    def add(self, phase: _Document) -> None:
        """Add the document of a phase."""
        if phase["phase"]["kind"] != "iteration":
            return
        for result in phase["hosts"].values():
            self._requests += (result.get("requests") or {}).get("sent") or 0
            self._count("redis", _of_redis(result))
            self._count("client", _of_client(result))
        for document in (phase.get("charged_dram") or {}).values():
            self._count("reclaim", document.get("reclaim_cpu_s", 0.0))

    def _count(self, part: str, seconds: float | None) -> None:
        known = self._seconds[part]
        self._seconds[part] = None if known is None or seconds is None else known + seconds

    def document(self) -> dict[str, t.Any] | None:
        """Return C(cpu) of summary.json; None if no request was sent.

        Returns:
            C(requests), and microseconds for each of them: C(redis_us), C(client_us), C(reclaim_us), each None if it is
            unknown for one host, and their sum, C(total_us), None if one is.
        """
        if not self._requests:
            return None
        shares = {
            f"{part}_us": None if seconds is None else round(1e6 * seconds / self._requests, 2)
            for part, seconds in self._seconds.items()
        }
        known = [value for value in shares.values() if value is not None]
        total = round(sum(known), 2) if len(known) == len(PARTS) else None
        return {"requests": self._requests, **shares, "total_us": total}


def _of_redis(result: _Document) -> float | None:
    """Return the seconds of Redis' main thread between the begin and the end of a client; None if unknown.

    They fall only if another Redis has taken its place.
    """
    server = result.get("server") or {}
    before, after = ((server.get(moment) or {}).get("cpu_s") for moment in ("before", "after"))
    return None if before is None or after is None or after < before else float(after - before)


def _of_client(result: _Document) -> float | None:
    health = result.get("health") or {}
    user, system = health.get("user_s"), health.get("system_s")
    return None if user is None or system is None else float(user + system)
