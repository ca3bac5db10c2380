# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan and run the measurements of membw on one host, and turn them into a matrix of nodes."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo, parse_cpu_list
from ansible_collections.memstretch.density.plugins.module_utils.options import (
    SettingError,
    number,
    numbers,
    size_in_bytes,
)

SCHEMA = 1
# Below these a figure is shown with its doubt.
MIN_CPU_SHARE = 0.95
MIN_OVERLAP = 0.9
# As in files/membw.c: so many times the largest cache, and no less than 256 MiB.
_CACHE_MULTIPLE = 16
_BUFFER_MIN = 256 * 2**20
# A node must have so much more than the buffer, or placing it there could make the kernel kill somebody.
_ROOM = 1.25


class MeasurementError(Exception):
    """What was asked for cannot be measured here. The text says why."""


@dataclasses.dataclass(frozen=True)
class Node:
    """A NUMA node; number -1 stands for all of a machine whose kernel knows no NUMA."""

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
        """What it is, in words."""
        what = "latency" if self.pattern == "chase" else f"bandwidth of {len(self.cpus)}"
        return f"{what}, CPUs of node {self.cpu_node}, memory of node {self.memory_node}"


def checked(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options as numbers.

    Raises:
        SettingError: one cannot be used.
    """
    readers = options["readers"] or []
    return {
        "pattern": options["pattern"],
        "huge_pages": options["huge_pages"],
        "seconds": number("seconds", options["seconds"], "reading_seconds"),
        "repetitions": number("repetitions", options["repetitions"], "repetitions"),
        "readers": sorted(numbers("readers", readers, "readers")) if readers else [],
        "buffer_bytes": size_in_bytes("buffer", options["buffer"]) if options["buffer"] else 0,
        "channels": number("channels", options["channels"], "channels")
        if options["channels"] not in (None, "")
        else None,
    }


def nodes(files: HostFiles, allowed: t.AbstractSet[int]) -> list[Node]:
    """Return the nodes; processors that this process may not use are left out."""
    found = []
    for node in host_memory.numa(files)["nodes"]:
        info = meminfo(files, f"/sys/devices/system/node/node{node['id']}/meminfo")
        room = info.get("MemFree", 0) + info.get("Inactive(file)", 0)
        cpus = _first_of_each_core_first(files, [cpu for cpu in parse_cpu_list(node["cpus"]) if cpu in allowed])
        found.append(Node(node["id"], tuple(cpus), (node["total_bytes"] or 0) > 0, room))
    if not found:
        available = meminfo(files).get("MemAvailable", 0)
        return [Node(-1, tuple(_first_of_each_core_first(files, sorted(allowed))), True, available)]
    return found


def _first_of_each_core_first(files: HostFiles, cpus: t.Sequence[int]) -> list[int]:
    """Two threads of one core share its path to memory, so the second ones come last."""

    def is_second(cpu: int) -> bool:
        siblings = parse_cpu_list(files.text(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        return bool(siblings) and cpu != min(siblings)

    return sorted(cpus, key=lambda cpu: (is_second(cpu), cpu))


def reader_counts(wanted: t.Sequence[int], cpus: int) -> list[int]:
    """Return the numbers of readers to measure with: 1, 2, 4, ... and all CPUs, or those wanted that there are CPUs for."""
    if wanted:
        return [count for count in wanted if count <= cpus]
    counts = [2**power for power in range(cpus.bit_length()) if 2**power < cpus]
    return counts + [cpus] if cpus else []


def plan(found: t.Sequence[Node], options: t.Mapping[str, t.Any]) -> list[Measurement]:
    """Return what one repetition measures.

    Raises:
        MeasurementError: nothing can be measured, or a node has no room for the buffer.
    """
    measurements = [
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
    if not any(each.pattern != "chase" for each in measurements):
        raise MeasurementError(
            f"readers: no node has CPUs for {options['readers'] or 'a reader'} that this process may use"
        )
    return measurements


def check_room(files: HostFiles, found: t.Sequence[Node], options: t.Mapping[str, t.Any]) -> int:
    """Return the bytes of the buffer.

    Raises:
        MeasurementError: a node has no room for it.
    """
    needed = options["buffer_bytes"] or max(_BUFFER_MIN, _CACHE_MULTIPLE * largest_cache(files))
    for node in found:
        if node.has_memory and node.room_bytes < needed * _ROOM and options["huge_pages"] != "reserved":
            raise MeasurementError(
                f"buffer: {needed / 2**20:,.0f} MiB and a quarter more are needed on node {node.number}, which has {node.room_bytes / 2**20:,.0f} MiB "
                f"without swapping; free some memory there (a buffer that is less than {_CACHE_MULTIPLE} times the cache is refused)"
            )
    return needed


def largest_cache(files: HostFiles) -> int:
    """Return the bytes of the largest cache of the first CPU; 0 if the kernel does not tell."""
    directory = "/sys/devices/system/cpu/cpu0/cache"
    texts = [files.text(f"{directory}/{name}/size") for name in files.names(directory) if re.match(r"^index\d+$", name)]
    return max((size_in_bytes("cache", text) for text in texts if text), default=0)


def run(
    measurements: t.Sequence[Measurement], options: t.Mapping[str, t.Any], executable: str, run_command: t.Callable
) -> dict[Measurement, list[dict[str, t.Any]]]:
    """Measure everything in turn, as often as the options say, so that a machine that changes its speed changes it for all.

    Raises:
        MeasurementError: membw failed.
    """
    results: dict[Measurement, list[dict[str, t.Any]]] = {each: [] for each in measurements}
    for dummy in range(options["repetitions"]):
        for each in measurements:
            status, output, diagnostics = run_command(command(each, options, executable))
            if status != 0:
                raise MeasurementError(f"{each.text}: {diagnostics.strip() or f'membw ended with status {status}'}")
            report = json.loads(output)
            if report["schema"] != SCHEMA:
                raise MeasurementError(
                    f"{executable} speaks schema {report['schema']}, this module {SCHEMA}; update it"
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
    ]


def spread(values: t.Sequence[float]) -> dict[str, float]:
    """Return median, least and most."""
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def facts(results: t.Mapping[Measurement, t.Sequence[t.Mapping[str, t.Any]]]) -> dict[str, t.Any]:
    """Return the matrix of nodes, the growth with readers, and what makes the figures doubtful."""
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
    readers = [
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
                "highest": max(
                    (row["bytes_per_second"] for row in mine), key=lambda figures: figures["median"], default=None
                ),
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
        "cache_bytes": example["cache_bytes"],
        "pairs": pairs,
        "readers": readers,
        "doubts": doubts(results),
    }


def _ratios(pair: t.Mapping[str, t.Any], local: t.Mapping[str, t.Any] | None) -> dict[str, float | None]:
    """Return a pair's figures relative to those of the processors beside that memory."""
    if local is None:
        return {"single": None, "highest": None, "latency": None}

    def of(name: str) -> float | None:
        return round(pair[name]["median"] / local[name]["median"], 4) if pair[name] and local[name] else None

    return {"single": of("single"), "highest": of("highest"), "latency": of("latency_ns")}


def doubts(results: t.Mapping[Measurement, t.Sequence[t.Mapping[str, t.Any]]]) -> list[str]:
    """Return what makes figures doubtful; nothing if all is well."""
    found = []
    for each, reports in results.items():
        share = min(report["cpu_share"] for report in reports)
        overlap = min(report["overlap"] for report in reports)
        faults = max(report["page_faults"] for report in reports)
        if share < MIN_CPU_SHARE:
            found.append(
                f"{each.text}: a reader had its CPU for {share:.3f} of the time only, {MIN_CPU_SHARE} is needed; others were at work there"
            )
        if overlap < MIN_OVERLAP:
            found.append(
                f"{each.text}: the readers were at work together for {overlap:.3f} of the time, {MIN_OVERLAP} is needed"
            )
        if faults:
            found.append(f"{each.text}: {faults} page faults while it was measured")
    return found


def allowed_cpus() -> frozenset[int]:
    """Return the CPUs that this process may use."""
    return frozenset(os.sched_getaffinity(0))


__all__ = ["MeasurementError", "SettingError", "allowed_cpus", "check_room", "checked", "facts", "nodes", "plan", "run"]
