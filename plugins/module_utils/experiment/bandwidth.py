# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run membw on one host for every pair of NUMA nodes, and turn its reports into a matrix of nodes."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo, parse_cpu_list
from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    Ranges,
    check_numbers,
    number,
    numbers,
    size_in_bytes,
    size_text,
)

SCHEMA = 1
RANGES: Ranges = {
    "seconds": Range(float, 0.05, 600, "seconds of each measurement"),
    "repetitions": Range(int, 1, 1000, "repetitions of everything"),
}
READERS = Range(int, 1, 1024, "readers, each on its own CPU")
CHANNELS = Range(int, 1, 1024, "memory channels of the whole host")
LINK = Range(float, 0.1, 10000, "GB/s of the link between two sockets, one way")

# A figure below one of these is flagged as doubtful.
MIN_CPU_SHARE = 0.95
MIN_OVERLAP = 0.9
# As in files/membw.c: the buffer is this many times the last-level caches of the readers, and at least 256 MiB.
_CACHE_MULTIPLE = 16
_BUFFER_MIN = 256 * 2**20
# A node must have this many times the buffer free. Otherwise placing the buffer there could invoke the OOM killer.
_ROOM = 1.25


class MeasurementError(Exception):
    """This host cannot be measured with these options. The text says why."""


@dataclasses.dataclass(frozen=True)
class NumaNode:
    """A NUMA node. Number -1 is the whole machine, if its kernel has no NUMA support."""

    number: int
    cpus: tuple[int, ...]
    has_memory: bool
    room_bytes: int


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One execution of membw."""

    pattern: str
    cpu_node: int
    memory_node: int
    cpus: tuple[int, ...]

    @property
    def text(self) -> str:
        """A description for messages."""
        readers = "1 reader" if len(self.cpus) == 1 else f"{len(self.cpus)} readers"
        what = "latency" if self.pattern == "chase" else f"bandwidth with {readers}"
        return f"{what}, CPUs of node {self.cpu_node}, memory of node {self.memory_node}"


def check_options(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options with sizes and numbers as numbers.

    Raises:
        SettingError: an option is not allowed.
    """
    readers, channels, link = options["readers"] or [], options["channels"], options["link"]
    return {
        "pattern": options["pattern"],
        "huge_pages": options["huge_pages"],
        **check_numbers(options, RANGES),
        "readers": sorted(numbers("readers", readers, READERS)) if readers else [],
        "buffer_bytes": size_in_bytes("buffer", options["buffer"]) if options["buffer"] else 0,
        "cache_bytes": size_in_bytes("cache", options["cache"]) if options["cache"] else 0,
        "channels": None if channels in (None, "") else number("channels", channels, CHANNELS),
        "link": None if link in (None, "") else number("link", link, LINK),
    }


def nodes(files: HostFiles, allowed: t.AbstractSet[int]) -> list[NumaNode]:
    """Return the nodes, each with its CPUs among the allowed ones."""
    found = []
    for node in host_memory.numa(files)["nodes"]:
        info = meminfo(files, f"/sys/devices/system/node/node{node['id']}/meminfo")
        room = info.get("MemFree", 0) + info.get("Inactive(file)", 0)
        cpus = _first_of_each_core_first(files, [cpu for cpu in parse_cpu_list(node["cpus"]) if cpu in allowed])
        found.append(NumaNode(node["id"], tuple(cpus), (node["total_bytes"] or 0) > 0, room))
    if not found:
        available = meminfo(files).get("MemAvailable", 0)
        return [NumaNode(-1, tuple(_first_of_each_core_first(files, sorted(allowed))), True, available)]
    return found


def _first_of_each_core_first(files: HostFiles, cpus: t.Sequence[int]) -> list[int]:
    """Return the CPUs in order, second threads of a core last: they share the core's path to memory."""

    def is_second(cpu: int) -> bool:
        siblings = parse_cpu_list(files.text(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        return bool(siblings) and cpu != min(siblings)

    return sorted(cpus, key=lambda cpu: (is_second(cpu), cpu))


def reader_counts(wanted: t.Sequence[int], cpus: int) -> list[int]:
    """Return the numbers of readers: those wanted for which there are enough CPUs, or 1, 2, 4, ... and all CPUs."""
    if wanted:
        return [count for count in wanted if count <= cpus]
    counts = [2**power for power in range(cpus.bit_length()) if 2**power < cpus]
    return counts + [cpus] if cpus else []


def measurements(found: t.Sequence[NumaNode], options: t.Mapping[str, t.Any]) -> list[Measurement]:
    """Return the measurements of one repetition.

    Raises:
        MeasurementError: no node has enough CPUs.
    """
    listed = [
        Measurement(pattern, readers_at.number, memory_at.number, readers_at.cpus[:count])
        for memory_at in found
        if memory_at.has_memory
        for readers_at in found
        if readers_at.cpus
        for pattern, counts in (
            (options["pattern"], reader_counts(options["readers"], len(readers_at.cpus))),
            ("chase", [1]),
        )
        for count in counts
    ]
    if not any(each.pattern != "chase" for each in listed):
        raise MeasurementError(
            f"readers: {options['readers'] or 1} is not possible: no node has enough CPUs that this process may use"
        )
    return listed


def check_room(
    files: HostFiles,
    found: t.Sequence[NumaNode],
    wanted: t.Sequence[Measurement],
    options: t.Mapping[str, t.Any],
) -> int:
    """Return the size of the largest buffer in bytes. Without the option, membw chooses one for each measurement.

    Raises:
        MeasurementError: a node does not have enough free memory for it.
    """
    largest = 0
    for node in found:
        cpus = [each.cpus for each in wanted if each.memory_node == node.number]
        if not cpus:
            continue
        cache = options["cache_bytes"] or max(last_level_caches(files, each) for each in cpus)
        needed = options["buffer_bytes"] or max(_BUFFER_MIN, _CACHE_MULTIPLE * cache)
        if node.room_bytes < needed * _ROOM and options["huge_pages"] != "reserved":
            raise MeasurementError(
                f"buffer: {size_text(needed)} and a quarter more must be free on node {node.number}, which has "
                f"{size_text(node.room_bytes)} without swapping; free some memory there (the buffer must be at least "
                f"{_CACHE_MULTIPLE} times the caches of the readers, {size_text(cache)})"
            )
        largest = max(largest, needed)
    return largest


def last_level_caches(files: HostFiles, cpus: t.Iterable[int]) -> int:
    """Return the bytes of the last-level caches of these CPUs, each counted once; 0 if the kernel reports none."""
    caches: dict[int, int] = {}
    for cpu in cpus:
        directory = f"/sys/devices/system/cpu/cpu{cpu}/cache"
        sizes = [
            (size_in_bytes("cache", text), name)
            for name in files.names(directory)
            if re.match(r"^index\d+$", name) and (text := files.text(f"{directory}/{name}/size"))
        ]
        if sizes:
            size, name = max(sizes)
            shared = parse_cpu_list(files.text(f"{directory}/{name}/shared_cpu_list"))
            caches[min(shared, default=-1)] = size
    return sum(caches.values())


def run(
    wanted: t.Sequence[Measurement], options: t.Mapping[str, t.Any], executable: str, run_command: RunCommand
) -> dict[Measurement, list[dict[str, t.Any]]]:
    """Return the reports of all measurements.

    A repetition runs each of them once, so that a machine that changes its speed affects all of them.

    Raises:
        MeasurementError: membw failed.
    """
    results: dict[Measurement, list[dict[str, t.Any]]] = {each: [] for each in wanted}
    for _repetition in range(options["repetitions"]):
        for each in wanted:
            status, output, diagnostics = run_to_end(run_command, command(each, options, executable))
            if status != 0:
                raise MeasurementError(f"{each.text}: {diagnostics.strip() or f'membw ended with status {status}'}")
            report = json.loads(output)
            if report["schema"] != SCHEMA:
                raise MeasurementError(
                    f"{executable} reports with schema {report['schema']}, this module reads schema {SCHEMA}; "
                    f"install the membw of this collection's version"
                )
            results[each].append(report)
    return results


def command(measurement: Measurement, options: t.Mapping[str, t.Any], executable: str) -> list[str]:
    """Return membw's argument vector."""
    return [
        executable,
        f"--pattern={measurement.pattern}",
        f"--memory-node={measurement.memory_node}",
        f"--cpus={','.join(map(str, measurement.cpus))}",
        f"--seconds={options['seconds']}",
        f"--buffer={options['buffer_bytes']}",
        f"--huge-pages={options['huge_pages']}",
        *([f"--cache={options['cache_bytes']}"] if options["cache_bytes"] else []),
    ]


def spread(values: t.Sequence[float]) -> dict[str, float]:
    """Return median, minimum and maximum."""
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def facts(results: t.Mapping[Measurement, t.Sequence[t.Mapping[str, t.Any]]]) -> dict[str, t.Any]:
    """Return the matrix of nodes, the bandwidth by number of readers, and what makes the figures doubtful."""
    bandwidth = {
        each: spread([report["bytes_per_second"] for report in reports])
        for each, reports in results.items()
        if each.pattern != "chase"
    }
    latency = {
        (each.cpu_node, each.memory_node): spread([report["ns_per_read"] for report in reports])
        for each, reports in results.items()
        if each.pattern == "chase"
    }
    readers: list[dict[str, t.Any]] = [
        {
            "cpu_node": each.cpu_node,
            "memory_node": each.memory_node,
            "readers": len(each.cpus),
            "bytes_per_second": figures,
        }
        for each, figures in bandwidth.items()
    ]
    pairs = []
    for (cpu_node, memory_node), nanoseconds in latency.items():
        mine = [row for row in readers if (row["cpu_node"], row["memory_node"]) == (cpu_node, memory_node)]
        pairs.append(
            {
                "cpu_node": cpu_node,
                "memory_node": memory_node,
                "local": cpu_node == memory_node,
                "single": next((row["bytes_per_second"] for row in mine if row["readers"] == 1), None),
                "highest": max((row["bytes_per_second"] for row in mine), key=_median, default=None),
                "latency_ns": nanoseconds,
            }
        )
    local = {pair["memory_node"]: pair for pair in pairs if pair["local"]}
    for pair in pairs:
        pair["ratio"] = _ratios(pair, local.get(pair["memory_node"]))
    example = next(iter(results.values()))[0]
    return {
        "numa": example["numa"],
        "client": example["client"],
        "kernels": sorted({report["kernel"] for reports in results.values() for report in reports}),
        "cache_bytes": max(report["cache_bytes"] for reports in results.values() for report in reports),
        "pairs": pairs,
        "readers": readers,
        "doubts": doubts(results),
    }


def _median(figures: t.Mapping[str, float]) -> float:
    return figures["median"]


def _ratios(pair: t.Mapping[str, t.Any], local: t.Mapping[str, t.Any] | None) -> dict[str, float | None]:
    """Return a pair's figures relative to those of the CPUs on the memory's own node."""
    if local is None:
        return {"single": None, "highest": None, "latency": None}

    def of(name: str) -> float | None:
        return round(pair[name]["median"] / local[name]["median"], 4) if pair[name] and local[name] else None

    return {"single": of("single"), "highest": of("highest"), "latency": of("latency_ns")}


def link(pairs: t.Sequence[t.Mapping[str, t.Any]], gigabytes: float | None) -> dict[str, t.Any]:
    """Return the best bandwidth between two nodes, and its share of the link between them if its speed is given."""
    remote = [pair["highest"]["median"] for pair in pairs if not pair["local"] and pair["highest"]]
    best = max(remote, default=None)
    speed = gigabytes * 1e9 if gigabytes else None
    reason = "" if speed else "the kernel does not report the speed of the link; give it"
    return {
        "bytes_per_second": speed,
        "highest": best,
        "share": round(best / speed, 4) if best and speed else None,
        "reason": "no node reads another node's memory" if best is None else reason,
    }


def doubts(results: t.Mapping[Measurement, t.Sequence[t.Mapping[str, t.Any]]]) -> list[str]:
    """List what makes the figures doubtful; an empty list if nothing does."""
    given = {report["cache_bytes"] for reports in results.values() for report in reports if report["cache_given"]}
    found = [f"the size of the cache, {size_text(size)}, was given and not read from the kernel" for size in given]
    for each, reports in results.items():
        share = min(report["cpu_share"] for report in reports)
        overlap = min(report["overlap"] for report in reports)
        faults = max(report["page_faults"] for report in reports)
        if share < MIN_CPU_SHARE:
            found.append(
                f"{each.text}: a reader had its CPU for only {share:.3f} of the time, {MIN_CPU_SHARE} is needed; "
                f"other processes used that CPU"
            )
        if overlap < MIN_OVERLAP:
            found.append(
                f"{each.text}: all readers read at the same time for {overlap:.3f} of the time, {MIN_OVERLAP} is needed"
            )
        if faults:
            found.append(f"{each.text}: {faults} page faults during the measurement")
    return found


def allowed_cpus() -> frozenset[int]:
    """Return the CPUs that this process may use."""
    return frozenset(os.sched_getaffinity(0))
