# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks that nobody else can hold, and whose holder is named."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import locks
from ansible_collections.memstretch.density.plugins.module_utils.host.files import private_directory
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import LockError, locked, open_lock

HOLD = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('locked', flush=True); input()"


@pytest.fixture
def hold():
    """A function that starts a process which locks a file or a directory until the test ends."""
    processes = []

    def start(path):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD.replace("open(sys.argv[1])", "__import__('os').open(sys.argv[1], 0)"), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "locked\n"
        return process.pid

    yield start
    for process in processes:
        process.communicate("\n")


def path_of_lock():
    """Return the path of the lock that this process has."""
    targets = [os.readlink(link.path) for link in os.scandir("/proc/self/fd")]
    (path,) = [target for target in targets if target.startswith(private_directory() + "/")]
    return path


def lock_of(subject):
    with locked(subject):
        return path_of_lock()


def test_a_lock_on_what_is_protected_keeps_nobody_waiting(tmp_path, hold):
    """Any user who can read a file or a directory can lock it."""
    hold(str(tmp_path))
    with locked(str(tmp_path), timeout=0):
        pass


def test_a_wait_ends_and_names_the_holder(tmp_path, hold):
    path = lock_of(str(tmp_path))
    os.close(open_lock(path))
    pid = hold(path)
    text = rf"^{tmp_path} has been in use for \d s by process {pid} \(python\S*\)\. Wait"
    with pytest.raises(LockError, match=text), locked(str(tmp_path), timeout=0.3):
        pass


def test_others_cannot_open_the_lock(tmp_path):
    with locked(str(tmp_path)):
        path = path_of_lock()
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700


def test_no_file_of_a_lock_is_left(tmp_path):
    path = lock_of(str(tmp_path))
    assert not os.path.lexists(path)
    with pytest.raises(ZeroDivisionError), locked(str(tmp_path)):
        raise ZeroDivisionError
    assert not os.path.lexists(path)


def test_who_waited_for_a_lock_whose_file_was_removed_locks_the_next_one(tmp_path, monkeypatch):
    """Between opening the file and locking it, its holder has removed it, and another process holds a new one."""
    path, before = lock_of(str(tmp_path)), locks.open_lock
    opened = []

    def open_first(name):
        descriptor = before(name)
        if not opened:
            os.unlink(name)
            os.close(before(name))
        opened.append(descriptor)
        return descriptor

    monkeypatch.setattr(locks, "open_lock", open_first)
    with locked(str(tmp_path)):
        assert len(opened) == 2 and locks.is_named(opened[1], path)


@pytest.mark.parametrize("what", ["link", "pipe", "second name", "directory"])
def test_what_is_no_lock_of_ours_is_refused_and_stays_as_it_was(tmp_path, what):
    victim, path = tmp_path / "victim", tmp_path / "lock"
    victim.write_text("precious", encoding="ascii")
    if what == "link":
        path.symlink_to(victim)
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "second name":
        os.link(victim, path)
    else:
        path.mkdir()
    with pytest.raises(OSError, match=r"lock"):
        open_lock(str(path))
    assert victim.read_text(encoding="ascii") == "precious"


def test_two_processes_take_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_POLL_S", 0.01)
    program = (
        "import sys, time\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from ansible_collections.memstretch.density.plugins.module_utils.host.locks import locked\n"
        f"with locked({str(tmp_path)!r}):\n"
        "    print('in', flush=True); time.sleep(0.3); print('out', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "in\n"
        with locked(str(tmp_path), timeout=30):
            assert process.stdout.readline() == "out\n"
