# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program in the place of the client that follows a schedule. tests/local launches the real one."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import stat
import sys
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.background import is_running
from ansible_collections.memstretch.density.plugins.module_utils.solotest import client, schedule
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARGUMENTS

PHASES = [
    {"name": "one", "at": 0, "seconds": 0.2, "influence": 0, "read_mix": 100, "max_seconds": 0.4, "kind": "iteration"},
    {"name": "two", "at": 0.5, "seconds": 0.2, "influence": 10, "read_mix": 70, "max_seconds": 5, "kind": "iteration"},
]
REPORT = """\
def report(phase, error=None):
    health = {"cpus_allowed": "0", "cpu_last": 0}
    settings = {"influence": 0, "read_mix": 100, "rate": 5000, "stagger": 0}
    server = {"redis_version": "7"}
    line({"schema": 1, "mode": "test", "phase": phase, "test": None, "fill": None, "client": {}, "settings": settings,
          "server_before": server, "server_after": server, "client_health": health, "error": error, "wall_offset": 5.5})
"""
BEGINNING = """\
import json, os, sys, time
schedule = next((word.split("=", 1)[1] for word in sys.argv if word.startswith("--schedule=")), "")
def line(document):
    os.write(1, (json.dumps(document) + "\\n").encode())
def wait_for_start():
    line({"schema": 1, "armed": True})
    while not os.path.exists(schedule + ".start"):
        time.sleep(0.01)
        if not os.path.exists(schedule):
            sys.exit()
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "private_directory", lambda: str(tmp_path))
    monkeypatch.setattr(client, "private_directory", lambda: str(tmp_path))
    found = schedule.find("0123456789abcdef", "0")
    yield found
    schedule.stop(found)
    assert not os.path.exists(found.session)


@pytest.fixture
def options():
    given = {name: spec.get("default") for name, spec in ARGUMENTS.items()}
    return {**given, "requests": 1000, "run_id": "r", "password": "secret"}


@pytest.fixture
def program(options, tmp_path):
    """A function that makes a program of some lines of Python, and returns the options with it, and its path."""

    def made(*lines, **changes):
        path = tmp_path / "solotest-of-test"
        path.write_text(f"#!{sys.executable}\n{BEGINNING}{REPORT}" + "\n".join(lines), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return {**options, "executable": str(path), **changes}, str(path)

    return made


@pytest.fixture
def launch(job, program):
    """A function that launches such a program as the client."""

    def launched(*lines, phases=None, record=True, **changes):
        used = program(*lines, **changes) if record else (None, None)
        return schedule.launch(job, *used, PHASES if phases is None else phases, 20, None, None)

    return launched


def release(job):
    pathlib.Path(job.file(schedule.START)).write_text(f"{time.time()}\n", encoding="ascii")


def test_the_schedule_as_the_client_reads_it(options):
    assert schedule.text(PHASES, options, 600).splitlines() == [
        "solotest-schedule 1",
        "release_within 600",
        "phase one at=0 requests=1000 influence=0 read_mix=100 max_seconds=0.4",
        "phase two at=0.5 requests=1000 influence=10 read_mix=70 max_seconds=5",
    ]


def test_the_requests_of_a_phase_follow_from_its_length(options):
    phases = [{**PHASES[0], "seconds": seconds} for seconds in (0.3, 600_000.0, 0.001)]
    lines = schedule.text(phases, {**options, "requests": None, "rate": 0.7}, 600).splitlines()[2:]
    assert [re.findall(r"requests=(\d+)", line) for line in lines] == [["1"], ["420000"], ["1"]]


def test_what_a_client_has_measured_is_collected_and_removed(launch, job):
    launched = launch(
        "assert 'secret' not in ' '.join(sys.argv) and os.environ['SOLOTEST_PASSWORD'] == 'secret'",
        "assert not [word for word in sys.argv if word.startswith('--requests')]",
        "wait_for_start()",
        "report('one')",
        "report('two', {'kind': 'lost', 'message': 'gone'})",
        "line({'schema': 1, 'ended': 'done'})",
    )
    assert is_running(launched["pid"]) and launched["path"] == job.path
    release(job)
    early = schedule.collect(job, 0, 1, 10)
    assert [each["phase"] for each in early["phases"]] == ["one"] and os.path.isdir(job.path)
    one, two = schedule.collect(job, 0, None, 10)["phases"]
    assert one["solotest"]["wall_offset"] == 5.5 and "failed" not in one
    assert two["failed"] and "gone: Redis closed the connection or died" in two["msg"]
    assert not os.path.exists(job.session) and not is_running(launched["pid"])


def test_a_client_that_is_not_armed_says_why_and_leaves_nothing(launch, job):
    error = {"kind": "connect", "message": "refused"}
    with pytest.raises(schedule.NotArmed, match="is Redis running there") as raised:
        launch(f"line({{'schema': 1, 'armed': False, 'error': {error}}})")
    assert raised.value.error == error
    assert not os.path.exists(job.session)
    with pytest.raises(client.ClientError, match="a message of the client"):
        launch("sys.exit('a message of the client')")
    assert not os.path.exists(job.session)


@pytest.mark.parametrize(
    ("lines", "words", "ended"),
    [
        (["os.kill(os.getpid(), 9)"], "ended without a result", False),
        (["report('one')", "line({'schema': 1, 'ended': 'removed'})"], "its schedule was removed", True),
        (["line({'schema': 1, 'ended': 'not_released'})"], "the start was never set", True),
        (["time.sleep(30)"], "has not ended yet", False),
    ],
)
def test_a_phase_without_a_result_says_why(launch, job, lines, words, ended):
    launch("wait_for_start()", *lines)
    release(job)
    *_others, last = schedule.collect(job, 0, None, 1)["phases"]
    assert last["failed"] and words in last["msg"] and last["ended"] is ended


def test_a_fill_begins_at_once(launch, job):
    launched = launch(
        "assert not schedule",
        "fill = {'keys': 5, 'seconds': 1.0}",
        "line({'schema': 1, 'mode': 'fill', 'fill': fill, 'test': None, 'settings': {}, 'client': {}, 'error': None,",
        "      'server_before': None, 'server_after': None, 'client_health': None})",
        phases=[],
        mode="fill",
        phase="fill",
    )
    found = schedule.collect(job, 0, None, 10)
    assert found["machine"] is None and launched["pid"]
    (fill,) = found["phases"]
    assert fill["changed"] and fill["solotest"]["fill"]["keys"] == 5


def test_a_fill_that_goes_on_is_waited_for_again(launch, job, program):
    def fill(wait, *lines):
        return schedule.fill(job, *program(*lines, mode="fill", phase="fill"), wait, None)

    (found,) = fill(20, "sys.exit('the Redis is too small')")["phases"]
    assert found["failed"] and "too small" in found["msg"] and not os.path.exists(job.session)
    begun = fill(0.2, "time.sleep(60)")
    assert is_running(begun["pid"]) and begun["path"] == job.path and fill(0.2, "time.sleep(60)") == begun
    os.kill(begun["pid"], signal.SIGTERM)
    (found,) = fill(20, "time.sleep(60)")["phases"]
    assert found["failed"] and not os.path.exists(job.session)
    launch("wait_for_start()")
    with pytest.raises(client.ClientError, match="launched already"):
        fill(1)


def test_jobs_of_a_session_come_and_go_at_the_same_time(job):
    def churn(member):
        for _turn in range(200):
            own = job._replace(path=os.path.join(job.session, member))
            schedule._make(own)
            assert os.path.isdir(own.path)
            schedule.remove(own)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(churn, "1234"))
    assert not os.path.exists(job.session)


@pytest.mark.parametrize("name", [schedule.OUTPUT, schedule.LAUNCHED])
def test_a_pipe_in_place_of_a_file_holds_nobody(launch, job, name):
    pid = launch("wait_for_start()")["pid"]
    os.unlink(job.file(name))
    os.mkfifo(job.file(name))
    with pytest.raises(OSError, match="no regular file"):
        schedule.collect(job, 0, None, 1)
    os.kill(pid, signal.SIGTERM)
    os.unlink(job.file(name))


def test_an_endless_output_is_not_read(launch, job, monkeypatch):
    pid = launch("wait_for_start()")["pid"]
    monkeypatch.setattr(schedule, "MAX_OUTPUT", 100)
    with open(job.file(schedule.OUTPUT), "ab") as output:
        output.write(b"x" * 1000)
    with pytest.raises(client.ClientError, match="is larger than"):
        schedule.collect(job, 0, 1, 10)
    os.kill(pid, signal.SIGTERM)


def test_a_machine_without_a_client_is_only_recorded(launch, job):
    assert launch(record=False)["pid"] is None
    release(job)
    deadline = time.monotonic() + 20
    while not ((found := schedule.collect(job, 0, 2, 0))["machine"] or {"phases": {"two": {}}})["phases"]["two"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert found["phases"] == [] and found["machine"]["own"] is True
    assert {"pressure", "over_time"} <= set(found["machine"]["phases"]["one"])


def test_what_was_launched_can_be_stopped_and_not_launched_twice(launch, job):
    launched = launch("wait_for_start()")
    with pytest.raises(client.ClientError, match="launched already"):
        launch("wait_for_start()")
    assert is_running(launched["pid"])
    schedule.stop(job)
    deadline = time.monotonic() + 10
    while is_running(launched["pid"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(client.ClientError, match="was the machine booted"):
        schedule.collect(job, 0, None, 0)


@pytest.fixture
def abandoned(job):
    """A function that makes a session of another run, with what its client has written, a number of hours ago."""

    def made(name, hours, pid=None):
        other = schedule.find(name, "3")
        os.makedirs(other.path)
        written = other.file(schedule.OUTPUT)
        pathlib.Path(written).write_text("{}\n", encoding="ascii")
        if pid:
            program = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            document = {"pid": pid, "options": {"executable": program}}
            pathlib.Path(other.file(schedule.LAUNCHED)).write_text(json.dumps(document), encoding="ascii")
        for path in (other.session, other.path, *map(str, pathlib.Path(other.path).iterdir())):
            os.utime(path, (time.time() - 3600 * hours,) * 2)
        return other

    return made


def test_a_playbook_that_was_ended_reads_no_more(tmp_path):
    reader, writer = os.pipe()
    assert not schedule.is_unread(writer)
    os.close(reader)
    assert schedule.is_unread(writer)
    os.close(writer)
    with open(tmp_path / "file", "wb") as stream:
        assert not schedule.is_unread(stream.fileno())


def test_the_next_run_removes_what_nobody_has_collected_for_a_day(launch, job, abandoned, tmp_path):
    old, recent = abandoned("0" * 16, 25), abandoned("1" * 16, 23)
    continued = abandoned("2" * 16, 25)
    os.utime(continued.file(schedule.OUTPUT))
    alive = abandoned("3" * 16, 25, os.getpid())
    (tmp_path / "ramp-of-others").mkdir()
    os.utime(tmp_path / "ramp-of-others", (0, 0))
    launch(record=False)
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    kept = {os.path.basename(each.session) for each in (job, recent, continued, alive)}
    assert left == {"ramp-of-others", *kept} and not os.path.exists(old.session)


def test_a_session_whose_recorder_runs_is_not_removed(launch, job, tmp_path):
    launch(record=False)
    for path in (job.path, *map(str, pathlib.Path(job.path).iterdir()), *map(str, tmp_path.glob("session-*/*"))):
        os.utime(path, (0, 0))
    os.utime(job.session, (0, 0))
    second = schedule.find("f" * 16, "0")
    schedule.launch(second, None, None, PHASES, 20, None, None)
    assert os.path.isdir(job.path)
    schedule.stop(second)


@pytest.mark.parametrize(("session", "member"), [("../0123456789", "0"), ("0123456789abcdef", "../0"), ("", "0")])
def test_names_that_are_paths_are_refused(session, member):
    with pytest.raises(client.ClientError, match="session, member"):
        schedule.find(session, member)
