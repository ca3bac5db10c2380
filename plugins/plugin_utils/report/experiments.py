# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The experiments beside the latency of a fleet: one JSON file each in a directory of results, and how it is shown.

An experiment's view turns its document into one section, which the terminal and the page show alike: sentences, tables (all
cells are text) and charts of lines.
"""

from __future__ import annotations

import dataclasses
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils import throughput as throughput_figures
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEMA,
    RunDirectory,
    RunError,
    check_space,
    compact_utc,
)


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text below headings; the first column names the row."""

    title: str
    headings: t.Sequence[str]
    rows: t.Sequence[t.Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Chart:
    """Lines, each with C(name) and C(points), pairs of numbers. C(label) says what a reader without eyes must know."""

    name: str
    label: str
    x: str
    y: str
    series: t.Sequence[t.Mapping[str, t.Any]]
    log_x: bool = False


@dataclasses.dataclass(frozen=True)
class Section:
    """What people are shown of one experiment."""

    name: str
    title: str
    sentences: t.Sequence[str]
    doubts: t.Sequence[str]
    tables: t.Sequence[Table]
    charts: t.Sequence[Chart]


def directory_for(experiment: str, results_dir: str, run_id: str | None) -> RunDirectory:
    """Return where the result of an experiment goes: into the run of that name, or into a directory of its own.

    Raises:
        RunError: there is one already, or there is no room.
    """
    check_space(results_dir, 4)
    directory = RunDirectory(results_dir, run_id or f"{experiment}-{compact_utc(time.time())}")
    if os.path.lexists(directory.file(f"{experiment}.json")):
        raise RunError(
            f"run_id: {directory.path} holds a result of {experiment} already; choose another run_id, or remove {experiment}.json there"
        )
    if directory.exists() and not os.path.exists(directory.file("run.json")) and not documents(directory):
        raise RunError(f"run_id: {directory.path} exists and holds no run; choose another run_id")
    return directory


def keep(directory: RunDirectory, experiment: str, document: t.Mapping[str, t.Any]) -> None:
    """Write the result of an experiment."""
    os.makedirs(directory.path, exist_ok=True)
    directory.write_json(f"{experiment}.json", {**document, "schema": SCHEMA, "experiment": experiment})


def documents(directory: RunDirectory) -> dict[str, dict[str, t.Any]]:
    """Return the results of experiments in a directory, by name.

    Raises:
        RunError: one is damaged.
    """
    names = [name for name in EXPERIMENTS if os.path.exists(directory.file(f"{name}.json"))]
    return {name: directory.read_json(f"{name}.json") for name in names}


def sections(directory: RunDirectory) -> list[Section]:
    """Return what people are shown of all experiments in a directory."""
    return [EXPERIMENTS[name](document) for name, document in documents(directory).items()]


def _median(figures: t.Mapping[str, float] | None, unit: float = 1, digits: int = 2) -> str:
    """Return the median with the range of the repetitions."""
    if figures is None:
        return "-"
    median, low, high = (f"{figures[name] / unit:,.{digits}f}" for name in ("median", "min", "max"))
    return median if low == high else f"{median} ({low} to {high})"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _hosts(document: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, dict[str, t.Any], str]]:
    """Yield each host with its result and what to put before its name's place in a title: nothing if it is the only one."""
    for host, result in document["hosts"].items():
        yield host, result, f"{host}: " if len(document["hosts"]) > 1 else ""


def memory_bandwidth(document: t.Mapping[str, t.Any]) -> Section:
    """Return the matrix of nodes, the growth with readers, and what sits on the wrong node."""
    sentences, doubts, tables, charts = [], [], [], []
    for host, result, prefix in _hosts(document):
        theory = result["theory"]
        if theory["share"] is not None:
            sentences.append(
                f"{prefix}the memory was read at {theory['share']:.0%} of what its {theory['channels']} channels could give "
                f"({theory['bytes_per_second'] / 1e9:,.1f} GB/s)."
            )
        else:
            sentences.append(f"{prefix}the share of the channels' bandwidth is not known: {theory['reason']}.")
        sentences += [f"{prefix}{text}." for text in (*result["notes"], *result["warnings"])]
        doubts += [f"{prefix}{text}" for text in result["doubts"]]
        tables.append(
            Table(
                f"{prefix}memory of each node read by the processors of each",
                (
                    "processors",
                    "memory",
                    "1 reader GB/s",
                    "best GB/s",
                    "latency ns",
                    "1 reader x local",
                    "best x local",
                    "latency x local",
                ),
                [
                    (
                        f"node {pair['cpu_node']}",
                        f"node {pair['memory_node']}",
                        _median(pair["single"], 1e9),
                        _median(pair["highest"], 1e9),
                        _median(pair["latency_ns"], 1, 1),
                        *(_share(pair["ratio"][name]) for name in ("single", "highest", "latency")),
                    )
                    for pair in result["pairs"]
                ],
            )
        )
        tables.append(
            Table(
                f"{prefix}growth with the number of readers",
                ("processors", "memory", "readers", "GB/s"),
                [
                    (
                        f"node {row['cpu_node']}",
                        f"node {row['memory_node']}",
                        str(row["readers"]),
                        _median(row["bytes_per_second"], 1e9),
                    )
                    for row in result["readers"]
                ],
            )
        )
        lines: dict[str, list[list[float]]] = {}
        for row in result["readers"]:
            lines.setdefault(f"{prefix}CPUs of {row['cpu_node']}, memory of {row['memory_node']}", []).append(
                [row["readers"], round(row["bytes_per_second"]["median"] / 1e9, 3)]
            )
        charts.append(
            Chart(
                f"memory_bandwidth-{len(charts)}",
                f"Bandwidth of {host} by the number of readers; the table below has the same in numbers",
                "readers",
                "GB/s",
                [{"name": name, "points": points} for name, points in lines.items()],
            )
        )
    return Section("memory_bandwidth", "Memory bandwidth between NUMA nodes", sentences, doubts, tables, charts)


def throughput_benchmark(document: t.Mapping[str, t.Any]) -> Section:
    """Return the table of cases under each profile, the curve of SETs against memory in use, and the ratios to the first profile."""
    results = {name: document["hosts"][name] for name in document["expected"] if name in document["hosts"]}
    cases = list(
        dict.fromkeys(
            (each["case"], each["op"], each["value_size"]) for result in results.values() for each in result["cases"]
        )
    )
    found = {
        name: {(each["case"], each["op"], each["value_size"]): each for each in result["cases"]}
        for name, result in results.items()
    }
    sentences = [
        f"{ratio['words']} {ratio['ratio']:.0%} of {ratio['baseline']} ({ratio['op']}, {ratio['profile']})."
        for ratio in throughput_figures.ratios(results)
    ]
    figures = Table(
        "one Redis driven as fast as it goes",
        ("case", "op", "value bytes", "profile", "ops/s", "x first", "p99 ms", "max ms", "Redis CPU", "page-ins/s"),
        [
            (
                case,
                op,
                f"{size:,}",
                name,
                f"{each['ops_per_second']:,.0f}",
                _times(each, found[next(iter(results))].get((case, op, size))),
                f"{each['p99_ms']:,.2f}",
                f"{each['max_ms']:,.1f}",
                _share(each["redis_cpu_share"]),
                f"{each['page_ins_per_second']:,.0f}",
            )
            for case, op, size in cases
            for name in results
            for each in [found[name].get((case, op, size))]
            if each
        ],
    )
    curves = [(name, each["curve"]) for name, result in results.items() for each in result["cases"] if each["curve"]]
    points = Table(
        "SETs per second against memory in use",
        ("memory in use, MB", "profile", "SETs/s"),
        [
            (f"{used / 1e6:,.0f}", name, f"{rate:,.0f}")
            for name, curve in curves
            for used, rate in curve[:: max(1, len(curve) // 12)]
        ],
    )
    chart = Chart(
        "throughput_benchmark-curve",
        "SETs per second against memory in use, a line for each profile; the table below has points of it in numbers",
        "MB in use",
        "SETs/s",
        [{"name": name, "points": [[round(used / 1e6, 1), rate] for used, rate in curve]} for name, curve in curves],
    )
    return Section(
        "throughput_benchmark",
        "Throughput of one large Redis",
        sentences,
        [f"{name}: {text}" for name, result in results.items() for text in result["doubts"]],
        [figures, *([points] if curves else [])],
        [chart] if curves else [],
    )


def _times(each: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any] | None) -> str:
    return f"{each['ops_per_second'] / other['ops_per_second']:.2f}" if other else "-"


def writeback_benchmark(document: t.Mapping[str, t.Any]) -> Section:
    """Return synchronous writes under the flood for each setting, what is left of sequential throughput, and the knee."""
    sentences, tables, charts = [], [], []
    for host, result, prefix in _hosts(document):
        settings, chosen = result["settings_measured"], result["chosen"]
        if chosen:
            gains = ", ".join(
                f"{each['gain']:.1f} times with {each['threads']} writer{'s' if each['threads'] > 1 else ''}"
                for each in chosen["threads"]
            )
            sentences.append(
                f"{prefix}the knee is {_setting(chosen)}: synchronous writes under the flood are {gains} what they are with the host's own settings, and "
                f"sequential throughput is {chosen['sequential_share']:.0%} of it. To keep it: host_tuning_dirty_bytes: {chosen['dirty_bytes']}."
            )
        else:
            sentences.append(f"{prefix}there is no knee: {result['reason']}.")
        tables.append(
            Table(
                f"{prefix}writes of {result['settings']['write_size']:,} bytes, each with an fsync, on {result['disk']['name']}",
                (
                    "setting",
                    "writers",
                    "idle IOPS",
                    "under the flood",
                    "x own",
                    "of idle",
                    "p99 ms",
                    "sequential MB/s",
                    "x own",
                ),
                [
                    (
                        _setting(setting),
                        str(each["threads"]),
                        _median(each["idle_iops"], 1, 1),
                        _median(each["flood_iops"], 1, 1),
                        _share(each["gain"]),
                        _share(each["of_idle"]),
                        _median(each["flood_p99_ms"], 1, 1),
                        _median(setting["sequential"], 1e6, 0),
                        _share(setting["sequential_share"]),
                    )
                    for setting in settings
                    for each in setting["threads"]
                ],
            )
        )
        lines: dict[str, list[list[float]]] = {}
        for setting in (each for each in settings if each["dirty_bytes"]):
            queue = _queue(setting["queue"])
            for each in setting["threads"]:
                name = f"{prefix}{each['threads']} writers under the flood{queue}, x own"
                lines.setdefault(name, []).append([setting["dirty_bytes"] / 2**20, each["gain"]])
            lines.setdefault(f"{prefix}sequential{queue}, x own", []).append(
                [setting["dirty_bytes"] / 2**20, setting["sequential_share"]]
            )
        charts.append(
            Chart(
                f"writeback_benchmark-{len(charts)}",
                f"Writes of {host} by vm.dirty_bytes; the table below has the same in numbers",
                "vm.dirty_bytes, MiB",
                "times the host's own settings",
                [{"name": name, "points": sorted(points)} for name, points in lines.items()],
                log_x=True,
            )
        )
    return Section(
        "writeback_benchmark", "Synchronous writes under a flood of dirty pages", sentences, [], tables, charts
    )


def _setting(setting: t.Mapping[str, t.Any]) -> str:
    size = f"vm.dirty_bytes {setting['dirty_bytes'] / 2**20:g} MiB" if setting["dirty_bytes"] else "the host's own"
    return size + _queue(setting["queue"])


def _queue(queue: t.Mapping[str, t.Any]) -> str:
    return "".join(f", {name} {value}" for name, value in sorted(queue.items()))


EXPERIMENTS: dict[str, t.Callable[[t.Mapping[str, t.Any]], Section]] = {
    "memory_bandwidth": memory_bandwidth,
    "throughput_benchmark": throughput_benchmark,
    "writeback_benchmark": writeback_benchmark,
}
