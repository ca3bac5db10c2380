# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ad-hoc runs: what a custom playbook measures with the module solotest."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.run.clocks import HostClocks
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEMA,
    compact_utc,
    unused,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import PhaseResults

# The limits of a valid phase are the defaults of the role latency_benchmark.
VALIDITY = {"min_overlap": 0.95}


class Collector:
    """Makes a run of results as they arrive: each task that measured is one phase.

    Args:
        results_dir: the directory of the run is created below it.
        slo: avg_us and p99_us.
        now: the time, in seconds since the epoch.
        say: prints a line on the terminal.
    """

    def __init__(self, results_dir: str, slo: t.Mapping[str, float], now: float, say: t.Callable[[str], None]) -> None:
        self._say = say
        self._slo = dict(slo)
        self._started_at = now
        self.directory = unused(results_dir, f"adhoc-{compact_utc(now)}")
        self._documents: list[dict[str, t.Any]] = []
        self._task: str | None = None
        self._results: dict[str, dict[str, t.Any]] = {}
        self._failed: dict[str, tuple[str, dict[str, t.Any] | None]] = {}

    def add(self, host: str, task: str, measured: dict[str, t.Any]) -> None:
        """Add what host measured in task."""
        self._task = task
        self._results[host] = measured

    def fail(self, host: str, task: str, message: str, partial: dict[str, t.Any] | None) -> None:
        """Record that host failed in task. If only some of its requests failed, the host still counts as measured."""
        self._task = task
        if partial and measurement.is_complete(partial):
            self._results[host] = partial
            return
        self._failed[host] = (message, partial)

    def end_phase(self, lost: t.Mapping[str, str]) -> None:
        """Make a phase of the results since the last phase.

        Args:
            lost: the error message of each host of the play that failed in any task. It was expected here, too.
        """
        if self._task is None:
            return
        for host in lost.keys() - self._results.keys() - self._failed.keys():
            self._failed[host] = (lost[host], None)
        example = next(iter(self._results.values()), None) or next(
            (partial for _message, partial in self._failed.values() if partial), None
        )
        index = len(self._documents) + 1
        phase = {"index": index, "of": index, **self._kind(example), "name": f"task{index}", "task": self._task}
        config = {"load": (example or {}).get("settings", {}), "validity": VALIDITY}
        collected = PhaseResults(config, phase, {*self._results, *self._failed}, HostClocks({}), self._started_at, None)
        for host, measured in self._results.items():
            collected.add(host, measured)
        for host, (message, partial) in self._failed.items():
            collected.fail(host, message, partial)
        self._documents.append(collected.document())
        self._task, self._results, self._failed = None, {}, {}
        for line in report_text.outcome(self._documents[-1]):
            self._say(line)

    def finish(self, lost: t.Mapping[str, str]) -> None:
        """Write the run and print its table; lost is as in end_phase()."""
        self.end_phase(lost)
        if not self._documents:
            return
        count = len(self._documents)
        for document in self._documents:
            document["phase"]["of"] = count
        phases = [document["phase"] for document in self._documents]
        for line in self.directory.create():
            self._say(line)
        self.directory.write_json(
            "run.json",
            {
                "schema": SCHEMA,
                "run_id": self.directory.run_id,
                "started_at": self._started_at,
                "config": {"profile": "unknown", "slo": self._slo, "validity": VALIDITY},
                "config_hash": configuration.config_hash({"slo": self._slo, "phases": phases}),
                "labels": ["ad hoc: the settings of the hosts were not recorded"],
                "expected": sorted({host for document in self._documents for host in document["expected"]}),
                "phases": [{**phase, "finished": True} for phase in phases],
            },
        )
        for document in self._documents:
            self.directory.write_phase(document)
        publish(self.directory, self._say)

    def _kind(self, example: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
        """Return the kind of the phase that a result belongs to; a test counts as the next iteration of its cell."""
        if example is None or example["mode"] == "fill":
            return {"kind": "fill", "seconds": 0}
        cell = {name: example["settings"][name] for name in ("influence", "read_mix")}
        earlier = sum(cell.items() <= document["phase"].items() for document in self._documents)
        return {"kind": "iteration", **cell, "iteration": earlier + 1, "seconds": example["seconds"] or 0}
