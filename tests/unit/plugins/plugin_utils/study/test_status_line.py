# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.study import child_playbooks, status_line

PHASE = "[ 3/25] influence 0, 100 % GET, iteration 1  running for 0:08 | elapsed 2:28, remaining about 1:27"
# A playbook that shows a task, a phase and a result.
QUIET = f"""
print("\\x1b[0;33mTASK [Fill] ***\\x1b[0m")
print({PHASE!r})
print("a result")
"""


@pytest.fixture
def terminal():
    """The path of a terminal of 40 columns."""
    main, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    yield os.ttyname(other)
    os.close(main)
    os.close(other)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("TASK [memstretch.density.redis : Start Redis] *****", "memstretch.density.redis : Start Redis"),
        ("\x1b[0;33mPLAY [Tune the hypervisors] ***\x1b[0m", "Tune the hypervisors"),
        (PHASE, PHASE),
        ("changed: [localhost]", None),
        ("fatal: [vm0001]: FAILED! => {}", None),
        ("[WARNING]: TASK [x] ***", None),
        ("", None),
    ],
)
def test_plays_tasks_and_phases_are_steps(line, step):
    assert status_line.step_of(line) == step


def test_the_line_is_replaced_and_erased(terminal, capsys):
    line = status_line.StatusLine(terminal)
    line.clear()
    assert capsys.readouterr().out == "", "there is nothing to erase"
    line.follow("TASK [Fill] ***")
    line.follow("ok: [localhost]")
    line.follow(PHASE)
    line.clear()
    line.clear()
    erase = "\r\x1b[K"
    assert capsys.readouterr().out == f"{erase}   Fill{erase}   {PHASE}"[: len(f"{erase}   Fill{erase}") + 39] + erase


@pytest.mark.parametrize("path", ["/dev/null", "/nowhere/at/all"])
def test_without_a_terminal_nothing_is_shown(path, capsys):
    line = status_line.StatusLine(path)
    line.follow("TASK [Fill] ***")
    line.clear()
    assert capsys.readouterr().out == ""


def test_a_quiet_playbook_shows_its_steps_and_logs_all_lines(monkeypatch, terminal, capsys):
    monkeypatch.setattr(child_playbooks, "_command", lambda *_arguments: [sys.executable, "-c", QUIET])
    logged = []
    playbooks = child_playbooks.ChildPlaybooks(logged.append, lambda: None)
    playbooks._status = status_line.StatusLine(terminal)
    with playbooks:
        assert playbooks.run("site", {}, quiet=True) == 0
    shown = capsys.readouterr().out
    assert (
        shown.startswith("\r\x1b[K   Fill\r\x1b[K   [ 3/25]") and shown.endswith("\r\x1b[K") and "result" not in shown
    )
    assert len(logged) == 3 and logged[2] == "a result"
