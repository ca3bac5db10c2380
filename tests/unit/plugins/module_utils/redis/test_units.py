# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units as systemctl shows them; extensions/molecule/redis runs real ones."""

from __future__ import annotations

import shutil

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.redis.units import Unit, UnitError, can_notify


def unit(active, enabled, status=0, commands=None):
    shown = f"LoadState=loaded\nActiveState={active}\nUnitFileState={enabled}\nMainPID=17\n"

    def run_command(command, **_options):
        if commands is not None:
            commands.append(command)
        if command[1] == "show":
            return 0, shown, ""
        return (0, "what Redis said\n", "") if command[0] == "journalctl" else (status, "", "Job failed.")

    return Unit("memstretch-redis@a.service", run_command)


@pytest.mark.parametrize(
    "active, enabled, run, changed, actions",
    [
        ("inactive", "disabled", True, True, ["start", "enable"]),
        ("active", "enabled", True, False, []),
        ("active", "enabled", True, True, ["restart"]),
        ("failed", "enabled", True, False, ["start"]),
        ("active", "disabled", True, False, ["enable"]),
        ("active", "enabled", False, True, ["stop", "disable"]),
        ("activating", "disabled", False, False, ["stop"]),
        ("inactive", "disabled", False, True, []),
    ],
)
def test_what_systemctl_must_do(active, enabled, run, changed, actions):
    assert unit(active, enabled).actions(run, changed) == actions


def test_an_error_ends_with_the_journal():
    commands = []
    with pytest.raises(
        UnitError, match=r"systemctl start memstretch-redis@a.service failed: Job failed.\n.*\nwhat Redis"
    ):
        unit("inactive", "disabled", 1, commands).apply(["start", "enable"])
    assert not any("enable" in command for command in commands)


def test_a_server_without_libsystemd_cannot_say_that_it_is_ready(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\nexec /opt/redis-server\n", encoding="ascii")
    found = [can_notify(each) for each in (shutil.which("redis-server"), shutil.which("true"), tmp_path / "script")]
    assert found == [True, False, True]
