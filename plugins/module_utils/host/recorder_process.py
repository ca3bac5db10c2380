# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorder of a machine: it samples memory, CPUs and the DRAM budget once a second while a run lasts.

It follows the schedule of the run, as the clients do, and adds samples at the beginning and at the end of each phase,
so that what happened in a phase can be cut out of them. On a host with a DRAM budget it also reclaims in the
background, and fixes the limit after the warm-up. It ends with the schedule, and soon after the last client's schedule
was removed.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import charged_watch, pressure
from ansible_collections.memstretch.density.plugins.module_utils.host.budgeted_host import BudgetedHost
from ansible_collections.memstretch.density.plugins.module_utils.host.cpu_time import each_cpu
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.host.group_reclaim import GroupReclaim
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord, HostRecordError
from ansible_collections.memstretch.density.plugins.module_utils.host.recorder import MAX_BYTES, SAMPLES, Phases

INTERVAL_S = 1.0
# A longer schedule is sampled less often, so that the file stays small.
MOST_SAMPLES = 20_000
# How soon it notices that it is released, or no longer needed.
_ARMED_LOOK_S, _LOOK_S = 0.05, 0.5
# Samples at a phase's bounds lie this much outside of it.
_MARGIN_S = 0.02
# The clients have written their results by then, and the next phase has not begun.
_DECIDE_S = 0.3
# The last phase may end late.
_AFTER_S = 2.0


class Recorder:
    """The process that samples."""

    def __init__(
        self,
        session: str,
        phases: Phases,
        release_within: float,
        decide: t.Callable[[str], None] | None,
        record_directory: str | None,
    ) -> None:
        self._session, self._phases, self._decide = session, phases, decide
        self._release_by = time.monotonic() + release_within
        total = phases[-1]["at"] + phases[-1]["seconds"]
        self._interval = max(INTERVAL_S, total / MOST_SAMPLES)
        self._record_directory = record_directory
        self._budget: BudgetedHost | None = None
        self._reclaim: GroupReclaim | None = None
        self._descriptor = os.open(
            os.path.join(session, SAMPLES), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._written = 0
        self._number = 0

    def run(self) -> None:
        start = self._wait_for_release()
        if start is None:
            return
        self._budget = _budget(self._record_directory)  # its limit is set after the fill
        try:
            self._begin_reclaim()
            for due, act in self._events(start):
                if not self._sleep_until(due):
                    return
                act()
        except BudgetError as error:
            self._write({"error": str(error)})
        finally:
            if self._reclaim:
                self._reclaim.stop()  # not while the limit is lowered

    def _is_wanted(self) -> bool:
        return bool(glob.glob(os.path.join(glob.escape(self._session), "*", "schedule")))

    def _wait_for_release(self) -> float | None:
        """Return the monotonic time of the start; None if the session is never released."""
        while time.monotonic() < self._release_by and self._is_wanted():
            for path in glob.glob(os.path.join(glob.escape(self._session), "*", "schedule.start")):
                with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as stream:
                    return time.monotonic() + float(stream.read(64)) - time.time()
            time.sleep(_ARMED_LOOK_S)
        return None

    def _sleep_until(self, due: float) -> bool:
        """Return False once nobody wants the samples."""
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))
            if not self._is_wanted():
                return False
        return self._is_wanted() and self._written < MAX_BYTES

    def _events(self, start: float) -> list[tuple[float, t.Callable[[], None]]]:
        """List what is due and when, in the order of time."""
        events: list[tuple[float, t.Callable[[], None]]] = []
        end = start
        for phase in self._phases:
            begin, name = start + phase["at"], phase["name"]
            if phase.get("refit") and self._budget:
                events.append((max(end + _MARGIN_S, begin - phase["refit"]), self._fit))
            end = begin + phase["seconds"]
            before = functools.partial(self._sample, {"phase": name, "moment": "before"})
            events.append((begin - _MARGIN_S, before))
            events.append((end + _MARGIN_S, functools.partial(self._end_of, name)))
            if self._decide:
                events.append((end + _DECIDE_S, functools.partial(self._decide, name)))
        ticks = int((end - start + _AFTER_S) / self._interval)
        events += [(start + number * self._interval, self._sample) for number in range(ticks)]
        return sorted(events, key=lambda event: event[0])

    def _begin_reclaim(self) -> None:
        if self._budget and self._budget.group and self._budget.group.exists():
            self._reclaim = GroupReclaim(self._budget.group, own_session=True)
            self._reclaim.start()

    def _fit(self) -> None:
        """Bring the fleet within its budget again: what the warm-up moved to compressed memory has changed the sum."""
        if self._reclaim:
            self._reclaim.stop()
        if self._budget:
            self._budget.set_limit("fitted", False)
        self._begin_reclaim()

    def _end_of(self, name: str) -> None:
        self._sample({"phase": name, "moment": "after"})
        if self._budget:
            check = self._budget.host_check(charged_watch.private_bytes(os.getpid()))
            self._write({"budget_of": name, "document": self._budget.document(), "host_check": check})

    def _sample(self, mark: t.Mapping[str, t.Any] | None = None) -> None:
        sample: dict[str, t.Any] = {**(mark or {}), "pressure": pressure.snapshot(), "cpu": _cpu()}
        if self._budget:
            charged = charged_watch.sample(self._budget.charged, self._budget.group, self._reclaim)
            if self._number % 10 == 1:  # all processes are looked through for the clients, so rarely
                charged["client_bytes"] = self._budget.charged.client_bytes()
            sample["charged"] = charged
        self._number += 1
        self._write(sample)

    def _write(self, line: t.Mapping[str, t.Any]) -> None:
        # One write for one line, so that a reader sees whole lines only.
        self._written += os.write(self._descriptor, (json.dumps(line) + "\n").encode())


def _budget(record_directory: str | None) -> BudgetedHost | None:
    """Return this host's DRAM budget; None if there is none, or only root may see it."""
    record = HostRecord("dram_budget", record_directory) if record_directory else HostRecord("dram_budget")
    with contextlib.suppress(PermissionError, HostRecordError, BudgetError):
        return BudgetedHost.find(record)
    return None


def _cpu() -> list[int] | None:
    """Return the ticks of all CPUs together: idle (waiting for I/O included), stolen and all."""
    return [sum(ticks) for ticks in zip(*each_cpu())] or None
