# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role vm_fleet does on the controller and in the VMs, without libvirt."""

from __future__ import annotations

import subprocess

from .conftest import LocalFleet, write_inventory


def test_names_that_lead_to_one_vm_are_refused(fleet: LocalFleet) -> None:
    inventory = write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": {"vm-1": {}, "vm-2": {}}}})
    guest = {"ansible.builtin.include_role": {"name": "memstretch.density.vm_fleet", "tasks_from": "guest"}}
    outcome = fleet.run_playbook(playbook=fleet.custom_playbook([guest]), inventory=inventory)
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and "These names lead to one VM" in told and "is the same: vm-1, vm-2" in told, told


def test_keys_from_variables_are_used_and_not_shown(fleet: LocalFleet) -> None:
    keys = {}
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", fleet.path / name], check=True)
        keys[name] = (fleet.path / name).read_text(encoding="utf-8")
    make = {
        "ansible.builtin.include_role": {"name": "memstretch.density.vm_fleet", "tasks_from": "keys"},
        "vars": {
            "vm_fleet_local_directory": str(fleet.path / "controller"),
            "vm_fleet_private_key": keys["key"].strip(),
            "vm_fleet_host_private_key": keys["host_key"],
        },
    }
    inventory = write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": {"kvm": {}}}})
    playbook = fleet.custom_playbook([make])
    first = fleet.run_playbook("-vvv", playbook=playbook, inventory=inventory)
    assert first.status == 0, first.output
    for name, key in keys.items():
        assert (fleet.path / "controller" / name).read_text(encoding="utf-8") == key
        public = (fleet.path / f"{name}.pub").read_text(encoding="utf-8")
        assert (fleet.path / "controller" / f"{name}.pub").read_text(encoding="utf-8") == public
        assert key.splitlines()[2] not in first.output
    again = fleet.run_playbook(playbook=playbook, inventory=inventory)
    assert again.status == 0 and "changed=0" in again.output, again.output
