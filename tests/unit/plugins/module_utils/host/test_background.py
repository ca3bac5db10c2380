# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import signal

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.background import BackgroundProgram, is_running
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command


def test_a_program_runs_until_it_is_stopped():
    program = BackgroundProgram(run_command, ["sleep", "100"])
    assert program.runs() and is_running(program.pid)
    program.stop()
    assert not program.runs() and not os.path.exists(f"/proc/{program.pid}")
    program.stop()


def test_a_program_that_ended_by_itself(tmp_path):
    program = BackgroundProgram(run_command, ["sh", "-c", f"echo done; touch {tmp_path}/ended"])
    while program.runs():
        pass
    assert (tmp_path / "ended").exists()
    program.stop()


def test_a_program_can_end_in_order(tmp_path):
    script = f"trap 'touch {tmp_path}/ended; exit' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"
    program = BackgroundProgram(run_command, ["sh", "-c", script])
    while not (tmp_path / "ready").exists():
        pass
    program.stop(signal.SIGTERM)
    assert (tmp_path / "ended").exists()


def test_a_program_that_does_not_exist():
    with pytest.raises(OSError, match="No such file"):
        BackgroundProgram(run_command, ["no-such-program"])
