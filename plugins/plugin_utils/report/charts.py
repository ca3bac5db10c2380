# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the charts of a report are drawn from: the files of a run, thinned so that a thousand hosts still fit into a page."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram, highest_of
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, time_series
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import CellDetails

# A curve has so many points for each factor of ten on its axis.
CURVE_STEPS = 24
# Of each cell so many hosts are drawn: those that are furthest from the SLO, and every n-th of the others by their rank.
WORST_HOSTS = 100
OTHER_HOSTS = 100
# The heat map has so many rows; of a larger fleet it shows the worst.
HEAT_HOSTS = 60
# A time series of the whole run has at most so many points.
SERIES_POINTS = 4000


class RunCharts:
    """Collects the phases of a run. Of each it keeps a few KB and one number a host."""

    def __init__(self) -> None:
        self.phases: list[dict[str, t.Any]] = []

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        """Take a phase as its file holds it."""
        phase, hosts = document["phase"], document["hosts"]
        merged = document.get("merged")
        example = next(iter(hosts.values()), {})
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
                "response": merged and {name: merged["response"][name] for name in ("avg_us", "p99_us", "max_us")},
                "series": time_series.merged(hosts.values()),
                "pressure": _pressure(document["pressure"].values()),
                "p99_us": {name: each["latency"]["response"]["p99_us"] for name, each in hosts.items()}
                if merged
                else {},
                "client": example.get("client"),
                "server": (example.get("server") or {}).get("after"),
                "steal_ticks": sum((each.get("health") or {}).get("steal_ticks") or 0 for each in hosts.values()),
            }
        )

    def document(self, summary: t.Mapping[str, t.Any], details: t.Mapping[str, CellDetails]) -> dict[str, t.Any]:
        """Return what the page's script draws."""
        cells = []
        for cell in summary["cells"]:
            name = configuration.cell_name(cell)
            cells.append(
                {
                    "name": name,
                    "title": cell_title(cell),
                    "curves": {
                        latency: curve(details[name].merged[latency]) for latency in ("response", "service", "intended")
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
        """Return the p99 of hosts in each measured phase."""
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
        """Return latency and memory pressure over the time under load: phases one after another, without the pauses between."""
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
                }
            )
            start += phase["seconds"]
        return {"phases": found}


def cell_title(cell: t.Mapping[str, t.Any]) -> str:
    """Return a cell in words."""
    return f"influence {cell['influence']:g}, {cell['read_mix']:g} % GET"


def curve(histogram: Histogram) -> list[list[float]]:
    """Return points [1 / (1 - share of the samples below or at), microseconds] of a histogram.

    On a logarithmic axis 10, 100, 1000 are the percentiles 90, 99, 99.9. All curves have their points at the same places, so that one
    can be read beside the other; the last point is the maximum.
    """
    total, seen, points = histogram.count, 0, []
    if not total:
        return []
    slots = iter(sorted(histogram.counts))
    value = 0
    for number in range(int(CURVE_STEPS * math.log10(total)) + 1):
        place = 10 ** (number / CURVE_STEPS)
        while seen < max(1, math.ceil(total - total / place)):
            slot = next(slots)
            seen += histogram.counts[slot]
            value = min(highest_of(slot), histogram.max_ns)
        points.append((place, value if number else histogram.min_ns))
    return [[short(place), short(value / 1000)] for place, value in [*points, (total, histogram.max_ns)]]


def short(value: float | None) -> float | None:
    """Return a value with four digits: more cannot be seen, and makes the page larger."""
    return None if value is None else float(f"{value:.4g}")


def distance(host: t.Mapping[str, t.Any], slo: t.Mapping[str, t.Any]) -> float:
    """Return by how much a host misses the SLO: more than 1 is a miss."""
    return max(host["avg_us"] / slo["avg_us"], host["p99_us"] / slo["p99_us"])


def _thinned(hosts: t.Sequence[t.Mapping[str, t.Any]], slo: t.Mapping[str, t.Any]) -> list[list[t.Any]]:
    """Return name, average, p99, maximum of the hosts that are drawn, the worst first."""
    ranked = sorted(hosts, key=lambda host: distance(host, slo), reverse=True)
    rest = ranked[WORST_HOSTS:]
    shown = ranked[:WORST_HOSTS] + rest[:: max(1, -(-len(rest) // OTHER_HOSTS))]
    return [[host["name"], short(host["avg_us"]), short(host["p99_us"]), short(host["max_us"])] for host in shown]


def _seconds(document: t.Mapping[str, t.Any]) -> float:
    return (
        (document["finished_at"] - document["started_at"])
        if document["started_at"] and document["finished_at"]
        else 0.0
    )


def _pressure(machines: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, float | None]:
    """Return what the kernels said about memory in a phase: sums over the machines, but the highest share of stalled time."""
    machines = [each for each in machines if each.get("counters", {}).get("clock_s")]

    def rate(*names: str) -> float | None:
        known = [each["counters"] for each in machines if any(name in each["counters"] for name in names)]
        return sum(sum(each.get(name, 0) for name in names) / each["clock_s"] for each in known) if known else None

    def share(name: str) -> float | None:
        return max(
            (
                each["counters"][name] / each["counters"]["clock_s"] / 10_000
                for each in machines
                if name in each["counters"]
            ),
            default=None,
        )

    def after(name: str) -> float | None:
        known = [each["gauges"][name][1] for each in machines if name in each["gauges"]]
        return sum(known) / 1e6 if known else None

    return {
        "page_ins": rate("pswpin", "zswpin"),
        "page_outs": rate("pswpout", "zswpout"),
        "major_faults": rate("pgmajfault"),
        "psi_memory": share("psi_memory_some_us"),
        "psi_io": share("psi_io_some_us"),
        "swap_used_mb": after("swap_used_bytes"),
        "available_mb": after("mem_available_bytes"),
    }
