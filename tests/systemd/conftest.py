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
        return self.play(playbook, variables, fails)

    def play(self, playbook: pathlib.Path, variables: dict[str, t.Any], fails: bool = False) -> str:
        """Run a playbook, which may have to fail, and return the output."""
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

    def restore(self) -> None:
        """Restore what the roles have changed on this machine, whose kernel it shares."""
        if not self.machine.is_tuned:
            return
        print("== Restoring what the lane has changed on this machine (half a minute)", file=sys.stderr, flush=True)
        if not self.machine.is_on:
            self.machine.boot()
        output = self.play(ROOT / "playbooks" / "restore.yml", {})
        assert not self.machine.is_tuned, f"{self.machine.path} has the record of what is still changed: {output}"

    def check_unchanged_by(self, name: str, **variables: t.Any) -> None:
        """Play a role once more, and check that it changes nothing."""
        output = self.role(name, **variables)
        assert " changed=0 " in output, output

    def left_over(self) -> str:
        """Return the files of ours that are still there."""
        return self.machine.run("find", "/etc", "/var/lib", "-name", "*memstretch*")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", default="bookworm", help="release of the booted machine: bookworm, or noble of Ubuntu")


@pytest.fixture(scope="session")
def host(needs_root: None, pytestconfig: pytest.Config) -> t.Iterator[Host]:
    """Boot a machine. Before that, restore what a killed lane has left."""
    for left in Machine.left():
        put_back(left)
    machine = Machine.install(pytestconfig.getoption("suite"))
    try:
        machine.boot()
        yield Host(machine)
    finally:
        put_back(machine)


@pytest.fixture(scope="session")
def checkout(host: Host) -> pathlib.Path:
    """Clone this repository there, and return its path there."""
    return host.machine.clone()


def put_back(machine: Machine) -> None:
    """Restore this machine, and remove the other one. What cannot be restored keeps its record, for the next lane."""
    try:
        Host(machine).restore()
    finally:
        machine.cut_power()
    machine.remove()


@pytest.fixture(autouse=True)
def restored(host: Host) -> t.Iterator[None]:
    """A test that fails leaves the machine as it was, so that the next one does not fail for it."""
    yield
    host.restore()
