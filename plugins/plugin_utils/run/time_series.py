# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency over the time of a phase: the merged series of the hosts."""

from __future__ import annotations

import typing as t


def merged(hosts: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, t.Any] | None:
    """Merge the series of hosts.

    Returns:
        C(interval) in seconds, and C(points): count, average, the highest p99 of a host, and maximum, the last three in
        microseconds. None if no host has a series.
    """
    total: list[list[float]] = []
    interval = None
    for host in hosts:
        series = host.get("series")
        if not series or (interval is not None and series["interval_s"] != interval):
            continue
        interval = series["interval_s"]
        for number, (count, average, p99, maximum) in enumerate(series["points"]):
            if number == len(total):
                total.append([0, 0, 0, 0])
            point = total[number]
            point[0] += count
            point[1] += count * average
            point[2] = max(point[2], p99)
            point[3] = max(point[3], maximum)
    if interval is None:
        return None
    return {
        "interval": interval,
        "points": [[count, whole / count if count else None, p99, top] for count, whole, p99, top in total],
    }


def coarser(points: t.Sequence[t.Sequence[t.Any]], step: int) -> list[list[t.Any]]:
    """Return points with each group of C(step) points merged into one."""
    found = []
    for first in range(0, len(points), step):
        part = points[first : first + step]
        count = sum(point[0] for point in part)
        average = sum(point[0] * point[1] for point in part if point[0]) / count if count else None
        found.append([count, average, max(point[2] for point in part), max(point[3] for point in part)])
    return found
