# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import resource

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run import directory as run_directory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    RunDirectory,
    RunError,
)

PHASE = {"index": 1, "of": 1, "name": "fill", "kind": "fill", "seconds": 1}


@pytest.fixture
def directory(tmp_path):
    made = RunDirectory(str(tmp_path), "run-1")
    made.create()
    return made


def test_latest_points_to_the_newest_run(tmp_path, directory):
    assert os.readlink(tmp_path / "latest") == "run-1"
    RunDirectory(str(tmp_path), "run-2").create()
    assert os.readlink(tmp_path / "latest") == "run-2"
    assert run_directory.latest(str(tmp_path)) is None  # it has no run.json yet
    RunDirectory(str(tmp_path), "run-2").write_json("run.json", {"schema": 1})
    assert run_directory.latest(str(tmp_path)).run_id == "run-2"


@pytest.mark.parametrize("what", ["file", "link", "directory"])
def test_what_somebody_else_calls_latest_stays(tmp_path, what):
    path = tmp_path / "latest"
    if what == "link":
        path.symlink_to("/etc/hostname")
    elif what == "file":
        path.write_text("theirs", encoding="utf-8")
    else:
        path.mkdir()
    before = path.lstat()
    with pytest.raises(RunError, match="latest is not a link to a run"):
        RunDirectory(str(tmp_path), "run-1").create()
    with pytest.raises(RunError, match="latest is not a link to a run"):
        run_directory.check_space(str(tmp_path), 1)
    assert path.lstat() == before and os.listdir(tmp_path) == ["latest"]


def test_writing_the_same_again_changes_nothing(directory):
    assert directory.write_text("a", "text")
    assert not directory.write_text("a", "text")
    assert directory.write_text("a", "other")


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(directory):
    directory.write_text("summary.json", "old")
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, unlimited[1]))
    try:
        with pytest.raises(OSError, match=f"'{directory.file('summary.json')}'$"):
            directory.write_text("summary.json", "new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert pathlib.Path(directory.file("summary.json")).read_text(encoding="utf-8") == "old"
    assert sorted(os.listdir(directory.path)) == ["phases", "summary.json"]


@pytest.mark.parametrize("name", ["../run-1", "/tmp", "a/b", "..", "."])
def test_a_name_from_a_file_of_others_is_no_path(tmp_path, name):
    with pytest.raises(RunError, match="it is not the name of a directory"):
        RunDirectory(str(tmp_path), name)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a directory of another user needs root")


@pytest.fixture
def shared(tmp_path):
    """A directory of results in which everybody may make directories."""
    tmp_path.chmod(0o1777)
    return tmp_path


@pytest.mark.parametrize("work", ["create", "make", "lock", "refuse_others"])
@pytest.mark.parametrize("what", ["link", pytest.param("directory", marks=needs_root)])
def test_a_directory_that_somebody_else_has_made_gets_no_files(shared, tmp_path_factory, what, work):
    """Its names could be links: root would write where these lead."""
    victim, path = tmp_path_factory.mktemp("victim"), shared / "run-1"
    if what == "link":
        path.symlink_to(victim)
    else:
        path.mkdir()
        (path / "phases").symlink_to(victim)
        os.chown(path, 1000, 1000)
    before = sorted(os.listdir(shared))
    with pytest.raises(RunError, match="is not a directory|belongs to user 1000"):
        getattr(RunDirectory(str(shared), "run-1"), work)()
    assert os.listdir(victim) == [] and set(os.listdir(shared)) == set(before)


@needs_root
def test_a_run_that_somebody_else_has_planted_is_not_the_latest(shared):
    planted = RunDirectory(str(shared), "run-1")
    planted.create()
    planted.write_json("run.json", {"schema": 1})
    assert run_directory.latest(str(shared)).run_id == "run-1"
    os.chown(planted.path, 1000, 1000)
    assert run_directory.latest(str(shared)) is None


@needs_root
def test_who_owns_all_results_may_have_made_the_directory(shared):
    """As with sudo in a user's clone, or on a file system that knows one owner only."""
    os.chown(shared, 1000, 1000)
    (shared / "run-1").mkdir()
    os.chown(shared / "run-1", 1000, 1000)
    RunDirectory(str(shared), "run-1").make()


def test_nobody_else_can_put_a_link_into_a_run(tmp_path):
    before = os.umask(0)
    try:
        RunDirectory(str(tmp_path), "run-1").make()
    finally:
        os.umask(before)
    assert (tmp_path / "run-1").stat().st_mode & 0o022 == 0


def test_nobody_else_knows_the_name_of_the_link_before_it_is_renamed(tmp_path):
    (tmp_path / f"latest.{os.getpid()}").mkdir()
    RunDirectory(str(tmp_path), "run-1").create()
    assert os.readlink(tmp_path / "latest") == "run-1"


def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(directory):
    os.mkfifo(directory.file("run.json"))
    with pytest.raises(RunError, match="run.json: this is no regular file"):
        directory.read_json("run.json")
    os.mkfifo(directory.file("log.txt"))
    with pytest.raises(OSError, match="log.txt"):
        directory.append_log("line")


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path, directory):
    target = tmp_path / "target"
    target.write_text("", encoding="utf-8")
    os.symlink(target, directory.file("log.txt"))
    with pytest.raises(OSError, match="log.txt"):
        directory.append_log("line")
    assert target.read_text(encoding="utf-8") == ""


def test_a_full_disk_is_named_with_the_file(directory):
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, unlimited[1]))
    try:
        with pytest.raises(OSError, match=f"'{directory.file('log.txt')}'$"):
            directory.append_log("line" * 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


def test_a_disk_that_is_too_full_for_the_lock_is_named_with_it(directory):
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, unlimited[1]))
    try:
        with pytest.raises(OSError, match=f"'{directory.file('lock')}'$"):
            directory.lock()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


def test_a_measured_phase_is_never_replaced(directory):
    directory.write_phase({"schema": 1, "phase": PHASE, "hosts": {}, "valid": False})
    with pytest.raises(RunError, match="01-fill.json: this phase has been measured"):
        directory.write_phase({"schema": 1, "phase": PHASE, "hosts": {}, "valid": True})
    assert directory.read_phase(PHASE)["valid"] is False
    assert os.listdir(directory.file("phases")) == ["01-fill.json"]


@pytest.mark.parametrize("hosts", [{}, {"a": {"x": 1}}, {"b": {"x": "},\n}}\n"}, "a": {"x": [1, 2]}}])
def test_a_phase_is_read_host_by_host(directory, hosts):
    document = {"schema": 1, "phase": PHASE, "hosts": hosts, "valid": True}
    directory.write_phase(document)
    path = pathlib.Path(directory.file("phases", "01-fill.json"))
    text = path.read_text(encoding="utf-8")
    assert json.loads(text) == document and text.count("\n") == len(hosts) + 2
    assert directory.read_phase(PHASE) == document
    assert directory.read_phase(PHASE, lambda result: result["x"])["hosts"] == {n: r["x"] for n, r in hosts.items()}
    assert directory.read_phase(PHASE, keep=None) == {**document, "hosts": {}}
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(RunError, match="01-fill.json is damaged: its first line does not end where the hosts begin"):
        directory.read_phase(PHASE)
    path.write_text(text[:-3], encoding="utf-8")
    with pytest.raises(RunError, match="01-fill.json is damaged: it is cut off"):
        directory.read_phase(PHASE)


@pytest.mark.parametrize(
    "run_id, number, name", [("dram-1", 2, "dram-1-attempt2"), ("dram-1-attempt9", 10, "dram-1-attempt10")]
)
def test_the_names_of_attempts(run_id, number, name):
    assert run_directory.attempt_name(run_id, number) == name
    assert run_directory.attempt_number(name) == number and run_directory.attempt_number(run_id) == number - 1
    assert run_directory.attempt_name(name, 1) == run_directory.first_attempt(run_id) == "dram-1"


def test_no_text_of_a_file_steers_the_terminal(directory):
    """Others may have written it, and what is read is shown."""
    directory.write_json(
        "run.json", {"schema": 1, "profile\x1b[2J": ["\x1b]0;owned\x07", {"a": "one\n\ttwo\r"}], "n": 1}
    )
    assert directory.read_json("run.json") == {
        "schema": 1,
        "profile?[2J": ["?]0;owned?", {"a": "one\n\ttwo?"}],
        "n": 1,
    }
    document = {"schema": 1, "phase": PHASE, "hosts": {"a": {"error": "\x1b[2J"}}}
    directory.write_phase(document)
    assert directory.read_phase(PHASE)["hosts"] == {"a": {"error": "?[2J"}}


def test_damaged_files_are_named(directory):
    with pytest.raises(RunError, match="run.json: No such file"):
        directory.read_json("run.json")
    for text in ("{", "[" * 100_000):
        directory.write_text("run.json", text)
        with pytest.raises(RunError, match="damaged"):
            directory.read_json("run.json")
    directory.write_text("run.json", '{"schema": 99}')
    with pytest.raises(RunError, match="version"):
        directory.read_json("run.json")


def test_only_one_playbook_at_a_time(directory):
    assert directory.in_use_by() is None
    lock = directory.lock()
    assert directory.in_use_by() == os.getpid()
    with pytest.raises(RunError, match="another playbook"):
        directory.lock()
    lock.close()
    assert directory.in_use_by() is None
    directory.lock().close()


def test_checking_the_space_creates_nothing(tmp_path):
    run_directory.check_space(str(tmp_path / "a" / "b"), 1)
    assert not (tmp_path / "a").exists()
    with pytest.raises(RunError, match="make room"):
        run_directory.check_space(str(tmp_path), 10**12)
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="not a directory"):
        run_directory.check_space(str(tmp_path / "file"), 1)


@pytest.mark.parametrize("mode, fails", [(0o755, False), (0o600, True)])
def test_a_file_system_that_refuses_modes_may_hold_files_that_all_can_read(tmp_path, monkeypatch, mode, fails):
    change = os.chmod
    path = tmp_path / "file"
    path.touch()
    change(path, mode)

    def refuse(*_arguments):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(PermissionError) if fails else contextlib.nullcontext():
        run_directory._make_readable(str(path))
