# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run in DRAM measured that a plan needs: the time of a request, and the DRAM of a Redis server."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.same_machine import recorded_machines
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import summarise

# What decides how much DRAM the records of a Redis take.
_DATA = ("key_count", "value_size")


class Baseline(t.NamedTuple):
    """A run in DRAM.

    Attributes:
        base: C(avg_us) and C(p99_us) of a request, the service time of the worst cell.
        server_bytes: the charged DRAM of each Redis; None if the run had no DRAM budget, not on all machines, lost
            servers, or had other keys or values than those of the plan.
    """

    base: dict[str, float]
    server_bytes: int | None


def measured(directory: RunDirectory, load: t.Mapping[str, t.Any]) -> Baseline:
    """Read what a run measured.

    Args:
        directory: the run.
        load: of the plan.

    Raises:
        RunError: a file of the run is missing or damaged, or it has measured no cell.
    """
    summary = summarise(directory)
    known = [cell["service"] for cell in summary["cells"] if cell["service"].get("p99_us") is not None]
    if not known:
        raise RunError(f"run {directory.run_id!r} has measured no cell")
    run = directory.read_json("run.json")
    dram, fleet = summary["dram"], summary["fleet"]
    alike = all(run["config"]["load"][name] == load[name] for name in _DATA)
    server = None
    everywhere = dram and dram["machines"] == len(recorded_machines(run))
    if alike and everywhere and dram["charged_bytes"] and not fleet["failed"]:
        server = round(dram["charged_bytes"] / fleet["expected"])
    return Baseline({name: max(each[name] for each in known) for name in ("avg_us", "p99_us")}, server)
