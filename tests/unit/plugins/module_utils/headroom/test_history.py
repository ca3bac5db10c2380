# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look knows of the last half hour and the worst hour, as the installed program has counted them."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import history
from ansible_collections.memstretch.density.plugins.module_utils.headroom import watch_program as program
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

NOW = 1_800_000_000.0
PAGE = os.sysconf("SC_PAGE_SIZE")


class Host:
    """A recorded tree of files, whose program is run once a minute."""

    def __init__(self, path):
        self.path, self.state = path, path / program.STATE[1:]
        self.now, self.waited_us, self.came, self.went = NOW, 5_000_000, 100, 200
        self.state.parent.mkdir()
        (path / "proc/pressure").mkdir(parents=True)

    def count(self):
        some = f"some avg10=0 avg60=0 avg300=0 total={self.waited_us}\n"
        (self.path / "proc/pressure/memory").write_text(some, encoding="utf-8")
        counters = f"pswpin {self.came}\nzswpin 7\npswpout {self.went}\nworkingset_refault_anon 3\n"
        (self.path / "proc/vmstat").write_text(counters, encoding="utf-8")

    def minutes(self, count, waited_share=0.0, came=0, went=0):
        """Let the timer run for so many minutes, in which so much happens."""
        for _minute in range(count):
            self.now += 60
            self.waited_us += round(waited_share * 60e6)
            self.came, self.went = self.came + came, self.went + went
            self.count()
            program.write(str(self.path / "x.prom"), str(self.path), str(self.state), self.now)

    def quiet_minutes(self, count):
        """Let so many minutes pass in which nothing happens, without the files of each: they would take seconds."""
        state = json.loads(self.state.read_text(encoding="utf-8"))
        moments = program.kept_moments(state)
        self.count()
        for _minute in range(count):
            self.now += 60
            moments = program.remembered(moments, program.moment(str(self.path), self.now))
        self.state.write_text(json.dumps({**state, "at": self.now, "history": moments}), encoding="utf-8")

    def read(self, later=0.0):
        return history.read(HostFiles(str(self.path)), self.now + later)

    @property
    def kept(self):
        return json.loads(self.state.read_text(encoding="utf-8"))["history"]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_without_a_watch_nothing_is_known(host):
    host.count()
    assert host.read() is None
    host.state.write_text('{"at": 1', encoding="utf-8")
    assert host.read() is None


def test_a_watch_that_no_longer_runs_is_none(host):
    host.minutes(40)
    assert host.read(later=170) and host.read(later=190) is None


def test_a_short_watch_knows_no_window(host):
    host.minutes(29)
    assert host.read(20) == {"since": NOW + 60, "half_hour": None, "worst_hour": None}
    host.minutes(2)
    found = host.read(20)
    assert found["half_hour"]["began_at"] == NOW + 60 and found["worst_hour"] is None


def test_the_last_half_hour_ends_now(host):
    host.minutes(100, waited_share=0.5, came=1000)
    host.minutes(30, waited_share=0.01, came=60, went=30)
    host.came += 40  # since the last minute
    host.count()

    found = host.read(30)["half_hour"]
    assert (found["began_at"], found["seconds"]) == (host.now - 1800, 1830)
    assert found["memory_some_share"] == pytest.approx(0.01 * 1800 / 1830, abs=1e-6)
    assert found["page_ins"] == pytest.approx((30 * 60 + 40) / 1830, abs=1e-3) and found["refaults"] == 0
    assert found["moved_bytes"] == (30 * 90 + 40) * PAGE


def test_the_worst_hour_begins_at_any_minute(host):
    host.minutes(90, waited_share=0.001, came=6000)
    host.minutes(60, waited_share=0.02, came=600)
    host.minutes(200, waited_share=0.001)

    found = host.read(1)["worst_hour"]
    assert found["began_at"] == NOW + 90 * 60 and found["seconds"] == 3600
    assert found["memory_some_share"] == pytest.approx(0.02) and found["page_ins"] == 10


def test_where_no_task_waited_the_worst_hour_has_most_page_ins(host):
    host.minutes(70)
    host.minutes(60, came=120)
    host.minutes(70)
    assert host.read(1)["worst_hour"]["page_ins"] == 2


def test_a_day_is_kept_and_no_more(host):
    host.minutes(60, waited_share=0.9)
    host.quiet_minutes(1435)
    host.minutes(10)
    assert len(host.kept) == 1441 and host.kept[0][0] == host.now - program.KEPT_S
    # Of the bad hour, which is more than a day ago now, nothing is left.
    assert host.read(1)["worst_hour"]["memory_some_share"] == 0
    assert host.state.stat().st_size < 150_000


def test_calls_by_hand_do_not_fill_the_memory():
    moments = []
    for second in range(2 * program.MOST_MOMENTS):
        moments = program.remembered(moments, program.Moment(NOW + second, [0, None]))
    assert len(moments) == program.MOST_MOMENTS and moments[-1].at == NOW + 2 * program.MOST_MOMENTS - 1


def test_a_pause_makes_no_longer_hour(host):
    """While the host slept or the timer was stopped, nobody knows when what was counted happened."""
    host.minutes(40, waited_share=0.001)
    host.now += 7200
    host.minutes(30, waited_share=0.5)
    found = host.read(1)
    assert found["worst_hour"] is None and found["half_hour"] is None
    host.minutes(31, waited_share=0.002)
    assert host.read(1)["worst_hour"]["seconds"] == 3600


def test_counters_that_begin_again_are_no_rate(host):
    host.minutes(61)
    host.came = 0
    host.minutes(1)
    assert len(host.kept) == 1 and host.read(10)["worst_hour"] is None


def test_a_clock_that_was_set_back_leaves_no_moment_of_the_future(host):
    host.minutes(100)
    host.now -= 3000
    host.minutes(1)
    assert [each[0] for each in host.kept] == sorted({each[0] for each in host.kept}) and host.kept[-1][0] == host.now


def test_what_this_kernel_does_not_count_is_unknown(host, monkeypatch):
    monkeypatch.setattr(host, "count", lambda: None)
    host.minutes(70)
    found = host.read(1)["worst_hour"]
    assert {found[name] for name in ("memory_some_share", "page_ins", "refaults", "moved_bytes")} == {None}
