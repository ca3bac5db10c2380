# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the files of a run up to date while the playbook goes on."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import (
    text as report_text,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA, RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import Phase


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
        document["sessions"] = sessions + [
            {
                "id": self.run["session"],
                "started_at": time.time(),
                "phases_to_measure": [phase["index"] for phase in self.run["phases"] if not phase["finished"]],
            }
        ]
        self.directory.write_json("run.json", document)

    def begin_phase(self, begun: dict[str, t.Any]) -> None:
        """Take note that a phase begins; the results that follow belong to it."""
        self.end_phase()
        plan = begun["phase"]
        self.phase = Phase(
            self.run["config"], plan, self.run["expected"], self._clocks, begun["begun_at"], begun["start_at"]
        )
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
