# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that lets the kernel reclaim. A FIFO is the file whose write takes as long as the test wants."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import reclaim_process
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.host.reclaim_process import ReclaimProcess
from ansible_collections.memstretch.density.tests.unit.fixtures.waiting import LONG_S, wait_until


@pytest.fixture
def process():
    """A process whose caller and servers are in one session."""
    found = ReclaimProcess(own_session=False)
    yield found
    found.stop()


@pytest.fixture
def fifo(tmp_path):
    """Return a file that the process waits at until somebody reads it."""
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    return path


def child(process):
    """Return the number of the process."""
    return process._process.pid


def read(path):
    """Read a file to its end."""
    with open(path, encoding="ascii") as stream:
        stream.read()


def test_it_writes_a_value_to_a_file_with_a_space_in_its_path(process, tmp_path):
    path = tmp_path / "a group" / "memory.reclaim"
    path.parent.mkdir()
    for value in ("1", "4096"):
        process.write(str(path), value)
        assert path.read_text(encoding="ascii") == f"{value}\n"


def test_a_write_that_the_kernel_refuses_is_an_error_and_the_next_one_is_not(process, tmp_path):
    with pytest.raises(BudgetError, match="the kernel refuses 7 for /dev/full"):
        process.write("/dev/full", "7")
    with pytest.raises(BudgetError, match="the kernel refuses 7 for .*absent/file"):
        process.write(f"{tmp_path}/absent/file", "7")
    process.write("/dev/null", "7")


def test_it_gives_way_while_it_should(process, monkeypatch):
    monkeypatch.setattr(reclaim_process, "_LATE_S", LONG_S)
    process.write("/dev/null", "1")
    assert os.sched_getscheduler(child(process)) == os.SCHED_IDLE
    process.gives_way = False
    process.write("/dev/null", "1")
    if os.geteuid() == 0:  # another user may not leave that policy
        assert os.sched_getscheduler(child(process)) == os.SCHED_OTHER


@pytest.mark.usefixtures("needs_root")
def test_a_process_that_is_late_hurries_at_once_and_for_a_while(process, fifo, monkeypatch):
    process._hurry_s = 1.0
    policies = []

    def look():
        wait_until(lambda: process._hurries_until)
        wait_until(lambda: os.sched_getscheduler(child(process)) == os.SCHED_OTHER)
        policies.append(os.SCHED_OTHER)
        read(fifo)  # only now the write can end

    thread = threading.Thread(target=look)
    thread.start()
    process.write(fifo, "1")
    thread.join()
    assert policies == [os.SCHED_OTHER]
    monkeypatch.setattr(reclaim_process, "_LATE_S", LONG_S)
    hurries_until = process._hurries_until
    process.write("/dev/null", "1")
    assert time.monotonic() > hurries_until or os.sched_getscheduler(child(process)) == os.SCHED_OTHER
    time.sleep(max(0.0, hurries_until - time.monotonic()))
    process.write("/dev/null", "1")
    assert os.sched_getscheduler(child(process)) == os.SCHED_IDLE


def test_each_time_it_hurries_for_longer(process, fifo, monkeypatch):
    monkeypatch.setattr(reclaim_process, "_LATE_S", 0.01)
    found = []
    for _time in range(7):
        process._hurries_until = 0.0
        reader = threading.Timer(0.1, lambda: read(fifo))
        reader.start()
        began = time.monotonic()
        process.write(fifo, "1")
        found.append(round((process._hurries_until - began) / 10))
        reader.join()
    assert found == [1, 2, 4, 8, 16, 32, 32]


@pytest.mark.usefixtures("needs_root")
def test_with_servers_in_other_sessions_its_session_gives_way_too(tmp_path, monkeypatch):
    monkeypatch.setattr(reclaim_process, "_LATE_S", LONG_S)
    monkeypatch.setattr(reclaim_process, "_SESSION_SHARE", f"{tmp_path}/{{}}")
    process = ReclaimProcess(own_session=True)
    process.gives_way = False
    process.write("/dev/null", "1")
    assert os.getsid(child(process)) == child(process) != os.getsid(0)
    share = tmp_path / str(child(process))
    share.touch()
    for willing, nice in ((True, "19"), (False, "0")):
        process.gives_way = willing
        share.write_text("")
        process.write("/dev/null", "1")
        assert share.read_text() == nice
    process.stop()


def test_a_process_that_was_killed_is_started_again_and_its_cpu_time_counts(process):
    assert process.cpu_s == 0
    process.write("/dev/null", "1")
    spent = process.cpu_s
    assert spent > 0
    killed = child(process)
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    process.write("/dev/null", "1")
    assert child(process) != killed and process.cpu_s > spent


def test_a_process_that_is_killed_while_it_writes_is_an_error(process, fifo):
    process.write("/dev/null", "1")
    killer = threading.Timer(0.1, lambda: os.kill(child(process), signal.SIGKILL))
    killer.start()
    with pytest.raises(BudgetError, match="the kernel refuses 1"):
        process.write(fifo, "1")
    killer.join()


def test_it_ends_and_keeps_its_cpu_time(process):
    process.write("/dev/null", "1")
    ended = child(process)
    process.stop()
    assert not os.path.exists(f"/proc/{ended}") and process.cpu_s > 0
    process.stop()
