# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client that follows the schedule of a run by this host's own clock, and the files through which it is steered.

Each session of a run has a directory on each machine, and in it each Redis that is loaded from there has its own:

=============== ==================================================================================================
schedule        what the client does when; once this file is gone, the client and the machine's recorder end
schedule.start  the time of the start, written by the controller when all clients are armed
output          one JSON line when the client is armed, one for each finished phase, one at its end
errors          anything else that the client printed
launched.json   what is needed to read the output
=============== ==================================================================================================

The directory is in /run or /tmp, so nothing is left of it after a boot. What nobody collects is removed by the first
session that begins more than a day later.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import glob
import json
import os
import re
import select
import shutil
import signal
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import pressure as memory_pressure
from ansible_collections.memstretch.density.plugins.module_utils.host import recorder
from ansible_collections.memstretch.density.plugins.module_utils.host.background import detach, is_running
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    private_directory,
    read_file,
    write_file,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client, futility
from ansible_collections.memstretch.density.plugins.module_utils.solotest import placement as client_placement
from ansible_collections.memstretch.density.plugins.module_utils.solotest.client import ClientError

SCHEDULE, START, OUTPUT, ERRORS, LAUNCHED = "schedule", "schedule.start", "output", "errors", "launched.json"
# A client that cannot connect tries for five seconds; the rest is for a machine that pages.
ARM_SECONDS = 60.0
# The client prints at most about 200 KB for a phase.
MAX_OUTPUT = 256 * 2**20
_MAX_LAUNCHED = 2**20
_LOOK_SECONDS = 0.02
# A run that was not resumed within this time is over.
_ABANDONED_SECONDS = 86_400.0
_SESSION = re.compile(r"[0-9a-f]{8,64}")
_MEMBER = re.compile(r"[0-9]{1,6}[om]?")


class NotArmed(ClientError):
    """A client cannot load its Redis.

    Args:
        text: what to do.
        error: C(kind) and C(message), as the client printed them.
    """

    def __init__(self, text: str, error: t.Mapping[str, str]) -> None:
        super().__init__(text)
        self.error = dict(error)


class Job(t.NamedTuple):
    """One client of a session, or a machine that is only recorded.

    Attributes:
        session: the directory of all jobs of the session on this machine.
        path: the directory of this one.
    """

    session: str
    path: str

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)


def find(session: str, member: str) -> Job:
    """Return a job of this machine, which need not exist.

    Raises:
        ClientError: the names cannot be those of a job.
    """
    if not _SESSION.fullmatch(session) or not _MEMBER.fullmatch(member):
        raise ClientError(f"session, member: {session!r}, {member!r} are not the names of a job")
    directory = os.path.join(private_directory(), f"session-{session}")
    return Job(directory, os.path.join(directory, member))


def text(phases: t.Sequence[t.Mapping[str, t.Any]], options: t.Mapping[str, t.Any], release_within: float) -> str:
    """Return a schedule as the client reads it; files/solotest/schedule.h describes it."""
    lines = ["solotest-schedule 1", f"release_within {release_within:g}"]
    for phase in phases:
        words = {
            "at": client.plain(float(phase["at"])),
            "requests": options["requests"] or max(1, round(phase["seconds"] * options["rate"])),
            "influence": client.plain(float(phase["influence"])),
            "read_mix": phase["read_mix"],
            "max_seconds": client.plain(float(phase["max_seconds"])),
        }
        lines.append(" ".join(["phase", phase["name"], *(f"{name}={value}" for name, value in words.items())]))
    return "\n".join(lines) + "\n"


def launch(
    job: Job,
    options: t.Mapping[str, t.Any] | None,
    executable: str | None,
    phases: t.Sequence[t.Mapping[str, t.Any]],
    release_within: float,
    stop: t.Mapping[str, t.Any] | None,
    run_command: RunCommand,
) -> dict[str, t.Any]:
    """Launch a client, and the recorder of the machine if it does not run; return when the client is armed.

    Args:
        job: what is launched.
        options: of the module C(solotest); None to record only.
        executable: path of the client.
        phases: name, at and seconds of each, from the start on; and influence, read_mix and max_seconds. None of them
            for a fill, which begins at once.
        release_within: the client ends if it is not released within this many seconds.
        stop: C(slo) and C(total), the number of requests of a cell, if all clients of this machine are ended once one
            of them can no longer meet its SLO.
        run_command: AnsibleModule's method.

    Returns:
        C(pid) of the client, None without one, and the C(path) of the job.

    Raises:
        NotArmed: its Redis does not answer, or refuses it.
        ClientError: it is launched already, or cannot be launched.
    """
    _make(job)
    try:
        pid = None
        if phases:
            plan = text(phases, options or {"requests": 1}, release_within)
            write_file(job.file(SCHEDULE), plan, 0o600)
            recorder.ensure(job.session, phases, release_within, _Decision(job.session, phases, stop) if stop else None)
        if options is not None and executable is not None:
            pid = _start(job, options, executable, phases, run_command)
            if phases:
                _wait_until_armed(job, options, pid)
        return {"pid": pid, "path": job.path}
    except BaseException:
        remove(job)
        raise


def _make(job: Job) -> None:
    """Make the directory of a job, and that of the session. The end of another job may just remove the latter."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(job.session, 0o700)
            _remove_abandoned(job.session)
        with contextlib.suppress(FileNotFoundError), _locked(job.session):
            try:
                os.mkdir(job.path, 0o700)
            except FileExistsError:
                raise ClientError(f"{job.path} exists: this was launched already") from None
            return


def _start(
    job: Job,
    options: t.Mapping[str, t.Any],
    executable: str,
    phases: t.Sequence[t.Mapping[str, t.Any]],
    run_command: RunCommand,
) -> int:
    """Start the client in the background and return its pid."""
    cpu = client.choose_cpu(options, executable, run_command)
    # What differs from phase to phase is in the schedule.
    of_phases = dict.fromkeys(("requests", "duration", "max_seconds", "start_at"))
    argv = client.command({**options, **(of_phases if phases else {})}, executable, cpu)
    if phases:
        argv.insert(1, f"--schedule={job.file(SCHEDULE)}")
    before = memory_pressure.snapshot()
    with client.endpoint_lock(options, executable) as lock:
        environment = {**os.environ}
        if options["password"] is not None:
            environment["SOLOTEST_PASSWORD"] = options["password"]
        pid = detach(lambda: _become_client(job, argv, environment, lock))
        os.pwrite(lock, json.dumps({"pid": pid, "run_id": options["run_id"]}).encode(), 0)
    shown = {name: value for name, value in options.items() if name != "password"}
    names = [phase["name"] for phase in phases]
    document = {"options": shown, "cpu": cpu, "pid": pid, "phases": names, "before": before}
    write_file(job.file(LAUNCHED), json.dumps(document), 0o600)
    return pid


def _become_client(job: Job, argv: t.Sequence[str], environment: dict[str, str], lock: int) -> None:
    """Replace this process by the client. It inherits the lock, which lasts as long as it does."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(job.file(OUTPUT), flags, 0o600), 1)
    os.dup2(os.open(job.file(ERRORS), flags, 0o600), 2)
    os.set_inheritable(lock, True)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
    try:
        os.execve(argv[0], list(argv), environment)
    except OSError as error:
        os.write(2, f"cannot run the client {argv[0]}: {error.strerror}; is it built for this host?\n".encode())


class _Decision:
    """Ends all clients of a session on this machine as soon as one of them can no longer meet its SLO."""

    def __init__(self, session: str, phases: t.Sequence[t.Mapping[str, t.Any]], stop: t.Mapping[str, t.Any]) -> None:
        self._session = session
        self._phases = {phase["name"]: phase for phase in phases}
        self._watches: dict[str, futility.Watch] = collections.defaultdict(
            lambda: futility.Watch(stop["slo"], stop["total"], stop["hosts"])
        )

    def __call__(self, name: str) -> None:
        """Look at the phase that has ended."""
        phase = self._phases[name]
        if phase["kind"] != "iteration":
            return
        for entry in [entry for entry in os.scandir(self._session) if entry.is_dir()]:
            latency = _latency_of(Job(self._session, entry.path), name)
            if latency and self._watches[entry.name].add((phase["influence"], phase["read_mix"]), latency):
                for each in glob.glob(os.path.join(glob.escape(self._session), "*", SCHEDULE)):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(each)
                return


def _latency_of(job: Job, name: str) -> dict[str, t.Any] | None:
    """Return the latencies of a phase that has ended without an error."""
    try:
        line = next((line for line in reversed(_lines(job)) if line.get("phase") == name), None)
        return client.latency(line["test"]) if line and not line["error"] and line["test"] else None
    except ClientError:
        return None


def _wait_until_armed(job: Job, options: t.Mapping[str, t.Any], pid: int) -> None:
    deadline = time.monotonic() + ARM_SECONDS
    while not (lines := _lines(job)):
        if not is_running(pid) and not _lines(job):
            raise ClientError(_silent(job, pid))
        if time.monotonic() > deadline:
            _end(pid)
            raise ClientError(f"the client (pid {pid}) was not armed within {ARM_SECONDS:g} s")
        time.sleep(_LOOK_SECONDS)
    if not lines[0].get("armed"):
        error = lines[0]["error"]
        raise NotArmed(client.explain(options, error), error)


def _silent(job: Job, pid: int) -> str:
    """Return why a client that has ended printed nothing."""
    with contextlib.suppress(FileNotFoundError):
        printed = read_file(job.file(ERRORS), 4000).decode(errors="replace").strip()
        if printed:
            return printed
    return f"the client (pid {pid}) ended without a result"


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _launched(job: Job) -> dict[str, t.Any]:
    """Return the document that was written at the launch."""
    noted: dict[str, t.Any] = json.loads(read_file(job.file(LAUNCHED), _MAX_LAUNCHED))
    return noted


def _lines(job: Job) -> list[dict[str, t.Any]]:
    """Return the whole lines of the output.

    Raises:
        ClientError: there are too many of them, or one is damaged.
    """
    try:
        content = read_file(job.file(OUTPUT), MAX_OUTPUT + 1)
    except FileNotFoundError:
        return []
    if len(content) > MAX_OUTPUT:
        raise ClientError(f"{job.file(OUTPUT)} is larger than {MAX_OUTPUT // 2**20} MiB")
    whole = content[: content.rfind(b"\n") + 1]
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise ClientError(f"{job.file(OUTPUT)} is damaged: {error}") from None


def collect(job: Job, first: int, until: int | None, wait: float) -> dict[str, t.Any]:
    """Return the measurements of a client, and what the machine's recorder has seen of them.

    Args:
        job: what was launched.
        first: the phases before this one are left out.
        until: the phases from this one on are left out, and those before it are waited for; None for all of the
            schedule, after which nothing of the job is left on this machine.
        wait: at most this many seconds.

    Returns:
        C(phases), the result of the module C(solotest) for each; and C(machine), what recorder.read() returns, from
        one job of each machine.

    Raises:
        ClientError: there is no such job.
    """
    try:
        launched = _launched(job)
    except FileNotFoundError:
        launched = None
        if not os.path.isdir(job.path):
            raise ClientError(f"{job.path} does not exist: was the machine booted since the launch?") from None
    names = (launched or recorder.plan(job.session))["phases"]
    last = len(names) if until is None else until
    if launched:
        _wait_for(job, launched["pid"], names[last - 1] if names and until is not None else None, wait)
    machine = recorder.read(job.session, names[first:last]) if names else None
    phases = _results(job, launched, names[first:last], machine) if launched else []
    if machine:
        machine["own"] = recorder.is_of(job.session, job.path)
    if until is None:
        remove(job)
    return {"phases": phases, "machine": machine}


def fill(
    job: Job, options: t.Mapping[str, t.Any], executable: str, wait: float, run_command: RunCommand
) -> dict[str, t.Any]:
    """Fill a Redis, or go on waiting for a fill that was begun.

    Args:
        job: its directory is used again for what is launched after the fill.
        options, executable, run_command: see launch().
        wait: at most this many seconds.

    Returns:
        What collect() returns; if the fill goes on, what launch() does.

    Raises:
        ClientError: see launch().
    """
    try:
        launched = _launched(job)
    except FileNotFoundError:
        launched = {"phases": None}
    if launched["phases"] == []:
        begun = {"pid": launched["pid"], "path": job.path}
    else:
        begun = launch(job, options, executable, [], 0, None, run_command)
    _wait_for(job, begun["pid"], None, wait)
    return begun if is_running(begun["pid"]) else collect(job, 0, None, 0)


def _wait_for(job: Job, pid: int, phase: str | None, wait: float) -> None:
    """Wait for the end of a phase, or of the client."""
    deadline = time.monotonic() + wait
    while is_running(pid) and time.monotonic() < deadline:
        if phase is not None and any(line.get("phase") == phase for line in _lines(job)):
            return
        time.sleep(5 * _LOOK_SECONDS)


def _results(
    job: Job, launched: t.Mapping[str, t.Any], names: t.Sequence[str], machine: t.Mapping[str, t.Any] | None
) -> list[dict[str, t.Any]]:
    """Return the result of each phase, or of the fill."""
    options, cpu, pid = launched["options"], launched["cpu"], launched["pid"]
    lines = _lines(job)
    if not launched["phases"]:  # a fill
        if not lines:
            return [{"phase": options["phase"], "failed": True, "msg": _unfinished(job, pid, lines)}]
        change = memory_pressure.difference(launched["before"], memory_pressure.snapshot())
        return [{"phase": options["phase"], **_result(options, lines[0], options["phase"], change, cpu)}]
    hot_sets: dict[str, t.Any] = {}
    for line in lines:
        hot_sets.update(line.get("hot_sets") or {})
    reports = {line["phase"]: line for line in lines if "phase" in line}
    by_influence = {reports[name]["settings"]["influence"]: hot for name, hot in hot_sets.items() if name in reports}
    found = []
    for name in names:
        report = reports.get(name)
        if report is None:
            found.append(
                {"phase": name, "failed": True, "msg": _unfinished(job, pid, lines), "ended": _was_ended(lines)}
            )
            continue
        if report["test"] and not report["test"].get("hot_set"):
            report["test"]["hot_set"] = by_influence.get(report["settings"]["influence"])
        seen = (machine or {}).get("phases", {}).get(name) or {}
        change = seen.get("pressure") or {"counters": {}, "gauges": {}, "doubtful": []}
        ended = (report["error"] or {}).get("kind") == "interrupted"
        found.append({"phase": name, **_result(options, report, name, change, cpu), "ended": ended})
    return found


def _was_ended(lines: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Decide whether somebody ended the client before its schedule did."""
    return bool(lines) and lines[-1].get("ended") in ("removed", "signal", "not_released")


def _unfinished(job: Job, pid: int, lines: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    if is_running(pid):
        return f"the client (pid {pid}) has not ended yet"
    ended = lines[-1].get("ended") if lines else None
    if ended and ended != "done":
        texts = {
            "removed": "its schedule was removed",
            "signal": "it was ended by a signal",
            "not_released": "the start was never set",
        }
        return f"the client ended before this phase: {texts.get(ended, ended)}"
    return _silent(job, pid)


def _result(
    options: t.Mapping[str, t.Any],
    report: dict[str, t.Any],
    name: str,
    pressure: dict[str, t.Any],
    cpu: int | None,
) -> dict[str, t.Any]:
    """Return the result of a phase as the module C(solotest) returns it."""
    files = memory_pressure.HostFiles()
    try:
        measured = client.facts(report, name, pressure, client_placement.describe(files, options, report, cpu))
    except ClientError as error:
        return {"failed": True, "msg": str(error)}
    if "wall_offset" in report:
        measured["wall_offset"] = report["wall_offset"]
    result: dict[str, t.Any] = {"changed": options["mode"] == "fill", "solotest": measured}
    if measured["error"]:
        result.update(failed=True, msg=client.explain(options, measured["error"]))
    return result


def is_unread(descriptor: int) -> bool:
    """Decide whether the reader of a pipe or socket has gone: the playbook that would learn of a job was ended."""
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _descriptor, event in poller.poll(0))


def stop(job: Job) -> None:
    """End the client and, with the last job, the recorder, and forget what they have written."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(job.file(SCHEDULE))
        launched = _launched(job)
        if client.is_running(launched["pid"], launched["options"]["executable"]):
            _end(launched["pid"])
    remove(job)


def remove(job: Job) -> None:
    """Remove the files of a job, and those of the session after its last one."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        client.remove_lock(_launched(job)["options"])
    shutil.rmtree(job.path, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError), _locked(job.session):
        if not any(entry.is_dir() for entry in os.scandir(job.session)):
            shutil.rmtree(job.session, ignore_errors=True)


@contextlib.contextmanager
def _locked(session: str) -> t.Iterator[None]:
    """Keep others from making or removing jobs of a session.

    Raises:
        FileNotFoundError: its directory was removed in the meantime; there may be another one of this name.
    """
    descriptor = os.open(session, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not os.path.samestat(os.fstat(descriptor), os.stat(session)):
            raise FileNotFoundError(session)
        yield
    finally:
        os.close(descriptor)


def _remove_abandoned(session: str) -> None:
    """Remove the other sessions that nobody has collected for a day, and of which nothing runs any more."""
    for other in glob.glob(os.path.join(glob.escape(os.path.dirname(session)), "session-*")):
        changed = _last_change(other)
        if changed and time.time() - changed > _ABANDONED_SECONDS and not _is_running(other):
            for path in glob.glob(os.path.join(glob.escape(other), "*", "")):
                remove(Job(other, path))
            shutil.rmtree(other, ignore_errors=True)


def _last_change(session: str) -> float:
    """Return when something in a session was written, in seconds since the epoch; 0 if it was removed."""
    below = os.path.join(glob.escape(session), "*")
    changes = [0.0]
    for path in (session, *glob.glob(below), *glob.glob(os.path.join(below, "*"))):
        with contextlib.suppress(FileNotFoundError):
            changes.append(os.lstat(path).st_mtime)
    return max(changes)


def _is_running(session: str) -> bool:
    """Check whether the recorder or a client of a session runs."""
    for path in glob.glob(os.path.join(glob.escape(session), "*", LAUNCHED)):
        with contextlib.suppress(FileNotFoundError, ValueError):
            launched = _launched(Job(session, os.path.dirname(path)))
            if client.is_running(launched["pid"], launched["options"]["executable"]):
                return True
    return recorder.is_running(session)
