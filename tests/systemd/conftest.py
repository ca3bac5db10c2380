# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A booted machine as a host of an inventory."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import typing as t

import pytest
import yaml

from .machine import Machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAYBOOK_TIMEOUT_S = 300


class Host:
    """The machine as a host of an inventory."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.inventory = machine.path / "hosts.yml"
        groups = {"hypervisors": {"hosts": {"booted": machine.variables}}}
        self.inventory.write_text(yaml.safe_dump(groups), encoding="utf-8")

    def role(self, name: str, fails: bool = False, **variables: t.Any) -> str:
        """Play a role, which may have to fail, and return the output."""
        playbook = self.machine.path / "role.yml"
        role = {"name": "Play a role", "hosts": "hypervisors", "gather_facts": False}
        role["roles"] = [{"role": f"memstretch.density.{name}"}]
        playbook.write_text(yaml.safe_dump([role]), encoding="utf-8")
        done = subprocess.run(
            [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.inventory), str(playbook)]
            + ["-e", json.dumps(variables)],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PLAYBOOK_TIMEOUT_S,
        )
        assert bool(done.returncode) == fails, done.stdout
        return done.stdout

    def check_unchanged_by(self, name: str, **variables: t.Any) -> None:
        """Play a role once more, and check that it changes nothing."""
        output = self.role(name, **variables)
        assert " changed=0 " in output, output

    def left_over(self) -> str:
        """Return the files of ours that are still there."""
        return self.machine.run("find", "/etc", "/var/lib", "-name", "*memstretch*")


@pytest.fixture(scope="session")
def host(needs_root: None) -> t.Iterator[Host]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="memstretch-systemd-") as name:
        path = pathlib.Path(name)
        path.chmod(0o755)
        machine = Machine(path)
        try:
            machine.boot()
            yield Host(machine)
        finally:
            machine.cut_power()
