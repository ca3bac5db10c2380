# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier measurements say about the memory of a Redis server."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.same_machine import recorded_machines
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import summarise

_Document = t.Mapping[str, t.Any]


class UnknownMemory(Exception):
    """A measurement does not tell the memory of a server; the text says why."""


def of_run(directory: RunDirectory, load: _Document) -> int:
    """Return the charged DRAM of each server of a run whose servers were wholly in DRAM.

    Args:
        directory: the run.
        load: of the plan.

    Raises:
        RunError: a file of the run is missing or damaged.
        UnknownMemory: the run does not tell.
    """
    run, summary = directory.read_json("run.json"), summarise(directory)
    machines, dram, fleet = recorded_machines(run), summary["dram"], summary["fleet"]
    _refuse_other_data(run["config"]["load"]["key_count"], run["config"]["load"]["value_size"], load)
    if any((machine.get("tuning") or {}).get("swap_areas") for machine in machines.values()):
        raise UnknownMemory("it had swap, so not all of its memory was in DRAM; choose a run under the profile dram")
    if not dram or dram["machines"] != len(machines) or not dram["charged_bytes"]:
        raise UnknownMemory(
            "its charged DRAM was not measured on all machines; choose one with host_tuning_dram_budget"
        )
    if fleet["failed"]:
        raise UnknownMemory("it lost servers; choose a run that kept all of them")
    return round(dram["charged_bytes"] / fleet["expected"])


def of_density(directory: RunDirectory, load: _Document) -> int:
    """Return the charged DRAM of each server in the largest fleet that a density has seen without a tier.

    Args:
        directory: the density.
        load: of the plan.

    Raises:
        RunError: its file is missing or damaged.
        UnknownMemory: the density does not tell.
    """
    document = directory.read_json("density.json")
    _refuse_other_data(document["definition"]["load"]["keys"], document["definition"]["load"]["value_size"], load)
    points = [
        (point["size"], point["charged_bytes"])
        for arm in document["arms"]
        if not arm["tier"]["bytes"]
        for ramp in arm["rounds"]
        for point in ramp["points"]
        if point["charged_bytes"]
    ]
    if not points:
        raise UnknownMemory("it has no fleet wholly in DRAM; choose a density whose profiles include dram")
    size, charged = max(points)
    return round(charged / size)


def _refuse_other_data(keys: int, value_size: int, load: _Document) -> None:
    """Raise UnknownMemory if the servers held other data than those of the plan."""
    if (keys, value_size) != (load["key_count"], load["value_size"]):
        raise UnknownMemory(
            f"its servers held {keys:,} keys of {value_size:,} bytes, and those of the plan hold "
            f"{load['key_count']:,} of {load['value_size']:,}"
        )
