# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports of a density: a table as CSV, and OpenMetrics for the textfile collector of Prometheus' node_exporter."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.csv_table import table

_Document = t.Mapping[str, t.Any]
_METRIC = "memstretch_density"
_POINT = ("profile", "round", "hosts", "kind", "disturbed", "settled")
_FIGURES = ("avg_us", "p99_us", "requests")
_BOUNDS = ("upper", "lower", "punctual")


def windows_csv(answer: _Document) -> str:
    """Return one line for each window. A field is empty if its figure is unknown."""
    columns = [(who, bound, figure) for who in ("fleet", "references") for bound in _BOUNDS for figure in _FIGURES]
    header = (*_POINT, *("_".join(column) for column in columns), "page_ins_per_second", "charged_bytes")
    rows = []
    for arm in answer["arms"]:
        for ramp in arm["rounds"]:
            for point in ramp["points"]:
                figures = [point[who].get(bound, {}).get(figure) for who, bound, figure in columns]
                row = (arm["name"], ramp["round"], point["size"], point["kind"], point["disturbed"], point["settled"])
                rows.append((*row, *figures, point["page_ins_per_second"], point["charged_bytes"]))
    return table(header, rows)


def open_metrics(answer: _Document, timestamp: float) -> str:
    """Return the densities and the ends of their intervals as gauges, with the time at which they were measured.

    See https://prometheus.io/docs/specs/om/open_metrics_spec/. An end that is not known has no sample.

    Args:
        timestamp: seconds since the epoch.
    """
    samples: dict[str, list[str]] = {_METRIC: [], f"{_METRIC}_bound": []}
    for arm in answer["arms"]:
        if arm["density"] is None:
            continue
        profile = _escaped(arm["name"])
        samples[_METRIC].append(f'{_METRIC}{{profile="{profile}"}} {arm["density"]} {timestamp:.3f}')
        for bound, value in zip(("low", "high"), arm["interval"] or ()):
            if value is not None:
                labels = f'profile="{profile}",bound="{bound}"'
                samples[f"{_METRIC}_bound"].append(f"{_METRIC}_bound{{{labels}}} {value} {timestamp:.3f}")
    helps = {
        _METRIC: "The largest fleet that meets the objective.",
        f"{_METRIC}_bound": "Ends of the 95 % interval of the density.",
    }
    lines = []
    for name, values in samples.items():
        if values:
            lines += [f"# TYPE {name} gauge", f"# HELP {name} {helps[name]}", *values]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
