# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record a run: its files are kept up to date while the playbook is running."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.machines import Machines
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.clocks import HostClocks
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA, RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import PhaseResults

# Seconds beyond its load that a phase takes, as long as none has been timed.
FIRST_OVERHEAD_SECONDS = 2.0


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
        self._overheads: list[float] = []
        self.phase: PhaseResults | None = None
        self._expected = frozenset(begun["expected"])
        self.directory.create()
        self._lock = self.directory.lock()
        self._machines = Machines(begun, self.directory)
        self._write_run()
        for line in report_text.opening(begun):
            self.say(line)

    def say(self, line: str) -> None:
        """Print line on the terminal and append it to the log of the run."""
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
        """Begin a phase: the results that follow belong to it."""
        self.end_phase()
        phase = begun["phase"]
        self.phase = PhaseResults(
            self.run["config"],
            phase,
            self.run["expected"],
            self._clocks,
            begun["begun_at"],
            begun["start_at"],
            self._expected,  # which all answered the preflight
        )
        if phase["kind"] != "fill":  # a fill is not watched
            self.phase.budgets = charged_dram.hosts_with_budget(self.run)
        self.say(report_text.beginning(phase, time.monotonic() - self._clock_started, self._remaining(phase)))

    def _remaining(self, current: t.Mapping[str, t.Any]) -> float:
        """Return the load of the remaining phases, plus the mean overhead of the phases so far for each."""
        left = [phase for phase in self.run["phases"] if not phase["finished"] and phase["index"] >= current["index"]]
        overhead = sum(self._overheads) / len(self._overheads) if self._overheads else FIRST_OVERHEAD_SECONDS
        return sum(phase["seconds"] + overhead for phase in left)

    def add(self, host: str, result: dict[str, t.Any], packed: str | None = None) -> None:
        """Add the result of a host to the current phase, and what fleet_sum.pack() returned for it, if anything."""
        if not self.phase:
            return
        mode = "fill" if self.phase.phase["kind"] == "fill" else "test"
        if result["mode"] != mode:
            self.fail(host, f"it returned the result of a {result['mode']}, but this phase is a {mode}")
            return
        self.phase.add(host, result, packed)
        self._end_if_complete()

    def fail(self, host: str, message: str, partial: dict[str, t.Any] | None = None, died: bool = False) -> None:
        """Record that a host failed in the current phase."""
        if self.phase and host in self._expected:
            self.phase.fail(host, message, partial, died)
            self._end_if_complete()

    def add_charged(self, document: dict[str, t.Any]) -> None:
        """Add the charged DRAM of a machine to the current phase."""
        if self.phase:
            self.phase.charged[document["machine"]] = document
            self._end_if_complete()

    def fail_charged(self) -> None:
        """Record that the charged DRAM of a machine could not be fetched in the current phase."""
        if self.phase:
            self.phase.charged_failed = True
            self._end_if_complete()

    def add_pressure(self, reading: dict[str, t.Any]) -> None:
        """Add what was read of the memory of a hypervisor, or of another machine of the run."""
        self._machines.add(reading)
        if reading["moment"] == "after":
            self._end_if_complete()

    def _end_if_complete(self) -> None:
        """End the phase when nothing more can arrive. If all hosts failed, no later task reads the hypervisors."""
        if self.phase and self.phase.complete and not (self._machines.awaited and self.phase.results):
            self.end_phase()

    def end_phase(self) -> None:
        """Merge, judge and write the current phase, if there is one."""
        if not self.phase:
            return
        ended, self.phase = self.phase, None
        document = ended.document()
        self._machines.take(document)
        self.directory.write_phase(document)
        self._overheads.append(max(0.0, time.time() - ended.begun_at - ended.phase["seconds"]))
        for line in report_text.outcome(document):
            self.say(line)

    def end_run(self, ended: dict[str, t.Any]) -> None:
        """Keep the clocks that the action C(benchmark_end) returned, next to those before the run."""
        self.end_phase()
        run = self.directory.read_json("run.json")
        run["sessions"][-1]["clocks"] = {
            host: {
                "before": self._clocks.before[host]._asdict() if host in self._clocks.before else None,
                "after": after,
            }
            for host, after in sorted(ended["clocks"].items())
        }
        self.directory.write_json("run.json", run)

    def finish(self) -> None:
        """Publish what has been measured, because the playbook ended before its report."""
        self.end_phase()
        publish(self.directory, self.say)

    def close(self) -> None:
        """Unlock the directory of the run."""
        self._lock.close()
