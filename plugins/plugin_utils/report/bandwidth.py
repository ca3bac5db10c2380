# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section of the experiment memory_bandwidth."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import (
    Chart,
    Section,
    Table,
    hosts,
    median,
    ratio,
    series,
)


# The source: two Xeon E5606 (2011), one channel of DDR3-1066 per socket, one reader of one word of each line.
_SOURCE = (
    ("local, 1 reader", "8.14", "95 % of the channel"),
    ("remote, 1 reader", "6.9", "0.85 x local"),
    ("remote, 3 readers", "8.3", "86 % of the link"),
)


def memory_bandwidth(document: t.Mapping[str, t.Any]) -> Section:
    """Return the section of the experiment memory_bandwidth."""
    sentences: list[str] = []
    doubts: list[str] = []
    tables: list[Table] = []
    charts: list[Chart] = []
    for host, result, prefix in hosts(document):
        sentences.append(f"{prefix}{_channels_share(result['theory'])}.")
        sentences += [f"{prefix}{text}." for text in (*result["notes"], *result["warnings"])]
        doubts += [f"{prefix}{text}" for text in result["doubts"]]
        tables += [_node_table(prefix, result["pairs"]), _readers_table(prefix, result["readers"])]
        charts.append(_readers_chart(f"memory_bandwidth-{len(charts)}", host, prefix, result["readers"]))
    return Section("memory_bandwidth", "Memory bandwidth between NUMA nodes", sentences, doubts, tables, charts)


def _channels_share(theory: t.Mapping[str, t.Any]) -> str:
    if theory["share"] is None:
        return f"the share of the channels' bandwidth is unknown: {theory['reason']}"
    return (
        f"the memory was read at {theory['share']:.0%} of the bandwidth of its {theory['channels']} channels "
        f"({theory['bytes_per_second'] / 1e9:,.1f} GB/s)"
    )


def _node_table(prefix: str, pairs: t.Sequence[t.Mapping[str, t.Any]]) -> Table:
    headings = (
        "processors",
        "memory",
        "1 reader GB/s",
        "best GB/s",
        "latency ns",
        "1 reader x local",
        "best x local",
        "latency x local",
    )
    rows = [
        (
            f"node {pair['cpu_node']}",
            f"node {pair['memory_node']}",
            median(pair["single"], 1e9),
            median(pair["highest"], 1e9),
            median(pair["latency_ns"], 1, 1),
            *(ratio(pair["ratio"][name]) for name in ("single", "highest", "latency")),
        )
        for pair in pairs
    ]
    return Table(f"{prefix}memory of each node read by the processors of each node", headings, rows)


def _readers_table(prefix: str, readers: t.Sequence[t.Mapping[str, t.Any]]) -> Table:
    rows = [
        (
            f"node {row['cpu_node']}",
            f"node {row['memory_node']}",
            str(row["readers"]),
            median(row["bytes_per_second"], 1e9),
        )
        for row in readers
    ]
    return Table(f"{prefix}growth with the number of readers", ("processors", "memory", "readers", "GB/s"), rows)


def _readers_chart(name: str, host: str, prefix: str, readers: t.Sequence[t.Mapping[str, t.Any]]) -> Chart:
    lines: dict[str, list[list[float]]] = {}
    for row in readers:
        line = lines.setdefault(f"{prefix}CPUs of {row['cpu_node']}, memory of {row['memory_node']}", [])
        line.append([row["readers"], round(row["bytes_per_second"]["median"] / 1e9, 3)])
    return Chart(
        name,
        f"Bandwidth of {host} by the number of readers; the table below has the same figures",
        "readers",
        "GB/s",
        series(lines),
    )
