# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps tests apart: processes that a test has left are found, and ports are those of one process of tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from .conftest import ROOT, own_ports, wait_for


def test_a_process_that_a_playbook_leaves_is_found(fleet):
    task = {"ansible.builtin.shell": "setsid sleep 300 >/dev/null 2>&1 & exit 0"}
    server = f"redis-server --port 0 --unixsocket redis.sock --dir {fleet.path}"
    redis = {"ansible.builtin.shell": f"setsid {server} >/dev/null 2>&1 & exit 0"}
    outcome = fleet.run_playbook(playbook=fleet.custom_playbook([task, redis], hosts="localhost", connection="local"))
    assert outcome.status == 0, outcome.output
    wait_for("both", lambda: list(fleet.running().values()) == ["sleep 300"] and len(fleet.instances()) == 1)
    assert fleet.leftovers() == ["sleep 300"]
    for pid in fleet.running():
        os.kill(pid, signal.SIGKILL)
    wait_for("its end", lambda: not fleet.running())


def test_processes_of_tests_at_the_same_time_have_different_ports():
    """Those of root and those of the user are in two lanes of make test."""
    ours = own_ports()
    module = "ansible_collections.memstretch.density.tests.local.conftest"
    code = f"import sys; sys.path.insert(0, sys.argv[1]); from {module} import own_ports; print(*own_ports())"
    command = [sys.executable, "-c", code, str(ROOT / ".ansible" / "collections")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    others = {int(word) for word in done.stdout.split()}
    assert len(others) == len(ours) and not others & set(ours)
