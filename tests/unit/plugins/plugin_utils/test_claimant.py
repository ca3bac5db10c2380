# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which playbook this is, and whether another one runs."""

from __future__ import annotations

import os
import subprocess
import sys

from ansible_collections.memstretch.density.plugins.plugin_utils import claimant
from ansible_collections.memstretch.density.plugins.plugin_utils.claimant import is_running, this_playbook


def test_a_process_runs_until_it_ends():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        name = claimant._process(process.pid)
        assert is_running(name)
        assert not is_running(f"{process.pid}:1"), "another process had that number"
    assert not is_running(name)
    assert not is_running("nonsense")


def test_the_outermost_playbook_counts_and_no_option_is_shown(monkeypatch):
    parents = {10: 9, 9: 8, 8: 7, 7: 1, 1: 0}
    commands = {
        10: ["/usr/bin/python3", "/usr/bin/ansible-playbook", "inner.yml"],
        9: ["sh"],
        8: [
            "python3",
            "/usr/bin/ansible-playbook",
            "-e",
            "password=secret",
            "-e",
            "@vault.yml",
            "site.yml",
            "memstretch.density.tune",
        ],
        7: ["bash"],
        1: ["init"],
    }
    monkeypatch.setattr(os, "getppid", lambda: 10)
    monkeypatch.setattr(claimant, "_parent", parents.__getitem__)
    monkeypatch.setattr(claimant, "_words", commands.__getitem__)
    monkeypatch.setattr(claimant, "_process", lambda pid: f"{pid}:x")
    found = this_playbook()
    assert (found.process, found.ancestors) == ("8:x", ["10:x", "9:x", "8:x", "7:x", "1:x"])
    assert found.text.endswith("(ansible-playbook site.yml memstretch.density.tune)")
