# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of experiments other than the latency of a fleet, each in one JSON file, and how they are shown.

The view of an experiment turns its document into a section, which the terminal and the page show alike: sentences,
tables whose cells are text, and line charts.
"""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Chart, Section, Table
from ansible_collections.memstretch.density.plugins.plugin_utils.report.throughput import throughput_benchmark
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEMA,
    RunDirectory,
    RunError,
    check_space,
    compact_utc,
)


def directory_for(experiment: str, results_dir: str, run_id: str | None) -> RunDirectory:
    """Return the directory for the result of an experiment: that of the run, or a new one without a run_id.

    Raises:
        RunError: it has such a result already, it is not the directory of a run, or there is no room.
    """
    check_space(results_dir, 4)
    directory = RunDirectory(results_dir, run_id or f"{experiment}-{compact_utc(time.time())}")
    if os.path.lexists(directory.file(f"{experiment}.json")):
        raise RunError(
            f"run_id: {directory.path} holds a result of {experiment} already; choose another run_id, or remove "
            f"{experiment}.json there"
        )
    ours = ["run.json", *(name for each in EXPERIMENTS for name in (f"{each}.json", parts_file(each)))]
    if directory.exists() and not any(os.path.exists(directory.file(name)) for name in ours):
        raise RunError(f"run_id: {directory.path} exists and holds no run; choose another run_id")
    return directory


def parts_file(experiment: str) -> str:
    """Return the name of the file with the parts of an experiment that is not finished."""
    return f"{experiment}.unfinished.json"


def keep(directory: RunDirectory, experiment: str, document: t.Mapping[str, t.Any]) -> bool:
    """Write the result of an experiment and return whether the file changed."""
    os.makedirs(directory.path, exist_ok=True)
    return directory.write_json(f"{experiment}.json", {**document, "schema": SCHEMA, "experiment": experiment})


def documents(directory: RunDirectory) -> dict[str, dict[str, t.Any]]:
    """Return the results of experiments in a directory, by name.

    Raises:
        RunError: one is damaged.
    """
    names = [name for name in EXPERIMENTS if os.path.exists(directory.file(f"{name}.json"))]
    return {name: directory.read_json(f"{name}.json") for name in names}


def sections(directory: RunDirectory) -> list[Section]:
    """Return the sections of all experiments in a directory."""
    return [EXPERIMENTS[name](document) for name, document in documents(directory).items()]


def _median(figures: t.Mapping[str, float] | None, unit: float = 1, digits: int = 2) -> str:
    """Return the median with the range of the repetitions as text."""
    if figures is None:
        return "-"
    median, low, high = (f"{figures[name] / unit:,.{digits}f}" for name in ("median", "min", "max"))
    return median if low == high else f"{median} ({low} to {high})"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _hosts(document: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, dict[str, t.Any], str]]:
    """Yield each host, its result, and a prefix for texts about it, which is empty if it is the only host."""
    for host, result in document["hosts"].items():
        yield host, result, f"{host}: " if len(document["hosts"]) > 1 else ""


def memory_bandwidth(document: t.Mapping[str, t.Any]) -> Section:
    """Return the section of the experiment memory_bandwidth."""
    sentences: list[str] = []
    doubts: list[str] = []
    tables: list[Table] = []
    charts: list[Chart] = []
    for host, result, prefix in _hosts(document):
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
            _median(pair["single"], 1e9),
            _median(pair["highest"], 1e9),
            _median(pair["latency_ns"], 1, 1),
            *(_share(pair["ratio"][name]) for name in ("single", "highest", "latency")),
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
            _median(row["bytes_per_second"], 1e9),
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
        _series(lines),
    )


def _series(lines: t.Mapping[str, list[list[float]]]) -> list[dict[str, t.Any]]:
    return [{"name": name, "points": points} for name, points in lines.items()]


def writeback_benchmark(document: t.Mapping[str, t.Any]) -> Section:
    """Return the section of the experiment writeback_benchmark."""
    sentences: list[str] = []
    tables: list[Table] = []
    charts: list[Chart] = []
    for host, result, prefix in _hosts(document):
        sentences.append(f"{prefix}{_knee(result)}.")
        tables.append(_writeback_table(prefix, result))
        charts.append(_writeback_chart(f"writeback_benchmark-{len(charts)}", host, prefix, result["settings_measured"]))
    return Section(
        "writeback_benchmark", "Synchronous writes under a flood of dirty pages", sentences, [], tables, charts
    )


def _knee(result: t.Mapping[str, t.Any]) -> str:
    """Return the best setting and how to keep it, or why there is none."""
    chosen = result["chosen"]
    if not chosen:
        return f"there is no knee: {result['reason']}"
    gains = ", ".join(
        f"{each['gain']:.1f} times with {each['threads']} writer{'s' if each['threads'] > 1 else ''}"
        for each in chosen["threads"]
    )
    return (
        f"the knee is {_setting(chosen)}: compared with the host's own settings, synchronous writes under the flood "
        f"are faster ({gains}) and sequential throughput is {chosen['sequential_share']:.0%}. "
        f"To keep this setting: host_tuning_dirty_bytes: {chosen['dirty_bytes']}"
    )


def _writeback_table(prefix: str, result: t.Mapping[str, t.Any]) -> Table:
    headings = (
        "setting",
        "writers",
        "idle IOPS",
        "IOPS under the flood",
        "x own settings",
        "x idle",
        "p99 ms",
        "sequential MB/s",
        "x own settings",
    )
    rows = [
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
        for setting in result["settings_measured"]
        for each in setting["threads"]
    ]
    size, disk = result["settings"]["write_size"], result["disk"]["name"]
    return Table(f"{prefix}writes of {size:,} bytes, each with an fsync, on {disk}", headings, rows)


def _writeback_chart(name: str, host: str, prefix: str, settings: t.Sequence[t.Mapping[str, t.Any]]) -> Chart:
    lines: dict[str, list[list[float]]] = {}
    for setting in (each for each in settings if each["dirty_bytes"]):
        size, queue = setting["dirty_bytes"] / 2**20, _queue(setting["queue"])
        for each in setting["threads"]:
            writers = f"{each['threads']} writer{'s' if each['threads'] > 1 else ''}"
            lines.setdefault(f"{prefix}{writers} under the flood{queue}", []).append([size, each["gain"]])
        lines.setdefault(f"{prefix}sequential{queue}", []).append([size, setting["sequential_share"]])
    return Chart(
        name,
        f"Writes of {host} by vm.dirty_bytes; the table below has the same figures",
        "vm.dirty_bytes, MiB",
        "x the host's own settings",
        _series({line: sorted(points) for line, points in lines.items()}),
        log_x=True,
    )


def _setting(setting: t.Mapping[str, t.Any]) -> str:
    size = (
        f"vm.dirty_bytes {setting['dirty_bytes'] / 2**20:g} MiB"
        if setting["dirty_bytes"]
        else "the host's own settings"
    )
    return size + _queue(setting["queue"])


def _queue(queue: t.Mapping[str, t.Any]) -> str:
    return "".join(f", {name} {value}" for name, value in sorted(queue.items()))


EXPERIMENTS: dict[str, t.Callable[[t.Mapping[str, t.Any]], Section]] = {
    "memory_bandwidth": memory_bandwidth,
    "throughput_benchmark": throughput_benchmark,
    "writeback_benchmark": writeback_benchmark,
}
