# SPDX-License-Identifier: GPL-3.0-or-later
"""What was changed is undone if the process is killed, and only then."""

from __future__ import annotations

import os
import signal
import time

from ansible_collections.memstretch.density.plugins.module_utils.headroom.guard import Guard


def test_it_acts_after_a_kill(tmp_path):
    undone = tmp_path / "undone"
    started = os.fork()
    if not started:
        Guard(undone.touch)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(started, 0)
    deadline = time.monotonic() + 60
    while not undone.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_does_nothing_once_it_is_dismissed(tmp_path):
    Guard((tmp_path / "undone").touch).dismiss()
    assert not (tmp_path / "undone").exists()
