# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the files of a run up to date while the playbook goes on."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils import cost, cost_text, experiments, exports, report_html, report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.fleet_phase import Phase
from ansible_collections.memstretch.density.plugins.plugin_utils.histogram_log import HistogramLogs
from ansible_collections.memstretch.density.plugins.plugin_utils.report_data import RunCharts
from ansible_collections.memstretch.density.plugins.plugin_utils.run_directory import SCHEMA, RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.summary import evaluate


class RunRecorder:
    """One run that is going on.

    It lives in the playbook's main process and holds the lock of the run's directory as long as that lives.

    Args:
        begun: what the action C(benchmark_run) returned.
        say: takes a line for the terminal.
    """

    def __init__(self, begun: dict[str, t.Any], say: t.Callable[[str], None]) -> None:
        self.run = begun
        self.directory = RunDirectory.at(begun["directory"])
        self._say_on_terminal = say
        self._clocks = {host: each["clock_correction"] for host, each in begun["fleet"].items()}
        self._clock_started = time.monotonic()
        self._overheads: list[float] = []
        self.phase: Phase | None = None
        self.directory.create()
        self._lock = self.directory.lock()
        self._write_run()
        for line in report_text.opening(begun):
            self.say(line)

    def say(self, line: str) -> None:
        """Put line on the terminal and into the run's log."""
        self._say_on_terminal(line)
        self.directory.append_log(line)

    def _write_run(self) -> None:
        sessions = []
        if self.run["resumed"]:
            sessions = self.directory.read_json("run.json")["sessions"]
        document = {name: value for name, value in self.run.items() if name not in ("session", "directory", "resumed")}
        document["schema"] = SCHEMA
        document["sessions"] = sessions + [{
            "id": self.run["session"],
            "started_at": time.time(),
            "phases_to_measure": [phase["index"] for phase in self.run["phases"] if not phase["finished"]],
        }]
        self.directory.write_json("run.json", document)

    def begin_phase(self, begun: dict[str, t.Any]) -> None:
        """Take note that a phase begins; the results that follow belong to it."""
        self.end_phase()
        plan = begun["phase"]
        self.phase = Phase(self.run["config"], plan, self.run["expected"], self._clocks, begun["begun_at"], begun["start_at"])
        self.say(report_text.beginning(plan, time.monotonic() - self._clock_started, self._remaining(plan)))

    def _remaining(self, plan: t.Mapping[str, t.Any]) -> float:
        """The load of the phases that are left, plus what each phase has cost beside its load so far."""
        left = [phase for phase in self.run["phases"] if not phase["finished"] and phase["index"] >= plan["index"]]
        overhead = sum(self._overheads) / len(self._overheads) if self._overheads else 2.0
        return sum(phase["seconds"] + overhead for phase in left)

    def add(self, host: str, result: dict[str, t.Any]) -> None:
        """Take the result of a host for the phase that is going on."""
        if self.phase:
            self.phase.add(host, result)
            self._end_if_complete()

    def fail(self, host: str, message: str, partial: dict[str, t.Any] | None = None) -> None:
        """Take note that a host failed in the phase that is going on."""
        if self.phase and host in self.phase.expected:
            self.phase.fail(host, message, partial)
            self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self.phase and self.phase.complete:
            self.end_phase()

    def end_phase(self) -> None:
        """Merge, judge and write the phase that is going on, if there is one."""
        if not self.phase:
            return
        phase, self.phase = self.phase, None
        document = phase.document()
        self.directory.write_phase(document)
        self._overheads.append(max(0.0, time.time() - phase.begun_at - phase.plan["seconds"]))
        for line in report_text.outcome(document):
            self.say(line)

    def finish(self) -> None:
        """Write the summary of what there is and show it; for a playbook that ended before its report."""
        self.end_phase()
        publish(self.directory, self.say)

    def close(self) -> None:
        """Give the run's directory free."""
        self._lock.close()


def publish(
    directory: RunDirectory, say: t.Callable[[str], None], slo: t.Mapping[str, t.Any] | None = None, prices: t.Mapping[str, t.Any] | None = None
) -> tuple[dict[str, t.Any], bool]:
    """Write the summary, report and exports of a run, show the final table; return the summary and whether a file changed.

    Args:
        directory: the run.
        say: takes a line for the terminal.
        slo: avg_us and p99_us to judge by in place of the run's own.
        prices: what cost.prices() returned.

    Raises:
        RunError: a file of the run is missing or damaged.
    """
    run = directory.read_json("run.json")
    logs, charts, writes = HistogramLogs(), RunCharts(), cost.SwapWrites(run)

    def also(document: dict[str, t.Any]) -> None:
        logs.add(document)
        charts.add(document)
        writes.add(document)

    summary, details = evaluate(directory, slo, also)
    summary["cost"] = prices and cost.document(prices, [cost.arm_of(summary["profile"], run, summary["verdict"], summary["fleet"]["expected"], writes)])
    changed = logs.write(directory)
    changed |= directory.write_json("summary.json", summary)
    changed |= exports.write(directory, summary, details)
    changed |= directory.write_text("report.html", report_html.run_page(run, summary, details, charts, experiments.sections(directory)))
    lines = report_text.table(summary, directory.path, cost_text.lines(summary["cost"]))
    changed |= directory.write_text("report.txt", "\n".join(lines).strip() + "\n")
    for line in lines:
        say(line)
    return summary, changed


def is_finished(phase: t.Mapping[str, t.Any], document: t.Mapping[str, t.Any] | None) -> bool:
    """Say whether phase need not be measured again: all hosts reported, and it is valid or thrown away anyhow."""
    return document is not None and not document["failed"] and (document["valid"] or phase["kind"] == "warmup")


def mark_finished(directory: RunDirectory, phases: t.Sequence[dict[str, t.Any]], filled: bool) -> list[dict[str, t.Any]]:
    """Return phases, each with C(finished): whether a resumed run can keep it.

    A cell that has something left to measure is warmed up again; a fleet whose data is gone is filled again.
    """
    finished = {phase["index"]: is_finished(phase, directory.read_phase(phase)) for phase in phases}
    open_cells = {_cell(phase) for phase in phases if not finished[phase["index"]] and phase["kind"] != "fill"}

    def keep(phase: t.Mapping[str, t.Any]) -> bool:
        if phase["kind"] == "fill":
            return finished[phase["index"]] and filled
        return finished[phase["index"]] and not (phase["kind"] == "warmup" and _cell(phase) in open_cells)

    return [{**phase, "finished": keep(phase)} for phase in phases]


def _cell(phase: t.Mapping[str, t.Any]) -> tuple[float, float]:
    return phase["influence"], phase["read_mix"]
