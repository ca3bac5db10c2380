# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the throughput of one large Redis is shown."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils import throughput as throughput_figures
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Chart, Section, Table


def throughput_benchmark(document: t.Mapping[str, t.Any]) -> Section:
    """Return the section of the experiment throughput_benchmark."""
    results = {name: document["hosts"][name] for name in document["expected"] if name in document["hosts"]}
    sentences = [
        f"{ratio['words']}: {ratio['profile']} reaches {ratio['ratio']:.0%} of the {ratio['op']}s per second of "
        f"{ratio['baseline']}."
        for ratio in throughput_figures.ratios(results)
    ]
    doubts = [f"{name}: {text}" for name, result in results.items() for text in result["doubts"]]
    curves = [(name, each["curve"]) for name, result in results.items() for each in result["cases"] if each["curve"]]
    tables, charts = [_cases_table(results)], []
    if curves:
        tables.append(_curves_table(curves))
        charts.append(
            Chart(
                "throughput_benchmark-curve",
                "SETs per second against memory in use, a line for each profile; the table below has points of it",
                "MB in use",
                "SETs/s",
                [
                    {"name": name, "points": [[round(used / 1e6, 1), rate] for used, rate in curve]}
                    for name, curve in curves
                ],
            )
        )
    return Section("throughput_benchmark", "Throughput of one large Redis", sentences, doubts, tables, charts)


def _cases_table(results: t.Mapping[str, t.Mapping[str, t.Any]]) -> Table:
    """Return the figures of each case under each profile."""
    headings = (
        "case",
        "op",
        "value bytes",
        "profile",
        "ops/s",
        "x first",
        "p99 ms",
        "max ms",
        "Redis CPU",
        "page-ins/s",
    )
    found = {
        name: {(each["case"], each["op"], each["value_size"]): each for each in result["cases"]}
        for name, result in results.items()
    }
    cases = list(dict.fromkeys(case for by_case in found.values() for case in by_case))
    rows = []
    for case in cases:
        first = next(iter(found.values())).get(case)
        for name, by_case in found.items():
            if case in by_case:
                rows.append(_case_row(name, by_case[case], first))
    return Table("throughput of one Redis under full load", headings, rows)


def _case_row(profile: str, each: t.Mapping[str, t.Any], first: t.Mapping[str, t.Any] | None) -> tuple[str, ...]:
    return (
        each["case"],
        each["op"],
        f"{each['value_size']:,}",
        profile,
        f"{each['ops_per_second']:,.0f}",
        f"{each['ops_per_second'] / first['ops_per_second']:.2f}" if first else "-",
        f"{each['p99_ms']:,.2f}",
        f"{each['max_ms']:,.1f}",
        _share(each["redis_cpu_share"]),
        f"{each['page_ins_per_second']:,.0f}",
    )


def _curves_table(curves: t.Sequence[tuple[str, t.Sequence[tuple[float, float]]]]) -> Table:
    """Return about twelve points of each curve."""
    rows = [
        (f"{used / 1e6:,.0f}", name, f"{rate:,.0f}")
        for name, curve in curves
        for used, rate in curve[:: max(1, len(curve) // 12)]
    ]
    return Table("SETs per second against memory in use", ("memory in use, MB", "profile", "SETs/s"), rows)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
