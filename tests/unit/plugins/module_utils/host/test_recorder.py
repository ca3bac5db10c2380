# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorder of this machine, as a process of its own."""

from __future__ import annotations

import time

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import recorder, recorder_process

PHASES = [{"name": "one", "at": 0.1, "seconds": 0.3}, {"name": "two", "at": 0.7, "seconds": 0.3}]


@pytest.fixture
def session(tmp_path):
    """The directory of a session with two jobs."""
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedule").touch()
    return tmp_path


def wait_until_it_ends(session, within=15):
    deadline = time.monotonic() + within
    while recorder.is_running(str(session)):
        assert time.monotonic() < deadline, "the recorder runs on"
        time.sleep(0.02)


def ensure(session, **changes):
    options = {"release_within": 30, "record_directory": str(session / "records"), **changes}
    recorder.ensure(str(session), PHASES, **options)


def release(session, after=0.2):
    (session / "1" / "schedule.start").write_text(f"{time.time() + after}\n", encoding="ascii")


def test_it_follows_the_schedule_and_ends_by_itself(session):
    ensure(session)
    ensure(session)  # the second client of the machine finds it
    release(session)
    wait_until_it_ends(session)
    found = recorder.read(str(session), ["one", "two", "never"])
    assert found["errors"] == [] and found["phases"]["never"] == {}
    for name in ("one", "two"):
        seen = found["phases"][name]
        assert seen["pressure"]["counters"]["clock_s"] == pytest.approx(0.34, abs=0.25)
        assert seen["over_time"]["rows"] and seen["over_time"]["age_s"] > 0 and "charged_dram" not in seen
    assert recorder.is_of(str(session), str(session / "0")) != recorder.is_of(str(session), str(session / "1"))


def test_it_ends_soon_after_the_last_schedule_was_removed(session):
    ensure(session)
    release(session, after=3600)
    time.sleep(0.3)
    (session / "0" / "schedule").unlink()
    time.sleep(0.8)
    assert recorder.is_running(str(session)), "another client still needs it"
    (session / "1" / "schedule").unlink()
    wait_until_it_ends(session, within=5)


def test_it_ends_if_it_is_never_released(session):
    ensure(session, release_within=0.2)
    wait_until_it_ends(session, within=5)
    assert recorder.read(str(session), ["one"])["phases"] == {"one": {}}


def test_it_may_end_the_clients_after_a_phase(session):
    def decide(name):
        for job in ("0", "1"):
            (session / job / "schedule").unlink()

    ensure(session, decide=decide)
    release(session)
    wait_until_it_ends(session)
    phases = recorder.read(str(session), ["one", "two"])["phases"]
    assert phases["one"] and not phases["two"].get("pressure")


def test_it_ends_rather_than_write_without_end(session, monkeypatch):
    monkeypatch.setattr(recorder_process, "MAX_BYTES", 1)
    ensure(session)
    release(session)
    wait_until_it_ends(session)
    assert (session / recorder.SAMPLES).read_text(encoding="utf-8").count("\n") == 1
    assert recorder.read(str(session), ["one"])["phases"] == {"one": {}}


def test_what_is_unknown_is_none_over_time():
    def sample(at, **counters):
        return {"pressure": {"clock_s": at, **counters}, "cpu": None}

    found = recorder.over_time([sample(10.0, pswpin=5), sample(11.0, pswpin=25), sample(13.0, pswpin=25)])
    assert found["rows"] == [[1.0, 20.0, None, None, None, None, None], [3.0, 0.0, None, None, None, None, None]]
    many = [sample(float(at), pswpin=0) for at in range(5000)]
    assert len(recorder.over_time(many)["rows"]) <= 122
