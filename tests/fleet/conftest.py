# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab for the tests: hypervisors with a real libvirt, each in its own network and mount namespace. Needs root."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import typing as t

import ansible
import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import lab as lab_tool

ROOT = pathlib.Path(__file__).resolve().parents[2]
ANSIBLE_PROGRAMS = pathlib.Path(sys.executable).parent
LAB_TOOL = ROOT / "tools" / "lab.py"
IMAGES = "/var/lib/libvirt/images"
FLEET = "try"
LIBVIRT_TIMEOUT_S = 300
# Of pytest-xdist, each of which has a lab of its own; empty without it.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
REMOVE_NETWORKS = """exec >/dev/null 2>&1
for net in $(virsh net-list --name --all); do virsh net-destroy $net; virsh net-undefine $net; done"""

FOREIGN = (
    "<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory>"
    "<os><type>hvm</type></os><devices>{devices}</devices></domain>"
)
FOREIGN_UUID = "3a3f2c55-1111-4222-8333-444444444444"


@dataclasses.dataclass
class Outcome:
    """Exit status and output of a playbook."""

    status: int
    output: str

    @property
    def changed(self) -> int:
        return sum(map(int, re.findall(r"changed=(\d+)", self.output)))


class Hypervisor:
    """One libvirt, inspected without Ansible."""

    def __init__(self, name: str, environment: dict[str, str]) -> None:
        self.name, self.environment = name, environment
        self._lab = lab_tool.Hypervisor(name)
        self._lab.directory = pathlib.Path(environment["LAB_DIRECTORY"]) / name

    def run(self, *words: str, text: str | None = None) -> str:
        done = subprocess.run(
            self._lab.inside(*words),
            env=self.environment,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIBVIRT_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}"
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command without waiting for its end."""
        return subprocess.Popen(
            self._lab.inside(*words),
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def virsh(self, *words: str, text: str | None = None) -> str:
        return self.run("virsh", "--quiet", *words, text=text).strip()

    def vms(self, *options: str) -> set[str]:
        return set(self.virsh("list", "--name", *(options or ("--all",))).split())

    def files(self, directory: str) -> set[str]:
        return set(self.run("sh", "-c", f"ls -A {directory} 2>/dev/null || true").split())

    def checksum(self, path: str) -> str:
        return self.run("sha256sum", path).split()[0]

    def identity(self, name: str) -> tuple[str, str, str]:
        """Return UUID, MAC address and inode of the disk, which change only if a VM is created again."""
        xml = self.virsh("dumpxml", "--inactive", name)
        disk = re.search(r"<source file='(\S+clone\S+qcow2)'", xml)
        mac = re.search(r"mac(?: address='|=)([0-9a-f:]{17})", xml)
        assert disk and mac, xml
        return self.virsh("domuuid", name), mac[1], self.run("stat", "-c", "%i", disk[1]).strip()


class Lab:
    """Hypervisors of the lab, and playbooks and modules that run on them.

    Args:
        path: its directory, which the user of the VMs may enter.
        names: of the hypervisors.
        kept: the environment of a Python that keeps byte code, here and on the hypervisors.
    """

    def __init__(self, path: pathlib.Path, names: tuple[str, ...], kept: dict[str, str]) -> None:
        self.path = path
        self.environment = {
            **os.environ,
            **kept,
            "LAB_DIRECTORY": str(path / "lab"),
            "LAB_CONTROL_GROUPS": "no" if WORKER else "yes",
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
        }
        self._python = path / "python3"
        # The system's, because it has libvirt.
        words = [*(f"{name}={value}" for name, value in kept.items()), "/usr/bin/python3"]
        self._python.write_text(f'#!/bin/sh\nexec env {shlex.join(words)} "$@"\n', encoding="utf-8")
        self._python.chmod(0o755)
        self.up(*names)
        self.hypervisors = [Hypervisor(name, self.environment) for name in names]

    def up(self, *names: str) -> None:
        done = subprocess.run(
            [sys.executable, str(LAB_TOOL), "up", *names],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIBVIRT_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout

    def run_playbook(
        self, playbook: str = "fleet", *arguments: str, timeout: float = 900, hypervisors: int = 1, **variables: t.Any
    ) -> Outcome:
        """Run a playbook on the first hypervisors."""
        process = self.start(
            "ansible-playbook",
            str(self.write_inventory(hypervisors, variables)),
            str(ROOT / "playbooks" / f"{playbook}.yml"),
            *arguments,
        )
        try:
            output, _errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"{playbook} has not ended within {timeout:g} s: {process.communicate()[0]}")
        return Outcome(process.returncode, output)

    def start(
        self, command: str, inventory: str, *arguments: str, environment: t.Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command of Ansible."""
        return subprocess.Popen(
            [str(ANSIBLE_PROGRAMS / command), "-i", inventory, *arguments],
            cwd=ROOT,
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def write_inventory(self, hypervisors: int, variables: dict[str, t.Any]) -> pathlib.Path:
        """Write an inventory with the first hypervisors."""
        group = {
            "hosts": {each.name: {} for each in self.hypervisors[:hypervisors]},
            "vars": {
                "ansible_ssh_common_args": f"-F {self.path}/lab/ssh_config",
                "ansible_python_interpreter": str(self._python),
                "vm_fleet_name": FLEET,
                "vm_fleet_image": f"{IMAGES}/golden/blank.qcow2",
                "vm_fleet_memory": "64M",
                "vm_fleet_disk_growth": "1M",
                "vm_fleet_accelerator": "qemu",
                "vm_fleet_install": False,
                "vm_fleet_network": {"type": "network", "name": "try", "address": "10.78.0.1/24"},
                "vm_fleet_local_directory": str(self.path / "fleet"),
                "vm_fleet_stop_timeout": 0,
                **variables,
            },
        }
        inventory = self.path / "hosts.yml"
        inventory.write_text(yaml.safe_dump({"hypervisors": group}), encoding="utf-8")
        return inventory

    def run_module(self, hypervisor: int = 0, check: bool = False, **changes: t.Any) -> dict[str, t.Any]:
        """Run the module vm_fleet on a hypervisor as Ansible does, and return its result."""
        return self.result(self.start_module(hypervisor, check, **changes))

    def start_module(self, hypervisor: int = 0, check: bool = False, **changes: t.Any) -> subprocess.Popen[str]:
        """Start the module vm_fleet on a hypervisor as Ansible does."""
        options = {
            "fleet": FLEET,
            "state": "present",
            "directory": f"{IMAGES}/fleet-{FLEET}",
            "image": f"{IMAGES}/golden/blank.qcow2",
            "memory": "64M",
            "disk_growth": "1M",
            "accelerator": "qemu",
            "network": {"type": "user"},
            "stop_timeout": 0,
            **changes,
            "_ansible_check_mode": check,
        }
        if "count" in options:
            options["vms"] = {f"{FLEET}-{number:03}": number for number in range(1, options.pop("count") + 1)}
        descriptor, arguments = tempfile.mkstemp(prefix="arguments-", suffix=".json", dir=self.path)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"ANSIBLE_MODULE_ARGS": options}, file)
        packages = [str(pathlib.Path(ansible.__file__).parents[1]), str(ROOT / ".ansible" / "collections")]
        module = ROOT / "plugins" / "modules" / "vm_fleet.py"
        # The system's Python has libvirt; PYTHONPATH adds Ansible and the collection to it.
        return self.hypervisors[hypervisor].start(
            *("env", f"PYTHONPATH={':'.join(packages)}", "/usr/bin/python3", str(module), arguments),
        )

    @staticmethod
    def result(process: subprocess.Popen[str]) -> dict[str, t.Any]:
        """Return the result of a module when it has ended."""
        try:
            output, errors = process.communicate(timeout=LIBVIRT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"vm_fleet has not ended within {LIBVIRT_TIMEOUT_S} s: {process.communicate()}")
        assert output, errors
        return json.loads(output)

    def refusals(self, role: str, cases: t.Sequence[dict[str, t.Any]], **variables: t.Any) -> dict[int, str]:
        """Run a role with the variables of each case, in one playbook; return why it failed, by the case's place."""
        include = {"ansible.builtin.include_role": {"name": f"memstretch.density.{role}"}}
        blocks = [
            {
                "block": [{**include, "vars": case}],
                "rescue": [{"ansible.builtin.debug": {"msg": f"CASE {number}: {{{{ ansible_failed_result.msg }}}}"}}],
            }
            for number, case in enumerate(cases)
        ]
        play = {"name": "Try what must be refused", "hosts": "hypervisors", "gather_facts": False, "tasks": blocks}
        playbook = self.path / "refusals.yml"
        playbook.write_text(yaml.safe_dump([play]), encoding="utf-8")
        outcome = self.run_playbook(str(playbook.with_suffix("")), **variables)
        assert outcome.status == 0, outcome.output
        found = re.findall(r'"msg": "CASE (\d+): (.*)"', outcome.output)
        return {int(number): message for number, message in found}

    def create_fleet(self, **variables: t.Any) -> Outcome:
        """Create the fleet without starting it: its blank disks do not boot."""
        outcome = self.run_playbook(**{"vm_fleet_state": "present", **variables})
        assert outcome.status == 0, outcome.output
        return outcome


def define_foreign_vm(lab: Lab, name: str, uuid: str = FOREIGN_UUID, devices: str = "") -> None:
    """Define a foreign VM on the first hypervisor."""
    lab.hypervisors[0].virsh("define", "/dev/stdin", text=FOREIGN.format(name=name, uuid=uuid, devices=devices))


@pytest.fixture(scope="session")
def shared_lab(bytecode_environment: dict[str, str]) -> t.Iterator[Lab]:
    if os.geteuid():
        pytest.fail("namespaces and libvirtd need root")
    # Not one of pytest's own directories: the user of the VMs cannot enter those, and another pytest may remove them.
    path = pathlib.Path(tempfile.mkdtemp(prefix="memstretch-fleet-", dir="/var/tmp"))
    path.chmod(0o755)
    first = 2 * int(WORKER.removeprefix("gw") or 0) + 1
    golden = path / "golden"
    golden.mkdir()
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(golden / "blank.qcow2"), "1G"], check=True)
    try:
        yield Lab(path, (f"try{first}", f"try{first + 1}"), bytecode_environment)
    finally:
        subprocess.run(
            [sys.executable, str(LAB_TOOL), "down"],
            env={**os.environ, "LAB_DIRECTORY": str(path / "lab")},
            check=True,
            timeout=LIBVIRT_TIMEOUT_S,
        )
        shutil.rmtree(path)


@pytest.fixture
def lab(shared_lab: Lab) -> t.Iterator[Lab]:
    """The lab without a fleet or a network; the test's own are removed after it."""
    lab = shared_lab
    yield lab
    if (lab.path / "fleet").exists():
        shutil.rmtree(lab.path / "fleet")
    for number, each in enumerate(lab.hypervisors):
        # In one command for each step, because each takes a good part of a second.
        found = each.run("sh", "-c", f"ls -A {IMAGES}; virsh --quiet list --all --name").split()
        if any(name == f"fleet-{FLEET}" or re.fullmatch(rf"{FLEET}-\d{{3}}", name) for name in found):
            assert "failed" not in lab.run_module(number, state="absent", image=None, memory=None)
        left = each.run("sh", "-c", f"({REMOVE_NETWORKS}); virsh --quiet list --all --name").split()
        assert not [name for name in left if name.startswith(f"{FLEET}-")]
