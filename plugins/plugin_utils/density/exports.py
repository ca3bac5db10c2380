# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports of a density: a table as CSV, and OpenMetrics for the textfile collector of Prometheus' node_exporter."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import open_metrics as metrics
from ansible_collections.memstretch.density.plugins.plugin_utils.report.csv_table import table

_Document = t.Mapping[str, t.Any]
_POINT = ("profile", "round", "hosts", "kind", "disturbed", "settled")
_FIGURES = ("avg_us", "p99_us", "requests")
_BOUNDS = ("upper", "lower", "punctual")
_MACHINE = ("page_ins_per_second", "charged_bytes", "memory_some_share")
_LATENCIES = {"avg_us": "average", "p99_us": "p99"}


def windows_csv(answer: _Document) -> str:
    """Return one line for each window. A field is empty if its figure is unknown."""
    columns = [(who, bound, figure) for who in ("fleet", "references") for bound in _BOUNDS for figure in _FIGURES]
    header = (*_POINT, *("_".join(column) for column in columns), *_MACHINE)
    rows = []
    for arm in answer["arms"]:
        for ramp in arm["rounds"]:
            for point in ramp["points"]:
                figures = [point[who].get(bound, {}).get(figure) for who, bound, figure in columns]
                row = (arm["name"], ramp["round"], point["size"], point["kind"], point["disturbed"], point["settled"])
                rows.append((*row, *figures, *(point[name] for name in _MACHINE)))
    return table(header, rows)


def open_metrics(answer: _Document, timestamp: float) -> str:
    """Return the densities, the ends of their intervals, and the state of the largest fleet that meets the objective.

    What is not known has no sample.

    Args:
        timestamp: when the density was measured, in seconds since the epoch.
    """
    arms = [arm for arm in answer["arms"] if arm["density"] is not None]
    machine = {"machine": answer["definition"]["on"]} if "on" in answer["definition"] else {}
    named = {arm["name"]: {"profile": arm["name"], **machine} for arm in arms}
    at_density = {arm["name"]: _at_density(arm) for arm in arms}
    return metrics.document(
        [
            metrics.family(
                "density",
                "The largest fleet that meets the objective.",
                [(named[arm["name"]], arm["density"]) for arm in arms],
            ),
            metrics.family(
                "density_bound",
                "Ends of the 95 % interval of the density.",
                [
                    ({**named[arm["name"]], "bound": bound}, value)
                    for arm in arms
                    for bound, value in zip(("low", "high"), arm["interval"] or ())
                ],
            ),
            metrics.family(
                "density_measured_timestamp_seconds",
                "When the density was measured, since the epoch.",
                [(named[arm["name"]], round(timestamp, 3)) for arm in arms],
                unit="seconds",
            ),
            metrics.family(
                "density_charged_bytes",
                "DRAM that the fleet was charged near its density.",
                [(named[name], at["charged_bytes"]) for name, at in at_density.items()],
                unit="bytes",
            ),
            metrics.family(
                "density_page_ins_per_second",
                "Page-ins of the fleet near its density.",
                [(named[name], at["page_ins_per_second"]) for name, at in at_density.items()],
            ),
            metrics.family(
                "density_memory_pressure_ratio",
                "Share of the time in which some task waited for memory (PSI) near the density.",
                [(named[name], at["memory_some_share"]) for name, at in at_density.items()],
            ),
            metrics.family(
                "density_latency_seconds",
                "Latency of a fleet of this density, the median of the windows.",
                [
                    ({**named[arm["name"]], "figure": text}, round(arm["latency"][figure] / 1e6, 9))
                    for arm in arms
                    for figure, text in _LATENCIES.items()
                ],
                unit="seconds",
            ),
            metrics.cost_family("density_vm_cost_per_month", answer.get("cost"), named.__getitem__),
        ]
    )


def _at_density(arm: _Document) -> dict[str, float | None]:
    """Return the medians over the windows of the largest fleet that is not larger than the density."""
    points = [point for ramp in arm["rounds"] for point in ramp["points"] if point["size"] <= arm["density"]]
    size = max((point["size"] for point in points), default=0)
    near = [point for point in points if point["size"] == size]
    found: dict[str, float | None] = {}
    for name in _MACHINE:
        known = [point[name] for point in near if point[name] is not None]
        found[name] = statistics.median(known) if known else None
    return found
