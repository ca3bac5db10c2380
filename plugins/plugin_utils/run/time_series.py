# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency over the time of a phase: the merged series of the hosts."""

from __future__ import annotations

import operator
import typing as t


def merged(hosts: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, t.Any] | None:
    """Merge the series of hosts.

    Returns:
        C(interval) in seconds, and C(points): count, average, the highest p99 of a host, and maximum, the last three in
        microseconds. None if no host has a series.
    """
    rows: list[list[t.Sequence[float]]] = []
    interval = None
    for host in hosts:
        series = host.get("series")
        if not series or (interval is not None and series["interval_s"] != interval):
            continue
        interval = series["interval_s"]
        rows += [[] for _new in range(len(series["points"]) - len(rows))]
        for row, point in zip(rows, series["points"]):
            row.append(point)
    return None if interval is None else {"interval": interval, "points": [_merged(row) for row in rows]}


def _merged(points: t.Sequence[t.Sequence[float]]) -> list[t.Any]:
    """Return one point of the series of several hosts."""
    counts, averages, p99, maxima = zip(*points)
    total = sum(counts)
    average = sum(map(operator.mul, counts, averages)) / total if total else None
    return [total, average, max(p99), max(maxima)]


def coarser(points: t.Sequence[t.Sequence[t.Any]], step: int) -> list[list[t.Any]]:
    """Return points with each group of C(step) points merged into one."""
    found = []
    for first in range(0, len(points), step):
        part = points[first : first + step]
        count = sum(point[0] for point in part)
        average = sum(point[0] * point[1] for point in part if point[0]) / count if count else None
        found.append([count, average, max(point[2] for point in part), max(point[3] for point in part)])
    return found
