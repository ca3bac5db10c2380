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
    origin,
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
    answers: list[str] = []
    sentences: list[str] = []
    doubts: list[str] = []
    tables: list[Table] = []
    charts: list[Chart] = []
    for host, result, prefix in hosts(document):
        answers.append(f"{prefix}{_answer(result['pairs'])}")
        texts = [_channels_share(result["theory"]), _link_share(result["link"]), *result["notes"], *result["warnings"]]
        sentences += [f"{prefix}{text}." for text in texts]
        sentences += [f"{prefix}{text}" for text in origin(result, "membw")]
        doubts += [f"{prefix}{text}" for text in result["doubts"]]
        tables += [
            _source_table(prefix, result),
            _node_table(prefix, result["pairs"]),
            _readers_table(prefix, result["readers"]),
        ]
        charts.append(_readers_chart(f"memory_bandwidth-{len(charts)}", host, prefix, result["readers"]))
    title = "Memory bandwidth between NUMA nodes"
    return Section("memory_bandwidth", title, sentences, doubts, tables, charts, answer=" ".join(answers))


def _answer(pairs: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """State what local memory delivers, and what the way to another node costs, in one sentence."""
    local = [pair for pair in pairs if pair["local"] and pair["highest"]]
    remote = [pair for pair in pairs if not pair["local"] and pair["ratio"]["single"] and pair["ratio"]["latency"]]
    if not local:
        return "No node has both CPUs and memory, so there is no local bandwidth."
    best = max(pair["highest"]["median"] for pair in local) / 1e9
    text = f"CPUs read the memory of their own node at up to {best:,.1f} GB/s"
    if not remote:
        return f"{text}; there is no other node to compare with."
    worst = min(remote, key=lambda pair: pair["ratio"]["single"])
    return (
        f"{text}; from the farthest node one reader gets {worst['ratio']['single']:.0%} of that of a local one, at "
        f"{worst['ratio']['latency']:.2f} times the latency."
    )


def _link_share(link: t.Mapping[str, t.Any]) -> str:
    if link["share"] is None:
        return f"the share of the socket link is unknown: {link['reason']}"
    return (
        f"the best reading across nodes, {link['highest'] / 1e9:,.1f} GB/s, is {link['share']:.0%} of the link's "
        f"{link['bytes_per_second'] / 1e9:,.1f} GB/s"
    )


def _source_table(prefix: str, result: t.Mapping[str, t.Any]) -> Table:
    """Return the source's figures next to ours."""
    pairs, theory, link = result["pairs"], result["theory"], result["link"]
    local = next((pair for pair in pairs if pair["local"]), None)
    remote = next((pair for pair in pairs if not pair["local"]), None)
    ours = (
        (median(local and local["single"], 1e9), f"channels: {_percent(theory['share'])}, with all readers"),
        (
            median(remote and remote["single"], 1e9),
            f"{ratio(remote['ratio']['single'])} x local" if remote else "no other node",
        ),
        (
            median(remote and remote["highest"], 1e9),
            f"link: {_percent(link['share'])}, with the best number of readers",
        ),
    )
    rows = [(*source, *here) for source, here in zip(_SOURCE, ours)]
    headings = ("readers", "source GB/s", "source's share", "here GB/s", "share here")
    return Table(f"{prefix}next to the source", headings, rows)


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"


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
