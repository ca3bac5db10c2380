# SPDX-License-Identifier: GPL-3.0-or-later
"""What make test says of its lanes, and how it ends: in a copy of the Makefile whose lanes run nothing."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

# Rules that come later replace those of the Makefile.
STUBS = """
$(addprefix lane-,$(LANES) $(LONG_LANES)): lane-%: ; @[ $* != "$(FAILING)" ]
"""
MAKE_TEST = ["lint", "unit", "client", "membw", "report", "local-user", "fleet", "systemd", "molecule", "local-root"]


@pytest.fixture
def make(tmp_path):
    """A function that runs make without real lanes, and returns its status and the lines of its summary."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv").mkdir()
    # The packages are as old as the lists of them, so nothing is installed.
    for name in ("requirements.lock", "requirements-test.lock", ".venv/.run", ".venv/.test"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1e9, 1e9))
    # A run before this one left these; they must not count.
    (tmp_path / ".build" / "lanes").mkdir(parents=True)
    for lane in MAKE_TEST:
        (tmp_path / ".build" / "lanes" / lane).write_text(f"passed {lane}: long ago\n", encoding="utf-8")

    def run(target, failing="", rules="", **variables):
        with open(tmp_path / "Makefile", "a", encoding="utf-8") as makefile:
            makefile.write(STUBS + rules)
        # The lane unit is run by make itself, whose job server is not for this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        done = subprocess.run(
            ["make", target, f"FAILING={failing}", *(f"{name}={value}" for name, value in variables.items())],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = done.stdout.splitlines()
        total = next(number for number, line in enumerate(lines) if line.endswith(" failed"))
        return done.returncode, lines[: total + 1]

    return run


def test_all_lanes_pass(make):
    status, lines = make("test")
    assert (status, lines[-1]) == (0, "10 passed, 0 failed")
    assert [line.split(":")[0] for line in lines[-11:-1]] == [f"passed {lane}" for lane in MAKE_TEST]


@pytest.mark.parametrize("failing", ["lint", "local-root"])
def test_a_lane_that_fails_is_listed_and_the_others_run(make, failing):
    status, lines = make("test", failing)
    assert (status != 0, lines[-1]) == (True, "9 passed, 1 failed")
    words = {lane: "FAILED" if lane == failing else "passed" for lane in MAKE_TEST}
    assert [line.split(":")[0] for line in lines[-11:-1]] == [f"{word} {lane}" for lane, word in words.items()]
    assert not any("long ago" in line for line in lines)


def test_a_lane_that_did_not_run_has_failed(make):
    status, lines = make("test", rules="queue-machine:\n\t@exit 1\n")
    assert (status != 0, lines[-1]) == (True, "7 passed, 3 failed")
    assert "FAILED systemd: did not run" in lines


def test_a_long_lane_that_fails_is_listed(make):
    # Others need an image, which make would build.
    status, lines = make("test-long", "release", LONG_LANES="release unit-long")
    assert (status != 0, lines[-1]) == (True, "1 passed, 1 failed")
    assert [line.split(":")[0] for line in lines[-3:-1]] == ["FAILED release", "passed unit-long"]
