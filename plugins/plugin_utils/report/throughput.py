# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the throughput of one large Redis is shown."""

from __future__ import annotations

import itertools
import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Chart, Section, Table, origin
from ansible_collections.memstretch.density.plugins.plugin_utils.run.confidence import (
    PAIRS_FOR_AN_INTERVAL,
    PairedRatio,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.throughput import comparison, figures

TITLE = "Throughput of one large Redis"
# The figures of the source, operations per second under dram and under imdt (Intel's hypervisor that shows SSDs as
# memory), by case, operation, and the power of ten of the size of its values.
SOURCE: dict[comparison.Key, tuple[int | None, int | None]] = {
    ("sequential", "SET", 3): (224_530, 159_887),
    ("sequential", "GET", 3): (232_694, 180_684),
    ("sequential", "SET", 4): (122_382, 90_300),
    ("sequential", "GET", 4): (157_918, 133_625),
    ("sequential", "SET", 5): (16_177, 13_217),
    ("sequential", "GET", 5): (23_134, 20_917),
    ("random", "SET", 3): (215_800, None),
    ("random", "GET", 3): (229_631, None),
    ("cold", "SET", 3): (None, 58_377),
    ("cold", "GET", 3): (None, 61_206),
    ("hot", "SET", 3): (None, 184_604),
    ("hot", "GET", 3): (None, 196_066),
}


# What is said first; the table has the others.
_FIRST = ("hot data", "cold data")


def throughput_benchmark(document: t.Mapping[str, t.Any]) -> Section:
    """Return the section of the experiment throughput_benchmark."""
    arms = {name: document["hosts"][name] for name in document["expected"] if name in document["hosts"]}
    found, controls = comparison.ratios(arms), comparison.controls(arms)
    tables = [_cases_table(arms)]
    if found:
        tables.insert(0, _ratios_table(found))
    if controls:
        tables.append(_control_table(controls))
    curves = {name: points for name, points in ((name, comparison.curve(arm)) for name, arm in arms.items()) if points}
    if curves:
        tables.append(_curves_table(curves))
    return Section(
        "throughput_benchmark",
        TITLE,
        [*_evidence(arms), *_left_out(arms), *_control(controls), *_circumstances(arms), *_origins(arms)],
        _doubts(arms, controls),
        tables,
        [_curves_chart(curves)] if curves else [],
        _answer(found, arms),
    )


def _answer(found: t.Sequence[comparison.Ratio], arms: comparison.Arms) -> str:
    """State in one sentence what each arm reaches of the first one, with hot and cold data if these were measured."""
    texts = []
    for arm, of_arm in itertools.groupby(found, key=lambda each: each.arm):
        all_of_arm = list(of_arm)
        first = [each for each in all_of_arm if each.comparison.words in _FIRST] or all_of_arm
        parts = []
        for words, of_words in itertools.groupby(first, key=lambda each: each.comparison.words):
            each = list(of_words)
            texts_of_ops = [_percent(ratio.found) + (f" of the {ratio.op}s" if len(each) > 1 else "") for ratio in each]
            parts.append(f"{' and '.join(texts_of_ops)} for {words}")
        texts.append(f"{arm} reaches " + ", ".join(parts))
    if texts:
        return f"Of the operations per second of {found[0].baseline}, {'; '.join(texts)}."
    names = ", ".join(arms)
    return f"There is nothing to compare: {names or 'no profile'} was measured, and a comparison needs two profiles."


def _percent(found: PairedRatio) -> str:
    """Return a ratio as text, such as "27 % (25 to 30)"."""
    text = f"{100 * found.value:.0f} %"
    if not found.interval:
        return f"{text} (indicative)"
    return f"{text} ({100 * found.interval[0]:.0f} to {100 * found.interval[1]:.0f})"


def _ratio(found: PairedRatio | None) -> str:
    if found is None:
        return "-"
    text = f"{found.value:.2f}"
    return text if not found.interval else f"{text} ({found.interval[0]:.2f} to {found.interval[1]:.2f})"


def _ratios_table(found: t.Sequence[comparison.Ratio]) -> Table:
    rows = [
        (
            each.comparison.words,
            each.op,
            each.arm,
            _percent(each.found),
            "-" if each.comparison.source is None else f"{each.comparison.source:.0%}".replace("%", " %"),
            str(each.found.rounds),
        )
        for each in found
    ]
    headings = ("", "op", "profile", f"of {found[0].baseline} (95 % interval)", "source, imdt", "rounds")
    return Table(f"throughput compared with {found[0].baseline}, in the words of the source", headings, rows)


def _cases_table(arms: comparison.Arms) -> Table:
    """Return the figures of each case under each arm, next to those of the source."""
    headings = (
        "case",
        "op",
        "value bytes",
        "profile",
        "ops/s (lowest to highest round)",
        "x first",
        "seconds",
        "p99 ms",
        "max ms",
        "Redis CPU",
        "client CPU",
        "limit",
        "page-ins per 1,000 requests",
        "source: dram ops/s",
        "source: imdt ops/s",
    )
    found = {name: comparison.cases(arm) for name, arm in arms.items()}
    keys = list(dict.fromkeys(key for by_case in found.values() for key in by_case))
    first = next(iter(arms), None)
    rows = []
    for key in keys:
        for name, by_case in found.items():
            if key in by_case:
                base = found[first].get(key) if first and name != first else None
                pairs = comparison.are_paired(arms[name], arms[first]) if first else False
                rows.append(_case_row(key, name, by_case[key], base, pairs))
    return Table("throughput of one Redis under full load", headings, rows)


def _case_row(
    key: comparison.Key,
    arm: str,
    rounds: t.Mapping[int, t.Mapping[str, t.Any]],
    first: t.Mapping[int, t.Mapping[str, t.Any]] | None,
    paired: bool,
) -> tuple[str, ...]:
    case, op, size = key
    mine = list(rounds.values())
    shares = [each["redis_cpu_share"] for each in mine if each["redis_cpu_share"] is not None]
    of_client = [each["client_cpu_share"] for each in mine if each["client_cpu_share"] is not None]
    of_source = SOURCE.get((case, op, round(math.log10(size))), (None, None))
    return (
        case,
        op,
        f"{size:,}",
        arm,
        _spread([each["ops_per_second"] for each in mine]),
        _ratio(comparison.ratio(comparison.rates(rounds), comparison.rates(first), paired)) if first else "-",
        f"{min(each['seconds'] for each in mine):,.1f}",
        f"{statistics.median(each['p99_ms'] for each in mine):,.2f}",
        f"{max(each['max_ms'] for each in mine):,.1f}",
        f"{min(shares):.2f}" if shares else "-",
        f"{max(of_client):.2f}" if of_client else "-",
        ", ".join(sorted({each["limit"] for each in mine})),
        f"{comparison.page_ins_per_1000(mine):,.1f}",
        *("-" if value is None else f"{value:,}" for value in of_source),
    )


def _spread(values: t.Sequence[float]) -> str:
    """Return the geometric mean of rounds with the lowest and the highest one."""
    mean = f"{statistics.geometric_mean(values):,.0f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):,.0f} to {max(values):,.0f})"


def _control_table(controls: t.Sequence[comparison.Control]) -> Table:
    rows = [
        (
            each.key[0],
            each.key[1],
            f"{each.key[2]:,}",
            each.arm,
            each.baseline,
            _ratio(each.found),
            "yes" if each.holds_1 else "NO",
        )
        for each in controls
    ]
    headings = ("case", "op", "value bytes", "profile", "compared with", "ratio (95 % interval)", "includes 1")
    return Table("control: cases that moved no page, on the same kernel", headings, rows)


def _control(controls: t.Sequence[comparison.Control]) -> list[str]:
    if not controls:
        return [
            "There is no control: no case ran under two profiles of one kernel without moving a page in each round."
        ]
    held = sum(each.holds_1 for each in controls)
    verdict = "they do not differ" if comparison.control_holds(controls) else "THEY DIFFER"
    return [
        f"Control: {len(controls)} cases moved no page to or from swap, so their ratios must be 1; {held} of "
        f"{len(controls)} intervals include 1, and judged together {verdict}."
    ]


def _evidence(arms: comparison.Arms) -> list[str]:
    """Count how many pages the cold and the hot requests of each arm brought back."""
    found = []
    for name, arm in arms.items():
        by_case = comparison.cases(arm)
        rates = {
            case: comparison.page_ins_per_1000(
                each for key, rounds in by_case.items() if key[0] == case for each in rounds.values()
            )
            for case in ("cold", "hot")
            if any(key[0] == case for key in by_case)
        }
        if rates:
            parts = [f"{rate:,.1f} page-ins per 1,000 {case} requests" for case, rate in rates.items()]
            found.append(f"{name}: {', '.join(parts)}.")
    return found


def _left_out(arms: comparison.Arms) -> list[str]:
    """List the cases that an arm had no room for."""
    found = []
    for name, arm in arms.items():
        left_out = {
            f"{each['case']} {each['op']}": each["bytes"] for part in arm["rounds"] for each in part["left_out"]
        }
        if left_out:
            needed = size_text(max(left_out.values()))
            found.append(f"{name}: left out, because Redis would need {needed}: {', '.join(left_out)}.")
    return found


def _circumstances(arms: comparison.Arms) -> list[str]:
    """List what else differs between arms, and whether there are too few rounds for intervals."""
    found = []
    if not comparison.has_intervals(arms):
        found.append(f"Indicative: fewer than {PAIRS_FOR_AN_INTERVAL} rounds give no interval.")
    what = (
        ("host", "hosts"),
        ("kernel", "kernels"),
        ("cpu", "processors"),
        ("redis_version", "versions of Redis"),
        ("settings", "settings of the load"),
    )
    for name, words in what:
        values = [str(each.get(name)) for arm in arms.values() for each in arm["rounds"]]
        if len(set(values)) > 1:
            shown = "" if name == "settings" else f" ({', '.join(dict.fromkeys(values))})"
            found.append(f"The profiles were measured with different {words}{shown}.")
    return found


def _origins(arms: comparison.Arms) -> list[str]:
    """Return the place and time of the measurements: a sentence for each host."""
    by_host: dict[str, list[t.Mapping[str, t.Any]]] = {}
    for arm in arms.values():
        for each in arm["rounds"]:
            if each.get("date"):
                by_host.setdefault(each["host"], []).append(each)
    found = []
    for host, rounds in by_host.items():
        first = min(rounds, key=lambda each: each["date"])
        stolen = [each["stolen"] for each in rounds if each["stolen"] is not None]
        facts = {
            "date": first["date"],
            "cpu_model": first["cpu"],
            "kernel": first["kernel"],
            "stolen": statistics.fmean(stolen) if stolen else None,
        }
        prefix = f"{host}: " if len(by_host) > 1 else ""
        found += [f"{prefix}{text}" for text in origin({"origin": facts}, f"Redis {first['redis_version']}")]
    return found


def _doubts(arms: comparison.Arms, controls: t.Sequence[comparison.Control]) -> list[str]:
    found = []
    if comparison.control_holds(controls) is False:
        found.append("the control differs: profiles that moved no page have different throughput, so the site is noisy")
    for number, (name, arm) in enumerate(arms.items()):
        if number and not comparison.is_cold(arm):
            found.append(
                f"{name}: cold requests paged nothing in, or next to nothing, so all data fitted into DRAM; raise the "
                f"stretch"
            )
        found += [f"{name}, {text}" for text in figures.doubts(arm["rounds"])]
    return found


def _curves_table(curves: t.Mapping[str, t.Sequence[tuple[float, t.Sequence[float]]]]) -> Table:
    """Return about twelve points of each curve."""
    rows = [
        (f"{used / 1e6:,.0f}", name, _spread(rates))
        for name, points in curves.items()
        for used, rates in points[:: max(1, len(points) // 12)]
    ]
    return Table(
        "new keys written in sequence: SETs per second against memory in use",
        ("memory in use, MB", "profile", "SETs/s (lowest to highest round)"),
        rows,
    )


def _curves_chart(curves: t.Mapping[str, t.Sequence[tuple[float, t.Sequence[float]]]]) -> Chart:
    return Chart(
        "throughput_benchmark-curve",
        "SETs per second against memory in use while new keys are written in sequence, a line for each profile; the "
        "table below has points of it",
        "memory in use, MB",
        "SETs per second",
        [
            {
                "name": name,
                "points": [
                    [round(used / 1e6, 1), round(statistics.geometric_mean(rates), 1)] for used, rates in points
                ],
            }
            for name, points in curves.items()
        ],
    )
