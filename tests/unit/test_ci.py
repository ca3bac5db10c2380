# SPDX-License-Identifier: GPL-3.0-or-later
"""What CI runs: all of make test, then the long lanes that fit, and no lane passes that was not finished."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import ci

MINUTE = 60
EXPECTED = {
    "setup-test": 5,
    "test": ci.TEST_S / MINUTE,
    **{f"test-{name}": each for name, each in ci.LONG_LANES.items()},
}


class Machine:
    """A machine on which all takes so many times as long as on a quiet one."""

    def __init__(self, slowness: float = 1, **status: int) -> None:
        self.slowness, self.status = slowness, {name.replace("_", "-"): each for name, each in status.items()}
        self.now, self.ran = 0.0, []

    def run(self, target, seconds):
        self.ran.append(target)
        needed = EXPECTED[target] * MINUTE * self.slowness
        self.now += min(needed, seconds)
        return None if needed > seconds else self.status.get(target, 0)

    def lanes(self):
        found = ci.Lanes(ci.LIMIT_S, self.run, lambda: self.now)
        found.run_all()
        return found


def test_the_lanes_are_the_long_lanes_of_make():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert list(ci.LONG_LANES) == re.search(r"^LONG_LANES := (.*)$", makefile, re.MULTILINE)[1].split()


@pytest.mark.parametrize("slowness", [0.5, 1, 2, 3, 4])
def test_it_ends_in_time_and_each_lane_is_run_or_said_not_to_be(slowness):
    machine = Machine(slowness)
    lanes = machine.lanes()
    assert machine.now <= ci.LIMIT_S and machine.ran[:2] == ["setup-test", "test"] and not lanes.failed
    assert len(lanes.report) == len(EXPECTED)
    for target, line in zip(EXPECTED, lanes.report):
        assert line.startswith(f"passed {target}: " if target in machine.ran else f"not run {target}: it needs up to ")
    assert ("test-guests" in machine.ran) == (slowness <= 1)


@pytest.mark.parametrize("target", ["setup_test", "test", "test_local_long"])
def test_a_failure_is_reported_and_hides_no_other_lane(target):
    lanes = Machine(**{target: 2}).lanes()
    assert lanes.failed and [line for line in lanes.report if line.startswith("FAILED ")] == [
        line for line in lanes.report if f" {target.replace('_', '-')}: " in line
    ]
    assert any(line.startswith("passed test-fleet-long") for line in lanes.report)


def test_a_lane_that_is_not_finished_in_time_has_failed():
    lanes = Machine(20).lanes()
    assert lanes.failed and any(
        line.startswith("FAILED, because it did not end in the time that was left: test: ") for line in lanes.report
    )
    assert not any(line.startswith("passed test") for line in lanes.report)


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """A directory whose make waits for a program that never ends; the file pid is there once it runs."""
    (tmp_path / "Makefile").write_text("hang:\n\t@echo $$$$ >new; mv new pid; exec sleep 1000\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("MAKE", "MFLAGS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(ci.os, "geteuid", lambda: 0)  # what this test starts is its own, so that it needs no sudo
    return tmp_path


def test_all_that_make_has_started_is_ended(hanging):
    process = subprocess.Popen(["make", "hang"], start_new_session=True)
    while not (hanging / "pid").exists():
        assert process.poll() is None
        time.sleep(0.01)
    ci.end(process)
    assert process.returncode and not pathlib.Path("/proc", (hanging / "pid").read_text("ascii").strip()).exists()


def test_make_is_ended_when_the_time_is_over(hanging):
    assert ci.make("hang", 0) is None and ci.make("no-such-target", 100) == 2
