# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.redis.process import Process, find_server


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_is_alive_until_it_ends(sleeper):
    process = Process(sleeper.pid)
    assert process.alive and process.parent == os.getpid()
    sleeper.kill()
    sleeper.wait()
    assert not process.alive


def test_a_zombie_is_not_alive(sleeper):
    process = Process(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert Process(sleeper.pid).zombie and not process.alive


def test_a_reused_number_is_another_process(sleeper):
    process = Process(sleeper.pid)
    process.started -= 1
    assert not process.alive


def test_a_process_in_the_pidfile_that_is_not_the_server_is_neither_found_nor_ended(write_config, sleeper):
    config = write_config()
    with open(config.pidfile, "w", encoding="ascii") as file:
        file.write(str(sleeper.pid))
    assert find_server(config, "redis-server") is None
    Process(sleeper.pid).terminate(config, "redis-server")
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.2)
