# SPDX-License-Identifier: GPL-3.0-or-later
"""Background reclaim of a control group, whose memory is a number here; tests/local has a real one."""

from __future__ import annotations

import os
import pathlib
import threading
import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import group_reclaim
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError, CgroupFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.group_reclaim import (
    HIGH,
    LOW,
    GroupReclaim,
)

MIB = 2**20
LIMIT = 100 * MIB


@pytest.fixture
def group(tmp_path):
    """A control group of version 1 with a limit."""
    (tmp_path / "memory.limit_in_bytes").write_text(str(LIMIT))
    (tmp_path / "memory.failcnt").write_text("7\n")
    return CgroupFiles(str(tmp_path), version_1=True)


def wait_until(condition):
    """Wait for a thread; it needs milliseconds on an idle machine."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "the thread has not come so far within a minute"
        time.sleep(0.001)


def use(group, free):
    written = pathlib.Path(group.path, "written")
    written.write_text(str(LIMIT - free), encoding="ascii")
    written.replace(pathlib.Path(group.path, "memory.usage_in_bytes"))  # a thread may read it


@pytest.mark.parametrize(
    ("free", "seconds"),
    [(LOW, 0.002), (LOW // 2 + MIB, MIB / 250e6), (90 * MIB, 0.05)],
    ids=["low", "some", "plenty"],
)
def test_a_group_with_room_is_left_alone_and_looked_at_less_often(group, free, seconds, monkeypatch):
    use(group, free)
    monkeypatch.setattr(CgroupFiles, "reclaim", None)  # calling it would fail
    assert GroupReclaim(group).step() == pytest.approx(seconds)


def test_a_group_that_takes_little_is_looked_at_less_often(group, monkeypatch):
    use(group, 2 * MIB)
    keeper, clock = GroupReclaim(group), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    waits = []
    for _look in range(60):
        clock[0] += 0.01
        waits.append(keeper.step())
    assert waits[0] < 0.01 and waits[-1] == 0.05 and waits == sorted(waits)
    clock[0] += 0.01
    use(group, MIB)  # a mebibyte in 10 ms: it has as much left for 10 ms, and is looked at three times until then
    assert keeper.step() == pytest.approx((MIB - LOW // 2) / (3 * MIB / 0.01))


def test_a_group_near_its_limit_is_reclaimed_to_the_high_mark(group, monkeypatch):
    limits = []
    monkeypatch.setattr(CgroupFiles, "_set_limit", lambda self, limit: limits.append(limit))
    use(group, LOW - 1)
    assert GroupReclaim(group).step() == 0.002
    assert limits == [LIMIT - HIGH, LIMIT], "lowered, and back at once"


def test_a_kernel_that_cannot_reclaim_is_asked_less_often_and_the_limit_stays(group, monkeypatch):
    limits = []

    def set_limit(_self, limit):
        limits.append(limit)
        if limit < LIMIT:
            raise BudgetError("busy")

    monkeypatch.setattr(CgroupFiles, "_set_limit", set_limit)
    use(group, 0)
    assert GroupReclaim(group).step() == 0.1 and limits[-1] == LIMIT


@pytest.mark.usefixtures("needs_root")  # to leave the policy SCHED_IDLE
def test_the_thread_gives_way_to_the_fleet_until_it_falls_behind(group, monkeypatch):
    monkeypatch.setattr(CgroupFiles, "reclaim", lambda *_arguments: True)
    monkeypatch.setattr(group_reclaim, "_LATE_S", 60)
    use(group, LOW - 1)
    thread = GroupReclaim(group)
    thread.start()
    for free, policy in ((LOW - 1, os.SCHED_IDLE), (LOW // 2 - 1, os.SCHED_OTHER), (LOW - 1, os.SCHED_IDLE)):
        use(group, free)
        wait_until(lambda policy=policy: os.sched_getscheduler(thread.native_id) == policy)
    thread.stop()


@pytest.mark.usefixtures("needs_root")
def test_a_thread_that_is_called_late_does_not_give_way_for_a_while(group, monkeypatch):
    """Others keep all CPUs busy: it would run so rarely that the fleet reclaims by itself."""
    monkeypatch.setattr(group_reclaim, "_LATE_S", -1)  # any call is late
    monkeypatch.setattr(group_reclaim, "_FIRST_HURRY_S", 1.0)
    use(group, LOW)
    thread = GroupReclaim(group)
    thread.start()
    wait_until(lambda: os.sched_getscheduler(thread.native_id) == os.SCHED_IDLE)
    wait_until(lambda: os.sched_getscheduler(thread.native_id) == os.SCHED_OTHER)
    monkeypatch.setattr(group_reclaim, "_LATE_S", 60)
    wait_until(lambda: os.sched_getscheduler(thread.native_id) == os.SCHED_IDLE)
    thread.stop()


@pytest.mark.usefixtures("needs_root")
def test_a_thread_that_must_hurry_need_not_run_for_that(group, monkeypatch):
    """On busy CPUs it would keep this process waiting for as long as it gives way."""
    monkeypatch.setattr(group_reclaim, "_LATE_S", 60)
    use(group, LOW)
    thread = GroupReclaim(group)
    thread.start()
    wait_until(lambda: os.sched_getscheduler(thread.native_id) == os.SCHED_IDLE)
    asleep = threading.Event()
    monkeypatch.setattr(thread, "step", lambda: asleep.set() or 3600.0)
    assert asleep.wait(60)
    time.sleep(0.2)
    thread.hurry()
    assert os.sched_getscheduler(thread.native_id) == os.SCHED_OTHER
    thread.stop()


@pytest.mark.usefixtures("needs_root")
def test_a_session_without_the_servers_gives_way_with_its_thread(group, monkeypatch, tmp_path):
    monkeypatch.setattr(CgroupFiles, "reclaim", lambda *_arguments: True)
    share = tmp_path / "autogroup"
    share.write_text("0")
    monkeypatch.setattr(group_reclaim, "_SESSION_SHARE", str(share))
    use(group, LOW - 1)
    thread = GroupReclaim(group, own_session=True)
    thread.start()
    for free, nice in ((LOW - 1, "10"), (LOW // 2 - 1, "0")):
        use(group, free)
        wait_until(lambda nice=nice: share.read_text().startswith(nice))
    thread.stop()


def test_a_group_without_a_limit_is_left_alone(group):
    use(group, 0)
    with open(f"{group.path}/memory.limit_in_bytes", "w", encoding="ascii") as file:
        file.write(str(2**63 - 4096))
    assert GroupReclaim(group).step() == 0.05


def test_the_limit_is_not_lowered_while_it_is_read(group, monkeypatch):
    lowered = []
    monkeypatch.setattr(CgroupFiles, "reclaim", lambda *_arguments: lowered.append(1) or True)
    monkeypatch.setattr(group_reclaim, "_SHORTEST_S", 0.001)
    use(group, 0)
    thread = GroupReclaim(group)
    thread.start()
    wait_until(lambda: lowered)
    with group.locked():
        count = len(lowered)
        time.sleep(0.02)
        assert len(lowered) == count
    thread.stop()
    assert not thread.is_alive()


def test_a_limit_that_is_set_during_a_reclaim_stays(group, monkeypatch):
    """The watch of an earlier phase may still reclaim while the group is brought to its budget."""
    write, lowered = CgroupFiles._set_limit, threading.Event()

    def write_slowly(self, limit):
        write(self, limit)
        if limit < LIMIT:
            lowered.set()
            time.sleep(0.2)

    monkeypatch.setattr(CgroupFiles, "_set_limit", write_slowly)
    use(group, 0)
    reclaim = threading.Thread(target=GroupReclaim(group).step)
    reclaim.start()
    assert lowered.wait(10)
    CgroupFiles(group.path, version_1=True).set_limit(LIMIT + MIB)
    reclaim.join()
    assert group.limit() == LIMIT + MIB


def test_version_2_has_a_file_for_it(tmp_path):
    for name, text in (("memory.max", LIMIT), ("memory.reclaim", ""), ("memory.events", "low 1\nhigh 2\nmax 3\n")):
        (tmp_path / name).write_text(str(text))
    group = CgroupFiles(str(tmp_path), version_1=False)
    assert group.reclaim(LIMIT, MIB) and (tmp_path / "memory.reclaim").read_text() == str(MIB)
    assert (tmp_path / "memory.max").read_text() == str(LIMIT) and group.limit_hits() == 3


def test_how_often_the_limit_was_met(group):
    assert group.limit_hits() == 7


def test_the_thread_counts_its_cpu_time(group, monkeypatch):
    def work(*_arguments):
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass
        return True

    monkeypatch.setattr(CgroupFiles, "reclaim", work)
    use(group, 0)
    thread = GroupReclaim(group)
    assert thread.cpu_s == 0
    thread.start()
    wait_until(lambda: thread.cpu_s >= 0.02)  # ten turns
    thread.stop()
