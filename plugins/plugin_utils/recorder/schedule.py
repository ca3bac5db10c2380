# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schedule of a run while it lasts: its phases as their results come in, and what was launched for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import observer
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import PhaseResults

# After Ctrl-C, people wait for the end.
STOP_SECONDS = 1.5
_LOOK_SECONDS = 0.5

_Document = t.Mapping[str, t.Any]


class Launched:
    """What was launched on the hosts, and how to end it without Ansible."""

    def __init__(self) -> None:
        self._commands: dict[tuple[str, str], list[str] | None] = {}
        self._local: dict[tuple[str, str], str] = {}

    def add(self, host: str, role: str, job: _Document, command: list[str] | None) -> None:
        """Note what was launched on a host."""
        self._commands[host, role] = command
        schedule = os.path.join(job["path"], "schedule")
        # Not if it belongs to root, and this playbook does not: then it can never be seen.
        if command and command[0] == "/bin/sh" and os.path.exists(schedule):
            self._local[host, role] = schedule

    def forget(self, host: str, role: str) -> None:
        """Note that nothing of this is running."""
        self._commands.pop((host, role), None)
        self._local.pop((host, role), None)

    def __len__(self) -> int:
        return len(self._commands)

    @property
    def has_ended(self) -> bool:
        """Whether everything was launched on this machine, and has been ended before its time."""
        return (
            bool(self._local)
            and len(self._local) == len(self._commands)
            and not any(map(os.path.exists, self._local.values()))
        )

    def stop(self) -> list[str]:
        """End everything within STOP_SECONDS; return the hosts that could not be reached in this time."""
        running, missed = [], []
        for (host, _role), command in self._commands.items():
            if command is None:
                missed.append(host)
                continue
            with contextlib.suppress(OSError):
                running.append((host, subprocess.Popen(command, **_DETACHED)))
        deadline = time.monotonic() + STOP_SECONDS
        for host, process in running:
            try:
                if process.wait(max(0.0, deadline - time.monotonic())) != 0:
                    missed.append(host)
            except subprocess.TimeoutExpired:
                missed.append(host)
        self._commands, self._local = {}, {}
        return sorted(set(missed))


# A second Ctrl-C must not reach these.
_DETACHED: dict[str, t.Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.DEVNULL,
    "stderr": subprocess.DEVNULL,
    "start_new_session": True,
}


class Schedule:
    """The phases of one schedule.

    Args:
        plan: what the action C(benchmark_schedule) returned.
        begin: makes the results of a phase from its entry in the plan.

    Attributes:
        plan: see there.
        start_at: the start of the first phase by the clock of the controller; None as long as it was not released.
        phases: by name.
        is_interrupted: whether another session has begun it.
    """

    def __init__(self, plan: _Document, begin: t.Callable[[_Document], PhaseResults]) -> None:
        self.plan = plan
        self.start_at: float | None = plan.get("start_at")
        self.is_interrupted = self.start_at is not None
        self.phases = {entry["name"]: begin(entry) for entry in plan["phases"]}
        self._at = {entry["name"]: entry["at"] for entry in plan["phases"]}
        self._ended: set[str] = set()
        self._seen: dict[str, dict[str, _Document]] = {name: {} for name in self.phases}
        self._observed: dict[tuple[str, str], dict[str, t.Any]] = {}
        if self.start_at is not None:
            self.start(self.start_at)

    def start(self, start_at: float) -> None:
        """Set the start."""
        self.start_at = start_at
        for name, phase in self.phases.items():
            phase.start_at = round(start_at + self._at[name], 6)

    @property
    def ends_at(self) -> float:
        """When the last phase should be over."""
        return (self.start_at or time.time()) + self.plan["seconds"]

    def collect(self, host: str, role: str, document: _Document, clock: _Document | None) -> None:
        """Add what a host returned for all phases: of its client, of its observer, or of the machine."""
        for entry in document["phases"]:
            phase = self.phases.get(entry["phase"])
            if phase is None:
                continue
            if role == "observer":
                self._observed[host, entry["phase"]] = observer.excerpt(entry)
                continue
            self._take(host, phase, entry, clock)
        if role == "client":
            self._revive(host)
        machine = document["machine"]
        if machine and (machine["own"] or role == "machine"):
            for name, seen in machine["phases"].items():
                if name in self.phases:
                    self._see(host, name, machine["machine"], seen)

    def _take(self, host: str, phase: PhaseResults, entry: _Document, clock: _Document | None) -> None:
        measured: dict[str, t.Any] = entry.get("solotest") or {}
        if entry.get("ended") or (self.is_interrupted and "solotest" not in entry):
            self._ended.add(phase.phase["name"])
        if entry.get("failed"):
            phase.fail(host, entry["msg"], measured or None)
            return
        measured["collected"] = clock
        observed = self._observed.get((host, phase.phase["name"]))
        if observed:
            measured["observed"] = observed
        phase.add(host, measured, entry.get("packed"))

    def _revive(self, host: str) -> None:
        """Take back that a host has died in a phase if it was measured in a later one: then it was only too slow."""
        phases = list(self.phases.values())
        measured = [number for number, phase in enumerate(phases) if host in phase.results]
        for phase in phases[: max(measured, default=0)]:
            phase.died.discard(host)

    def _see(self, host: str, name: str, machine: str, seen: _Document) -> None:
        phase = self.phases[name]
        if "charged_dram" in seen:
            phase.charged[machine] = dict(seen["charged_dram"])
        if "over_time" in seen:
            phase.over_time[machine] = seen["over_time"]
        if "pressure" in seen:
            self._seen[name][host] = {"machine": machine, "pressure": seen["pressure"]}

    def fail(self, host: str, message: str, died: bool) -> None:
        """Record that a host failed: in all phases of which it has not returned a result."""
        for name, phase in self.phases.items():
            if host in phase.results or host in phase.failed:
                continue
            phase.fail(host, message, None, died)
            if self.is_interrupted:
                self._ended.add(name)  # it is measured again

    def finished(self, is_over: bool) -> t.Iterator[tuple[PhaseResults, dict[str, _Document]]]:
        """Return the phases that were measured, in their order, each with what was seen of machines, by host.

        Args:
            is_over: whether nothing more arrives. A host without a result has then failed.
        """
        for name, phase in self.phases.items():
            if name in self._ended:  # somebody ended it early, so that it was not measured
                continue
            if phase.complete or (is_over and (phase.results or phase.failed)):
                yield phase, self._seen[name]
                if self.start_at is None:
                    return  # nothing was loaded: the first phase says why

    def wait(self, launched: Launched, begin: t.Callable[[_Document, float], None]) -> None:
        """Sleep until the end of the last phase, or until all clients were ended.

        Args:
            launched: what runs.
            begin: called at the beginning of each phase with its entry and the seconds until the end of the schedule.
        """
        start_at = t.cast("float", self.start_at)
        for entry in self.plan["phases"]:
            if not self._sleep_until(start_at + entry["at"], launched):
                return
            if time.time() < self.start_at + entry["at"] + entry["seconds"]:
                begin(entry, self.ends_at - time.time())
        self._sleep_until(self.ends_at, launched)

    def _sleep_until(self, due: float, launched: Launched) -> bool:
        while (left := due - time.time()) > 0:
            if launched.has_ended:
                return False
            time.sleep(min(left, _LOOK_SECONDS))
        return True
