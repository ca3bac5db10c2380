# SPDX-License-Identifier: GPL-3.0-or-later
"""What each test looks for when it ends: processes that its playbooks have left."""

from __future__ import annotations

import os
import signal

from .conftest import wait_for


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
