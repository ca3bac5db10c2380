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

from ansible_collections.memstretch.density.plugins.plugin_utils.report.bandwidth import memory_bandwidth
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Section
from ansible_collections.memstretch.density.plugins.plugin_utils.report.throughput import throughput_benchmark
from ansible_collections.memstretch.density.plugins.plugin_utils.report.writeback import writeback_benchmark
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
    directory.make()
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


EXPERIMENTS: dict[str, t.Callable[[t.Mapping[str, t.Any]], Section]] = {
    "memory_bandwidth": memory_bandwidth,
    "throughput_benchmark": throughput_benchmark,
    "writeback_benchmark": writeback_benchmark,
}
