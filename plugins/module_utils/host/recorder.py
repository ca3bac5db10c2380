# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorder of a machine while a run lasts: how it is started, and what was seen of each phase.

The work is in recorder_process.py, which only the process that starts the recorder needs. Python compiles what a module
imports each time, and each host runs several modules that only read.
"""

from __future__ import annotations

import json
import os
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import pressure
from ansible_collections.memstretch.density.plugins.module_utils.host.background import detach
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, read_file, write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import lock_if_free

SAMPLES = "recorder.samples"
MAX_BYTES = 64 * 2**20
_PLAN, _LOCK = "recorder.json", "recorder.lock"
_MOST_POINTS = 120

Phases = t.Sequence[t.Mapping[str, t.Any]]


def ensure(
    session: str,
    phases: Phases,
    release_within: float,
    decide: t.Callable[[str], None] | None = None,
    record_directory: str | None = None,
) -> None:
    """Start the recorder of a session on this machine, unless it was started before.

    Args:
        session: the directory of the session.
        phases: name, at and seconds of each; and C(refit), whether the limit of a DRAM budget is set again before it.
        release_within: it ends if the session is not released within this many seconds.
        decide: called after each phase with its name; it may remove the schedules of the clients.
        record_directory: where the record of the DRAM budget is.
    """
    lock = os.open(os.path.join(session, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not lock_if_free(lock):
            return
        if os.path.exists(os.path.join(session, _PLAN)):
            return
        from ansible_collections.memstretch.density.plugins.module_utils.host.recorder_process import Recorder

        names = [phase["name"] for phase in phases]
        write_file(os.path.join(session, _PLAN), json.dumps({"phases": names, "own": _first_job(session)}), 0o600)
        detach(lambda: Recorder(session, phases, release_within, decide, record_directory).run())
    finally:
        os.close(lock)  # the recorder has inherited it


def _first_job(session: str) -> str | None:
    return next((entry.path for entry in os.scandir(session) if entry.is_dir()), None)


def plan(session: str) -> dict[str, t.Any]:
    """Return the names of the C(phases) that are recorded."""
    try:
        found: dict[str, t.Any] = json.loads(read_file(os.path.join(session, _PLAN), MAX_BYTES))
        return found
    except FileNotFoundError:
        return {"phases": [], "own": None}


def is_of(session: str, job: str) -> bool:
    """Decide whether a job reports for its machine, or may since the job that did is gone."""
    own = plan(session)["own"]
    return own is None or own == job or not os.path.isdir(own)


def is_running(session: str) -> bool:
    """Check whether the recorder of a session runs: it holds the lock to its end."""
    try:
        lock = os.open(os.path.join(session, _LOCK), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not lock_if_free(lock)
    finally:
        os.close(lock)


def read(session: str, names: t.Sequence[str]) -> dict[str, t.Any] | None:
    """Return the record of these phases; None if there is none.

    Returns:
        C(machine), the boot id; C(phases), by name: C(pressure) as pressure.difference() returns it, C(charged_dram)
        with a DRAM budget, and C(over_time); each only if it is known.
    """
    try:
        content = read_file(os.path.join(session, SAMPLES), MAX_BYTES)
    except FileNotFoundError:
        return None
    lines = [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]
    return {
        "machine": HostFiles().text("/proc/sys/kernel/random/boot_id"),
        "errors": [line["error"] for line in lines if "error" in line][:5],
        "phases": {name: _cut(lines, name) for name in names},
    }


def _cut(lines: t.Sequence[dict[str, t.Any]], name: str) -> dict[str, t.Any]:
    """Return the record between the two marks of a phase."""
    marks = {
        line["moment"]: number for number, line in enumerate(lines) if line.get("phase") == name and "moment" in line
    }
    if len(marks) < 2:
        return {}
    samples = [line for line in lines[marks["before"] : marks["after"] + 1] if "pressure" in line]
    found: dict[str, t.Any] = {
        "pressure": pressure.difference(samples[0]["pressure"], samples[-1]["pressure"]),
        "over_time": over_time(samples),
    }
    budget = next((line for line in lines if line.get("budget_of") == name), None)
    if budget:
        from ansible_collections.memstretch.density.plugins.module_utils.host import charged_watch

        charged = [sample["charged"] for sample in samples]
        figures = charged_watch.summary(charged, budget["document"]["mechanism"])
        figures["page_ins"] = charged_watch.page_in_series(charged, time.monotonic())
        found["charged_dram"] = {**budget["document"], **figures, "host_check": budget["host_check"]}
    return found


def over_time(samples: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return rows of what happened between samples: page-ins, PSI, CPU and charged DRAM.

    Returns:
        C(age_s), how long ago the first sample was taken; C(rows), at most 120: the seconds since the first sample,
        page-ins a second, the shares of time in which some task waited for memory and for I/O, the shares of the CPUs
        that were busy and stolen, and the charged bytes. What is unknown is None.
    """
    thin = [samples[0], *samples[1:-1][:: -(-max(1, len(samples) - 2) // _MOST_POINTS)], samples[-1]]
    first = samples[0]["pressure"]["clock_s"]
    rows = []
    for before, after in zip(thin, thin[1:]):
        took = after["pressure"]["clock_s"] - before["pressure"]["clock_s"]
        if took <= 0.1:
            continue
        change = pressure.difference(before["pressure"], after["pressure"])["counters"]
        page_ins = [change[name] for name in ("pswpin", "zswpin") if name in change]
        stalls = [change.get(f"psi_{name}_some_us") for name in ("memory", "io")]
        cpu = [later - earlier for earlier, later in zip(before["cpu"] or (), after["cpu"] or ())]
        shares = [round(1 - cpu[0] / cpu[2], 4), round(cpu[1] / cpu[2], 4)] if cpu and cpu[2] > 0 else [None, None]
        rows.append(
            [
                round(after["pressure"]["clock_s"] - first, 3),
                round(sum(page_ins) / took, 1) if page_ins else None,
                *(None if stall is None else round(stall / 1e6 / took, 4) for stall in stalls),
                *shares,
                (after.get("charged") or {}).get("charged_bytes"),
            ]
        )
    return {"age_s": round(time.monotonic() - first, 3), "rows": rows}
