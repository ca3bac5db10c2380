# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record a run: its files are kept up to date while the playbook is running."""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.machines import Machines
from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.schedule import Launched, Schedule
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted
from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.clocks import HostClocks
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEDULE_FILE,
    SCHEMA,
    RunDirectory,
    utc,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import PhaseResults

_OF_SESSION = ("session", "directory", "resumed", "pending")


class RunRecorder:
    """Records one run that is being measured.

    It runs in the main process of the playbook and locks the directory of the run until close().

    Args:
        begun: what the action C(benchmark_run) returned.
        say: prints a line on the terminal.
    """

    def __init__(self, begun: dict[str, t.Any], say: t.Callable[[str], None]) -> None:
        self.run = begun
        self.directory = RunDirectory.at(begun["directory"])
        self._say_on_terminal = say
        self._clocks = HostClocks(begun["fleet"])
        self._clock_started = time.monotonic()
        self.phase: PhaseResults | None = None
        self.schedule: Schedule | None = None
        self.launched = Launched()
        self._lost: dict[str, tuple[str, bool]] = {}  # in the fill: the message, and whether the host died
        self._after: dict[str, t.Any] = {}
        self._expected = frozenset(begun["expected"])
        warnings = self.directory.create()
        self._lock = self.directory.lock()
        self._machines = Machines(begun, self.directory)
        self._write_run()
        for line in [*warnings, *report_text.opening(begun)]:
            self.say(line)

    def say(self, line: str) -> None:
        """Print line on the terminal and append it to the log of the run."""
        self._say_on_terminal(line)
        self.directory.append_log(line)

    def _write_run(self) -> None:
        sessions = []
        if self.run["resumed"]:
            sessions = self.directory.read_json("run.json")["sessions"]
        document = {name: value for name, value in self.run.items() if name not in _OF_SESSION}
        document["schema"] = SCHEMA
        document["sessions"] = sessions + [
            {
                "id": self.run["session"],
                "started_at": time.time(),
                "phases_to_measure": [phase["index"] for phase in self.run["phases"] if not phase["finished"]],
            }
        ]
        self.directory.write_json("run.json", document)

    def begin_fill(self, phase: dict[str, t.Any], now: float) -> None:
        """Begin the fill: the results that follow belong to it."""
        self.end_phase()
        self.phase = self._results(phase, now)
        left = sum(each["seconds"] for each in self.run["phases"] if not each["finished"])
        self.say(report_text.beginning(phase, time.monotonic() - self._clock_started, left))

    def _results(self, phase: t.Mapping[str, t.Any], begun_at: float) -> PhaseResults:
        known = {name: value for name, value in phase.items() if name not in ("at", "max_seconds", "refit")}
        results = PhaseResults(
            self.run["config"],
            known,
            self.run["expected"],
            self._clocks,
            begun_at,
            None,
            self._expected,  # which all answered the preflight
        )
        if phase["kind"] != "fill":
            results.budgets = charged_dram.hosts_with_budget(self.run)
        return results

    def begin_schedule(self, plan: dict[str, t.Any]) -> None:
        """Begin the schedule: the results that follow belong to its phases, as soon as the fill is over."""
        self.schedule = Schedule(plan, lambda entry: self._results(entry, plan["planned_at"]))
        self._leave_out_lost(self.schedule)
        if self.schedule.start_at is not None:
            self.say(
                f"Collecting what was measured since {utc(self.schedule.start_at)}, before the run was interrupted"
            )

    def _leave_out_lost(self, schedule: Schedule) -> None:
        for host, (message, died) in self._lost.items():
            schedule.fail(host, message, died)

    def start_schedule(self, start_at: float) -> None:
        """Record when the schedule starts, so that its results can be collected even if this playbook vanishes."""
        self.end_phase()
        if self.schedule:
            self.schedule.start(start_at)
            document = {**self.schedule.plan, "schema": SCHEMA, "start_at": start_at}
            self.directory.write_json(SCHEDULE_FILE, document)

    @property
    def _is_started(self) -> bool:
        return self.schedule is not None and self.schedule.start_at is not None

    def follow(self) -> None:
        """Sleep until the schedule is over, and say which phase is measured.

        While a task waits, Ansible looks for its result hundreds of times a second, on a machine that may be measured,
        too. While a callback sleeps, Ansible does nothing.
        """
        if not self.schedule or not self._is_started:
            return
        try:
            self.schedule.wait(self.launched, self._begin)
        except KeyboardInterrupt:
            self.stop()
            raise

    def _begin(self, phase: t.Mapping[str, t.Any], remaining: float) -> None:
        self.say(report_text.beginning(phase, time.monotonic() - self._clock_started, remaining))

    def stop(self) -> None:
        """End all clients and recorders that were launched, at once."""
        if not len(self.launched):
            return
        self.say(f"Stopping the {counted(len(self.launched), 'client')} of the run, and the recorders")
        missed = self.launched.stop()
        if missed:
            until = "when nothing has started it in time"
            if self.schedule and self._is_started:
                until = f"at {utc(self.schedule.ends_at)}"
            self.say(f"Not reached: {', '.join(missed)}. What runs there ends by itself {until}")
        if self._is_started:
            self.say("The phases that were finished stay on the hosts: run the same command again to collect them")

    def collect(self, host: str, role: str, document: t.Mapping[str, t.Any], clock: t.Any) -> None:
        """Add what a host returned of a fill or of a schedule."""
        if self.phase and role == "client":
            for entry in document["phases"]:
                measured = entry.get("solotest")
                if entry.get("failed"):
                    self.fail(host, entry["msg"], measured)
                elif measured["mode"] != "fill":
                    self.fail(host, f"it returned the result of a {measured['mode']}, but this phase is a fill")
                else:
                    measured["collected"] = clock
                    self.phase.add(host, measured)
                    self._end_if_complete()
        elif self.schedule:
            self.schedule.collect(host, role, document, clock)
        if clock:
            self._after[host] = clock

    def fail(self, host: str, message: str, partial: dict[str, t.Any] | None = None, died: bool = False) -> None:
        """Record that a host failed: in the fill, or in all phases of the schedule without a result."""
        if host not in self._expected:
            return
        if self.phase and host not in self.phase.results:
            self.phase.fail(host, message, partial, died)
            self._end_if_complete()
        elif self.schedule:
            self.schedule.fail(host, message, died)

    def add_reading(self, host: str, reading: t.Mapping[str, t.Any]) -> None:
        """Add what the module C(host_memory_info) has read of a machine for the run, or why it failed."""
        self._machines.add(host, reading)

    def _end_if_complete(self) -> None:
        if self.phase and self.phase.complete:
            self.end_phase()

    def end_phase(self) -> None:
        """Merge, judge and write the current fill, if there is one."""
        if self.phase:
            ended, self.phase = self.phase, None
            self._lost.update({host: (message, host in ended.died) for host, message in ended.failed.items()})
            if self.schedule:
                self._leave_out_lost(self.schedule)
            self._write(ended, {})

    def end_schedule(self, is_over: bool = True) -> bool:
        """Merge, judge and write the phases of the schedule that were measured.

        Args:
            is_over: whether the hosts have been asked; a host without a result has then failed.

        Returns:
            Whether it was the schedule of an interrupted session.
        """
        self.end_phase()
        ended, self.schedule = self.schedule, None
        if not ended or self._expected <= self._lost.keys():  # nothing was launched after the fill
            return False
        for phase, seen in ended.finished(is_over):
            self._write(phase, seen)
        if is_over:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.directory.file(SCHEDULE_FILE))
            self.keep_clocks(self._after, ended.is_interrupted)
        return ended.is_interrupted

    def _write(self, phase: PhaseResults, seen: t.Mapping[str, t.Any]) -> None:
        document = phase.document()
        self._machines.take(document, seen)
        self.directory.write_phase(document)
        for line in report_text.outcome(document):
            self.say(line)

    def keep_clocks(self, after: t.Mapping[str, t.Any], is_interrupted: bool) -> None:
        """Keep the clocks that were read after the last phase, by host, next to those before the run.

        What a host did not return of an interrupted schedule is measured again.
        """
        run = self.directory.read_json("run.json")
        unread = {"error": "the host returned no result"}
        run["sessions"][-1]["clocks"] = {
            host: {"before": before._asdict(), "after": after.get(host, unread)}
            for host, before in sorted(self._clocks.before.items())
            if host in after or not is_interrupted
        }
        self.directory.write_json("run.json", run)

    def finish(self) -> None:
        """Publish what has been measured, because the playbook ended before its report."""
        self.end_schedule(is_over=False)
        publish(self.directory, self.say)

    def close(self) -> None:
        """End what still runs, and unlock the directory of the run."""
        self.stop()
        self._lock.close()
