# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency over the time of a phase: the merged series of the hosts, and a test for a fleet that is still warming up."""

from __future__ import annotations

import math
import statistics
import typing as t

# The trend is tested on the averages of this many blocks: long enough that neighbours hardly depend on each other.
BLOCKS = 12
# Mann and Kendall's z of a fall that chance makes in 1 of 200 phases, and the smallest fall that matters.
_Z = -2.576
_CHANGE = -0.05


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


def trend(series: t.Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
    """Test whether the average fell during the first iteration, which means that the warm-up was too short.

    This is Mann and Kendall's test on the averages of twelve blocks, with the slope of Theil and Sen (P. K. Sen,
    Journal of the American Statistical Association 63, 1968). A single stall affects neither, however long it is.

    Returns:
        C(change) over the whole iteration as a share of its median, C(z), C(too_short); None if the series is too short
        for the test.
    """
    if not series or len(series["points"]) < BLOCKS:
        return None
    points = series["points"]
    edges = [len(points) * number // BLOCKS for number in range(BLOCKS + 1)]
    blocks = [coarser(points[first:end], end - first)[0][1] for first, end in zip(edges, edges[1:])]
    if any(block is None for block in blocks):
        return None
    pairs = [(first, second) for second in range(BLOCKS) for first in range(second)]
    score = sum((blocks[second] > blocks[first]) - (blocks[second] < blocks[first]) for first, second in pairs)
    deviation = math.sqrt(BLOCKS * (BLOCKS - 1) * (2 * BLOCKS + 5) / 18)
    z = (score - math.copysign(1, score)) / deviation if score else 0.0
    slope = statistics.median((blocks[second] - blocks[first]) / (second - first) for first, second in pairs)
    middle = statistics.median(blocks)
    change = slope * (BLOCKS - 1) / middle if middle else 0.0
    return {"change": round(change, 4), "z": round(z, 3), "too_short": z <= _Z and change <= _CHANGE}
