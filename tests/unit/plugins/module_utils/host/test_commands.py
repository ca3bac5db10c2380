# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real commands, run by AnsibleModule's run_command."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import commands
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import run_checked, run_to_end
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command


class CommandError(Exception):
    """The error that the caller asks for."""


@pytest.fixture(params=[True, False], ids=["the kernel reports the end", "nothing reports the end"], autouse=True)
def reports_the_end(request, monkeypatch):
    """A host whose kernel and Python have pidfd, or one of them has not."""
    if not request.param:
        monkeypatch.delattr(os, "pidfd_open")
    return request.param


def test_the_output_is_returned():
    assert run_checked(run_command, ["echo", "a  b"], CommandError) == "a  b\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo out; echo why >&2; exit 3", "^sh -c .* ended with status 3: why$"),
        ("echo out; exit 3", "^sh -c .* ended with status 3: out$"),
    ],
)
def test_a_failure_is_raised_with_command_status_and_output(script, message):
    with pytest.raises(CommandError, match=message):
        run_checked(run_command, ["sh", "-c", script], CommandError)


def test_no_output_is_lost_when_a_program_ends_just_after_run_command_looked_for_it(monkeypatch):
    """run_command waits a second for output, and then asks whether the program has ended. Here it asks for long."""
    monkeypatch.setattr(subprocess.Popen, "poll", subprocess.Popen.wait)
    script = "sleep 1.2; echo out; echo why >&2; exit 3"
    assert run_to_end(run_command, ["sh", "-c", script]) == (3, "out\n", "why\n")


def test_a_daemon_that_keeps_a_pipe_open_is_not_waited_for():
    _status, output, _errors = run_to_end(run_command, ["sh", "-c", "sleep 60 & echo $!"])
    os.kill(int(output), signal.SIGKILL)  # raises ProcessLookupError if it has ended


def test_more_output_than_a_pipe_holds():
    script = "import sys; sys.stdout.write('a' * 1_000_000); sys.stderr.write('b' * 1_000_000)"
    assert run_to_end(run_command, ["python3", "-c", script]) == (0, "a" * 1_000_000, "b" * 1_000_000)


def test_the_callback_of_the_caller_gets_the_process():
    seen = []
    run_to_end(run_command, ["true"], before_communicate_callback=seen.append)
    assert seen[0].args == [b"true"]


def test_a_program_gets_its_input():
    assert run_to_end(run_command, ["cat"], data="in") == (0, "in\n", "")


def test_nothing_wakes_up_while_the_program_runs(monkeypatch, reports_the_end):
    looks = []
    poll = subprocess.Popen.poll
    monkeypatch.setattr(subprocess.Popen, "poll", lambda process: looks.append(process) or poll(process))
    monkeypatch.setattr(commands, "_LOOK_SECONDS", 0.001)
    assert run_to_end(run_command, ["sleep", "0.5"]) == (0, "", "")
    # At the start; when the process ends and when each of its pipes is closed; and what run_command looks itself.
    assert (len(looks) <= 6) is reports_the_end


def test_no_descriptor_is_left_open():
    before = os.listdir("/proc/self/fd")
    run_to_end(run_command, ["true"])
    assert os.listdir("/proc/self/fd") == before
