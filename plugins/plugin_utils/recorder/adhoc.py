# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that nobody announced: what a playbook of someone's own measured with the module solotest."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEMA,
    RunDirectory,
    compact_utc,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import Phase

# The bounds of a valid phase are the defaults of the role latency_benchmark.
VALIDITY = {"min_overlap": 0.95, "min_rate_ratio": 0.99, "max_lateness_p99_us": 1000}


class Collector:
    """Makes a run of the results as they come: each task that measured is a phase of it.

    Args:
        results_dir: where the run's directory goes.
        slo: avg_us and p99_us to judge by.
        now: the time, in seconds since the epoch.
        say: takes a line for the terminal.
    """

    def __init__(self, results_dir: str, slo: t.Mapping[str, float], now: float, say: t.Callable[[str], None]) -> None:
        self._say = say
        self._slo = {**slo, "basis": "response"}
        self._started_at = now
        self.directory = RunDirectory(results_dir, f"adhoc-{compact_utc(now)}")
        self._documents: list[dict[str, t.Any]] = []
        self._task: str | None = None
        self._results: dict[str, dict[str, t.Any]] = {}
        self._failed: dict[str, tuple[str, dict[str, t.Any] | None]] = {}

    def add(self, host: str, task: str, measured: dict[str, t.Any]) -> None:
        """Take what host measured in task."""
        self._task = task
        self._results[host] = measured

    def fail(self, host: str, task: str, message: str, partial: dict[str, t.Any] | None) -> None:
        """Take note that host failed in task."""
        self._task = task
        self._failed[host] = (message, partial)

    def end_phase(self) -> None:
        """Make a phase of the results since the last one."""
        if self._task is None:
            return
        example = next(iter(self._results.values()), None) or next(
            (each for dummy, each in self._failed.values() if each), None
        )
        index = len(self._documents) + 1
        plan = {"index": index, "of": index, **_kind(example), "name": f"task{index}", "task": self._task}
        config = {"load": (example or {}).get("settings", {}), "validity": VALIDITY}
        phase = Phase(config, plan, {*self._results, *self._failed}, {}, self._started_at, None)
        for host, measured in self._results.items():
            phase.add(host, measured)
        for host, (message, partial) in self._failed.items():
            phase.fail(host, message, partial)
        self._documents.append(phase.document())
        self._task, self._results, self._failed = None, {}, {}
        for line in report_text.outcome(self._documents[-1]):
            self._say(line)

    def finish(self) -> None:
        """Write the run and show its table."""
        self.end_phase()
        if not self._documents:
            return
        count = len(self._documents)
        for document in self._documents:
            document["phase"]["of"] = count
        plans = [document["phase"] for document in self._documents]
        self.directory.create()
        self.directory.write_json(
            "run.json",
            {
                "schema": SCHEMA,
                "run_id": self.directory.run_id,
                "started_at": self._started_at,
                "config": {"profile": "unknown", "slo": self._slo, "validity": VALIDITY},
                "config_hash": configuration.config_hash({"slo": self._slo, "plans": plans}),
                "labels": ["ad hoc: the host's settings were not recorded"],
                "expected": sorted({host for document in self._documents for host in document["expected"]}),
                "phases": [{**plan, "finished": True} for plan in plans],
            },
        )
        for document in self._documents:
            self.directory.write_phase(document)
        publish(self.directory, self._say)


def _kind(example: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """Return which kind of phase a result shows; a test counts as a measured iteration of its cell."""
    if example is None or example["mode"] == "fill":
        return {"kind": "fill", "seconds": 0}
    settings = example["settings"]
    return {
        "kind": "iteration",
        "influence": settings["influence"],
        "read_mix": settings["read_mix"],
        "iteration": 1,
        "seconds": example["seconds"] or 0,
    }
