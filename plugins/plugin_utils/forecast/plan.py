# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a study: how many servers or VMs fit under each profile, and how long the study takes.

Everything here is arithmetic on the records of the hosts. docs/plan.md has the assumptions and how far measurements
were off.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.vm.admission import OVERHEAD
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.memory import (
    COMPRESSED_REST,
    DoesNotFit,
    HostMemory,
    Server,
    compression,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.records import GUEST_SYSTEM_BYTES, data_bytes
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.text import REDIS, UNIT, VM, answer
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.watched import Watched
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import described_by

FITS, NO_FIT, UNKNOWN = "fits", "does not fit", "unknown"
# A fleet on several hosts has the verdict of the worst of them.
_WORST_LAST = (FITS, UNKNOWN, NO_FIT)

_Document = t.Mapping[str, t.Any]


def make(
    load: _Document, phases: t.Sequence[_Document], machines: t.Mapping[str, _Document], options: _Document
) -> dict[str, t.Any]:
    """Return the plan; docs/plan.md explains it.

    Args:
        load: of a run's configuration.
        phases: of the run.
        machines: for each host that carries the fleet its C(record) (host_memory_info) and C(arms): by profile
            C(tuned), C(swap), C(areas), C(refused), C(needs), C(sysctl), C(sysfs), C(dram_budget).
        options: fleet_sizes, vm_memory (None unless they are VMs), server_bytes (of a Redis as it was measured, or
            None), measured_by (what measured it), watched (the fleet that headroom saw, or None), overhead,
            overhead_used, host_reserve, rounds, phase_overhead_seconds, run_overhead_seconds.

    Raises:
        SettingError: a size cannot be parsed.
    """
    server, watched = _server(load, options), options["watched"]
    profiles = [
        _Profile(profile, load, machines, server, options["host_reserve"], watched)
        for profile in next(iter(machines.values()))["arms"]
    ]
    are_vms = watched.are_vms if watched else server.is_vm
    document = {
        "load": dict(load),
        "server": {
            "kind": VM if are_vms else UNIT if watched else REDIS,
            "bytes": round(server.bytes),
            "resident_bytes": round(server.resident),
            "measured_by": options["measured_by"],
            "watched": len(watched.members) if watched else None,
            "waiting_percent": 100 * watched.waiting if watched else None,
        },
        "compression": round(1 / server.compressed, 2),
        "machines": {
            name: {"memory_bytes": each["record"]["memory"]["total_bytes"]} for name, each in machines.items()
        },
        "capacity": {profile.name: profile.capacity() for profile in profiles},
        "fleets": [profile.fleet(size) for profile in profiles for size in options["fleet_sizes"]],
        "duration": _duration(phases, len(profiles), options),
        "notes": sorted(
            {note for profile in profiles for note in profile.notes} | set(watched.notes if watched else ())
        ),
    }
    return {**described_by("plan"), "answer": answer(document), **document}


def _server(load: _Document, options: _Document) -> Server:
    """Return one of the fleet. A VM takes its whole memory sooner or later: its kernel uses what is left for files."""
    if options["watched"]:
        return t.cast("Watched", options["watched"]).server
    if options["vm_memory"]:
        resident = max(options["overhead_used"], GUEST_SYSTEM_BYTES)
        return Server(options["vm_memory"] + OVERHEAD, resident, compression(load), True)
    records = data_bytes(load["key_count"], load["value_size"])
    size = options["server_bytes"] or records + options["overhead"]
    resident = min(size, options["overhead_used"])
    return Server(size, resident, _compressed(load, records, max(0, size - resident - records)), False)


def _compressed(load: _Document, records: float, rest: float) -> float:
    """Return what the pages of a Redis take in zram and zswap, as a share: those of its records, and the rest."""
    share = compression(load)
    return share if share == 1 else (share * records + COMPRESSED_REST * rest) / (records + rest)


def _duration(phases: t.Sequence[_Document], profiles: int, options: _Document) -> dict[str, t.Any]:
    run = (
        sum(phase["seconds"] + options["phase_overhead_seconds"] for phase in phases) + options["run_overhead_seconds"]
    )
    runs = profiles * options["rounds"] * len(options["fleet_sizes"])
    return {"phases": len(phases), "run_seconds": round(run), "runs": runs, "seconds": round(run * runs)}


class _Profile:
    """The machines under one profile; the fleet is spread evenly over all of them."""

    def __init__(
        self,
        name: str,
        load: _Document,
        machines: t.Mapping[str, _Document],
        server: Server,
        reserve: str,
        watched: Watched | None,
    ) -> None:
        self.name, self._server, self._watched = name, server, watched
        compressed = server.compressed if watched else None
        self._hosts = [
            HostMemory(host, each["record"], each["arms"][name], load, reserve, compressed)
            for host, each in machines.items()
        ]
        self.notes = [note for host in self._hosts for note in host.notes]

    def capacity(self) -> dict[str, t.Any]:
        """Return how many fit.

        Returns:
            C(servers), None if it is unknown; C(ended_by), why there are not more; C(budget_bytes), the DRAM budget of
            each machine, None without one or with several; C(within_waiting), how many of a fleet that headroom saw
            wait for page-ins no longer than they may, None if that is unknown.
        """
        budgets = {host.budget for host in self._hosts}
        found: dict[str, t.Any] = {
            "budget_bytes": budgets.pop() if len(budgets) == 1 else None,
            "within_waiting": None,
        }
        unknown = [host.unknown for host in self._hosts if host.unknown]
        if unknown:
            return {"servers": None, "ended_by": unknown[0], **found}
        limit = RANGES["fleet_sizes"].high // len(self._hosts)
        servers, ended_by = min(host.most(self._server, int(limit)) for host in self._hosts)
        if self._watched:
            quick = [self._watched.most(host, servers) for host in self._hosts]
            if None not in quick:
                found["within_waiting"] = min(t.cast("list[int]", quick)) * len(self._hosts)
        return {"servers": servers * len(self._hosts), "ended_by": ended_by, **found}

    def fleet(self, size: int) -> dict[str, t.Any]:
        """Return whether a fleet of this size fits, on the machine where it fits worst."""
        found = [self._on(host, math.ceil(size / len(self._hosts))) for host in self._hosts]
        worst = max(
            found,
            key=lambda each: (_WORST_LAST.index(each["verdict"]), each["waiting_percent"] or 0, -each["dram_bytes"]),
        )
        return {"profile": self.name, "size": size, **worst}

    def _on(self, host: HostMemory, size: int) -> dict[str, t.Any]:
        verdict, reasons = FITS, []
        try:
            host.check(size, self._server)
        except DoesNotFit as error:
            verdict, reasons = NO_FIT, [str(error)]
        else:
            if host.unknown:
                verdict, reasons = UNKNOWN, [host.unknown]
        misses = self._watched.misses(host, size) if self._watched and verdict == FITS else None
        return {
            "machine": host.name,
            "on_machine": size,
            "needs_bytes": round(size * self._server.bytes),
            "dram_bytes": round(host.dram),
            "tier": host.kind,
            "tier_bytes": round(host.capacity),
            "page_ins_per_second": round(misses.page_ins, 1) if misses else None,
            "waiting_percent": round(100 * misses.waiting, 3) if misses else None,
            "verdict": verdict,
            "reasons": reasons,
        }
