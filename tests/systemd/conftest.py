# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

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

from .machine import ROOT, Machine

PLAYBOOK_TIMEOUT_S = 300


class Host:
    """The machine as a host of an inventory."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.inventory = machine.path / "hosts.yml"
        groups = {"hypervisors": {"hosts": {"booted": machine.variables}}}
        self.inventory.write_text(yaml.safe_dump(groups), encoding="utf-8")

    def role(self, name: str, **variables: t.Any) -> str:
        """Play a role, and return the output."""
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
        assert done.returncode == 0, done.stdout
        return done.stdout

    def is_unchanged_by(self, name: str, **variables: t.Any) -> bool:
        """Play a role once more, and check that it changes nothing."""
        return " changed=0 " in self.role(name, **variables)


@pytest.fixture(scope="session")
def host() -> t.Iterator[Host]:
    if os.geteuid():
        pytest.fail("namespaces and control groups need root; make test-systemd runs this with sudo", pytrace=False)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="systemd-") as name:
        path = pathlib.Path(name)
        path.chmod(0o755)
        machine = Machine(path)
        try:
            yield Host(machine)
        finally:
            machine.close()
