# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that are given their input and another user, and that die with their parent."""

from __future__ import annotations

import os
import signal

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import children
from ansible_collections.memstretch.density.plugins.module_utils.host.children import Child, Spawn
from ansible_collections.memstretch.density.tests.unit.fixtures.waiting import wait_until


def test_a_child_reads_what_it_is_given_and_its_output_is_kept(tmp_path):
    child = Child(
        Spawn(["/bin/sh", "-c", "cat; echo $NAME"], str(tmp_path / "out"), "given\n", environment={"NAME": "x"})
    )
    wait_until(child.ended)
    assert child.status == 0 and not child.was_killed and child.says() == "given x"


def test_a_program_that_cannot_run_says_so(tmp_path):
    child = Child(Spawn(["/no/such/program"], str(tmp_path / "out")))
    wait_until(child.ended)
    assert os.WEXITSTATUS(child.status) == 127 and "cannot run /no/such/program" in child.says()


def test_children_end_by_a_signal_and_those_that_ignore_it_are_killed(tmp_path):
    command = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    stubborn = Child(Spawn(["/bin/sh", "-c", command], str(tmp_path / "stubborn")))
    willing = Child(Spawn(["/bin/sleep", "60"], str(tmp_path / "willing")))
    wait_until(lambda: stubborn.says() == "ready")
    children.end([stubborn, willing], signal.SIGTERM, 2)
    assert stubborn.was_killed and os.WTERMSIG(willing.status) == signal.SIGTERM and not willing.was_killed


@pytest.mark.parametrize("fails", ["/no/such/group"])
def test_a_child_that_cannot_enter_its_group_does_not_run(tmp_path, fails):
    child = Child(Spawn(["/bin/echo", "ran"], str(tmp_path / "out"), entry=fails))
    wait_until(child.ended)
    assert child.status and "ran" not in child.says().split()


def test_a_user_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(OSError, match="this host has no user of that name: 'nobody-here'"):
        Child(Spawn(["/bin/true"], str(tmp_path / "out"), user="nobody-here"))
    assert not (tmp_path / "out").exists()
