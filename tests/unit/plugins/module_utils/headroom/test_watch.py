# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watch installs and removes, in a directory that stands for a host; systemctl is only recorded."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import watch

DIRECTORY = "/var/lib/prometheus/node-exporter"


@pytest.fixture
def calls():
    return []


@pytest.fixture
def host(tmp_path, calls):
    (tmp_path / DIRECTORY[1:]).mkdir(parents=True)
    (tmp_path / "etc/systemd/system").mkdir(parents=True)

    def run(command, **_options):
        calls.append(command[1:])
        return 0, "", ""

    return watch.Watch(run, str(tmp_path))


def everything(tmp_path):
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))


def test_a_second_time_changes_nothing(host, calls):
    assert set(host.missing(DIRECTORY)) == set(watch.wanted(DIRECTORY))
    host.install(DIRECTORY)

    assert host.missing(DIRECTORY) == []
    assert calls == [
        ["daemon-reload"],
        ["restart", "memstretch-headroom.timer"],
        ["start", "memstretch-headroom.service"],
    ]


def test_absent_leaves_nothing(host, calls, tmp_path):
    before = everything(tmp_path)
    host.install(DIRECTORY)
    for path in (f"{DIRECTORY}/{watch.METRICS_FILE}", watch.watch_program.STATE):
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_text("x", encoding="utf-8")
    assert f"{DIRECTORY}/{watch.METRICS_FILE}" in host.installed()
    calls.clear()
    host.remove()

    left = set(everything(tmp_path)) - set(before)
    assert left <= {"run", "usr", "usr/local", "usr/local/bin", "usr/local/lib"} and host.installed() == []
    assert calls == [["stop", "memstretch-headroom.timer"], ["daemon-reload"]]


def test_files_of_others_are_not_touched(host, tmp_path):
    foreign = tmp_path / watch.SERVICE[1:]
    foreign.write_text("[Unit]\n", encoding="utf-8")
    before = everything(tmp_path)
    for work in (lambda: host.install(DIRECTORY), host.remove):
        with pytest.raises(watch.WatchError, match="was not written by headroom_watch; it was not touched"):
            work()
    assert everything(tmp_path) == before and foreign.read_text("utf-8") == "[Unit]\n"


def test_another_directory_leaves_no_old_metrics(host, tmp_path):
    host.install(DIRECTORY)
    old = tmp_path / DIRECTORY[1:] / watch.METRICS_FILE
    old.write_text("x", encoding="utf-8")
    host.install("/srv/metrics")
    assert not old.exists() and host.missing("/srv/metrics") == []


def test_the_installed_program_runs_alone(host, tmp_path):
    """Without this collection in Python's path."""
    host.install(DIRECTORY)
    program = tmp_path / watch.PROGRAM[1:]
    assert os.access(program, os.X_OK)
    ran = subprocess.run([program, "nonsense"], env={}, capture_output=True, text=True, check=False)
    assert ran.returncode == 3 and ran.stderr.startswith("usage: memstretch-headroom check | write FILE")
    checked = subprocess.run([program, "check"], env={}, capture_output=True, text=True, check=False)
    assert checked.stdout.startswith("MEMORY ") and checked.returncode in (0, 1, 2, 3)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(host, tmp_path):
    host.install(DIRECTORY)
    texts = watch.wanted(DIRECTORY)
    units = [tmp_path / name for name in ("memstretch-headroom.service", "memstretch-headroom.timer")]
    for path, unit in zip((watch.SERVICE, watch.TIMER), units):
        unit.write_text(texts[path].replace(watch.PROGRAM, str(tmp_path / watch.PROGRAM[1:])), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *map(str, units)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="a program of root's needs root")
def test_no_python_that_a_user_can_replace_is_run_as_root(tmp_path):
    """The timer is root's, and the Python of a play may be in a user's virtual environment."""
    place = tmp_path / "venv"
    place.mkdir()
    shutil.copy("/bin/true", place / "python")
    link = tmp_path / "link"
    link.symlink_to(place / "python")
    good = watch.interpreter([str(link)])
    assert good == str(place / "python")
    for path in (place / "python", place):
        mode = path.stat().st_mode
        for change in (lambda each: os.chown(each, 1000, 1000), lambda each, mode=mode: each.chmod(mode | 0o020)):
            change(path)
            with pytest.raises(watch.WatchError, match="could be replaced by others than root"):
                watch.interpreter([str(link)])
            os.chown(path, 0, 0)
            path.chmod(mode)
    assert watch.interpreter([str(link)]) == good
