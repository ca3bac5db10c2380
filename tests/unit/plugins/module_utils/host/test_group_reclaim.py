# SPDX-License-Identifier: GPL-3.0-or-later
"""Background reclaim of a control group, whose memory is a number here; tests/local has a real one."""

from __future__ import annotations

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
from ansible_collections.memstretch.density.plugins.module_utils.host.reclaim_process import ReclaimProcess
from ansible_collections.memstretch.density.tests.unit.fixtures.waiting import wait_until

MIB = 2**20
LIMIT = 100 * MIB


@pytest.fixture
def group(tmp_path):
    """A control group of version 1 with a limit."""
    (tmp_path / "memory.limit_in_bytes").write_text(str(LIMIT))
    (tmp_path / "memory.failcnt").write_text("7\n")
    return CgroupFiles(str(tmp_path), version_1=True)


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
    written = []
    monkeypatch.setattr(ReclaimProcess, "write", lambda _self, *arguments: written.append(arguments))
    use(group, LOW - 1)
    assert GroupReclaim(group).step() == 0.002
    assert written == [(f"{group.path}/memory.limit_in_bytes", str(LIMIT - HIGH))] and group.limit() == LIMIT


def test_a_kernel_that_cannot_reclaim_is_asked_less_often_and_the_limit_stays(group, monkeypatch):
    def write(*_arguments):
        raise BudgetError("busy")

    monkeypatch.setattr(ReclaimProcess, "write", write)
    use(group, 0)
    assert GroupReclaim(group).step() == 0.1 and group.limit() == LIMIT


def test_reclaim_gives_way_to_the_fleet_until_it_falls_behind(group, monkeypatch):
    found = []
    monkeypatch.setattr(ReclaimProcess, "write", lambda self, *_arguments: found.append(self.gives_way))
    keeper = GroupReclaim(group)
    for free, willing in ((LOW - 1, True), (LOW // 2 - 1, True), (LOW // 2, True), (LOW - 1, False)):
        use(group, free)
        keeper.gives_way = willing
        keeper.step()
    assert found == [True, False, True, False]


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
    lowered = threading.Event()

    def write_slowly(_self, path, value):
        pathlib.Path(path).write_text(value, encoding="ascii")
        lowered.set()
        time.sleep(0.2)

    monkeypatch.setattr(ReclaimProcess, "write", write_slowly)
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
    written = []
    assert group.reclaim(LIMIT, MIB, lambda *arguments: written.append(arguments))
    assert written == [(f"{tmp_path}/memory.reclaim", str(MIB))]
    assert (tmp_path / "memory.max").read_text() == str(LIMIT) and group.limit_hits() == 3


def test_how_often_the_limit_was_met(group):
    assert group.limit_hits() == 7


def test_the_thread_counts_its_cpu_time_and_that_of_its_process(group, monkeypatch):
    def work(*_arguments):
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass
        return True

    monkeypatch.setattr(CgroupFiles, "reclaim", work)
    monkeypatch.setattr(ReclaimProcess, "cpu_s", 10.0)
    use(group, 0)
    thread = GroupReclaim(group)
    assert thread.cpu_s == 0
    thread.start()
    wait_until(lambda: thread.cpu_s >= 10.02)  # that of its process, and ten turns
    thread.stop()
