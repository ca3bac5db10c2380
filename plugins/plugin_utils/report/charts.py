# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of the charts on a run's page, thinned so that a thousand hosts fit on one page."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram, highest_of
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, pressure, time_series
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import LOWER, UPPER, slo_ratio
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import CellDetails

# Points of a percentile curve for each factor of ten on its axis.
CURVE_STEPS = 24
# The hosts that are drawn for each cell: the worst ones, and an even sample of the others.
WORST_HOSTS = 100
OTHER_HOSTS = 100
# Rows of the heat map; if the fleet is larger, the worst hosts are shown.
HEAT_HOSTS = 60
# Ticks of a second in /proc/stat (USER_HZ), the same on all architectures that the client runs on.
TICKS_PER_SECOND = 100
# The largest number of points in the time series of a whole run.
SERIES_POINTS = 4000


class RunCharts:
    """Collects the phases of a run. It keeps a few KB of each phase, and one number for each of its hosts."""

    def __init__(self) -> None:
        self.phases: list[dict[str, t.Any]] = []

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        """Add the document of a phase."""
        phase, hosts = document["phase"], document["hosts"]
        merged = document.get("merged")
        example: t.Mapping[str, t.Any] = next(iter(hosts.values()), {})
        self.phases.append(
            {
                **{name: phase.get(name) for name in ("index", "of", "kind", "iteration")},
                "title": configuration.describe(phase),
                "cell": None if phase["kind"] == "fill" else configuration.cell_name(phase),
                **{name: document[name] for name in ("valid", "reasons", "overlap")},
                "rate": document.get("achieved_rate_ratio"),
                "hosts": len(hosts),
                "expected": len(document["expected"]),
                "seconds": _seconds(document),
                "latency": merged and {name: merged[UPPER][name] for name in ("avg_us", "p99_us", "max_us")},
                "series": time_series.merged(hosts.values()),
                "pressure": pressure.figures(pressure.of_carrying_machines(document)),
                "p99_us": {name: each["latency"][UPPER]["p99_us"] for name, each in hosts.items()} if merged else {},
                "client": example.get("client"),
                "stolen": _stolen_share(document),
                "over_time": _over_time(document),
            }
        )

    def document(self, summary: t.Mapping[str, t.Any], details: t.Mapping[str, CellDetails]) -> dict[str, t.Any]:
        """Return the data that the script of the page draws."""
        cells = []
        for cell in summary["cells"]:
            name = configuration.cell_name(cell)
            cells.append(
                {
                    "name": name,
                    "title": configuration.cell_title(cell),
                    "curves": {
                        latency: curve(details[name].merged[latency])
                        for latency in (UPPER, LOWER, "response", "service")
                    },
                    "hosts": _thinned(details[name].hosts, summary["slo"]),
                    "of": len(details[name].hosts),
                }
            )
        return {
            "kind": "run",
            "slo": summary["slo"],
            "cells": cells,
            "heat": self._heat(summary["slo"]),
            "time": self._time(),
        }

    def _heat(self, slo: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the data of the heat map: the p99 of hosts in each measured phase."""
        phases = [phase for phase in self.phases if phase["kind"] == "iteration"]
        worst: dict[str, float] = {}
        for phase in phases:
            for name, value in phase["p99_us"].items():
                worst[name] = max(worst.get(name, 0), value or 0)
        names = sorted(sorted(worst, key=worst.__getitem__, reverse=True)[:HEAT_HOSTS])
        return {
            "hosts": names,
            "of": len(worst),
            "phases": [phase["title"] for phase in phases],
            "rows": [[short(phase["p99_us"].get(name)) for phase in phases] for name in names],
            "slo_us": slo["p99_us"],
        }

    def _time(self) -> dict[str, t.Any]:
        """Return latency and memory pressure over the time under load, without the pauses between phases."""
        phases = [phase for phase in self.phases if phase["kind"] != "fill" and phase["seconds"]]
        step = max(1, -(-sum(len(phase["series"]["points"]) for phase in phases if phase["series"]) // SERIES_POINTS))
        start, found = 0.0, []
        for phase in phases:
            points = time_series.coarser(phase["series"]["points"], step) if phase["series"] else []
            found.append(
                {
                    "title": phase["title"],
                    "kind": phase["kind"],
                    "cell": phase["cell"],
                    "valid": phase["valid"],
                    "start": round(start, 3),
                    "end": round(start + phase["seconds"], 3),
                    "interval": phase["series"] and phase["series"]["interval"] * step,
                    "points": [[short(value) for value in point[1:]] for point in points],
                    "pressure": {name: short(value) for name, value in phase["pressure"].items()},
                    "over_time": phase["over_time"],
                }
            )
            start += phase["seconds"]
        return {"phases": found}


def curve(histogram: Histogram) -> list[list[float | None]]:
    """Return points [1 / (1 - share of the samples at or below), microseconds] of a histogram.

    On a logarithmic axis 10, 100, 1000 are the percentiles 90, 99, 99.9. All curves have their points at the same
    places, so they can be compared point by point; the last point is the maximum.
    """
    total, seen = histogram.count, 0
    lowest, highest = histogram.min_ns or 0, histogram.max_ns or 0
    if not total:
        return []
    points: list[tuple[float, int]] = []
    slots = iter(sorted(histogram.counts))
    value = 0
    for number in range(int(CURVE_STEPS * math.log10(total)) + 1):
        place = 10 ** (number / CURVE_STEPS)
        while seen < max(1, math.ceil(total - total / place)):
            slot = next(slots)
            seen += histogram.counts[slot]
            value = min(highest_of(slot), highest)
        points.append((place, value if number else lowest))
    return [[short(place), short(value / 1000)] for place, value in [*points, (total, highest)]]


def short(value: float | None) -> float | None:
    """Return a value with four digits; more would not be visible and would make the page larger."""
    return None if value is None else float(f"{value:.4g}")


def _thinned(hosts: t.Sequence[t.Mapping[str, t.Any]], slo: t.Mapping[str, t.Any]) -> list[list[t.Any]]:
    """Return name, average, p99, maximum, lower bound of the p99 and answer of the hosts to draw, the worst first."""
    ranked = sorted(hosts, key=lambda host: slo_ratio(host, slo), reverse=True)
    rest = ranked[WORST_HOSTS:]
    shown = ranked[:WORST_HOSTS] + rest[:: max(1, -(-len(rest) // OTHER_HOSTS))]
    return [
        [
            host["name"],
            *(short(host[name]) for name in ("avg_us", "p99_us", "max_us")),
            short(host["lower"]["p99_us"]),
            host["answer"],
        ]
        for host in shown
    ]


def _over_time(document: t.Mapping[str, t.Any]) -> dict[str, list[float | None]] | None:
    """Return the series of the recorders of the carrying machines; None if one of them saw nothing.

    Sums over the machines, but the highest share of stalled time, as in pressure.figures(). Recorders take their
    samples at the same times, so rows with the same number belong together.

    Returns:
        C(ends), the seconds of the phase at which each row ends; C(page_ins) per second, C(psi_memory) and C(psi_io) in
        percent, and C(charged_mb), for each row.
    """
    recorded = pressure.recorded_by_carriers(document)
    if not recorded or not document["started_at"]:
        return None
    # The first sample comes before the phase. Its time is known from how long ago it was when the answer came, so it
    # may look later.
    late = min(0.0, recorded[0]["started_at"] - document["started_at"])
    rows = list(zip(*(each["rows"] for each in recorded)))
    return {
        "ends": [round(machines[0][0] + late, 2) for machines in rows],
        "page_ins": [short(pressure.total(row[1] for row in machines)) for machines in rows],
        "psi_memory": [_times(pressure.highest(row[2] for row in machines), 100) for machines in rows],
        "psi_io": [_times(pressure.highest(row[3] for row in machines), 100) for machines in rows],
        "charged_mb": [_times(pressure.total(row[6] for row in machines), 1e-6) for machines in rows],
    }


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else short(value * factor)


def _seconds(document: t.Mapping[str, t.Any]) -> float:
    """Return the duration of a phase; 0 if it has no results."""
    started, finished = document["started_at"], document["finished_at"]
    return finished - started if started and finished else 0.0


def _stolen_share(document: t.Mapping[str, t.Any]) -> float:
    """Return the CPU time that a hypervisor stole from a host, as a share of the time of one of its CPUs.

    The ticks are those of all CPUs of a machine, so no CPU lost a larger share. It is that of the worst host.
    """
    ticks = max(((each.get("health") or {}).get("steal_ticks") or 0 for each in document["hosts"].values()), default=0)
    seconds = _seconds(document)
    return ticks / TICKS_PER_SECOND / seconds if seconds else 0.0
