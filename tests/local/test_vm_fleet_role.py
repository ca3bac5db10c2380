# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role vm_fleet does on the controller and in the VMs, without libvirt."""

from __future__ import annotations

import subprocess

import yaml

from .conftest import ROOT, LocalFleet, write_inventory


def test_names_that_lead_to_one_vm_are_refused(fleet: LocalFleet) -> None:
    inventory = write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": {"vm-1": {}, "vm-2": {}}}})
    guest = {"ansible.builtin.include_role": {"name": "memstretch.density.vm_fleet", "tasks_from": "guest"}}
    outcome = fleet.run_playbook(playbook=fleet.custom_playbook([guest]), inventory=inventory)
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and "These names lead to one VM" in told and "is the same: vm-1, vm-2" in told, told
    assert "content in /etc/machine-id" in told, told


# The controller's own files are not another user's, although every host becomes nobody.
EVERY_HOST_BECOMES_NOBODY = {"ansible_become": True, "ansible_become_method": "su", "ansible_become_user": "nobody"}


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
    groups = {"fleet": {"hosts": {"kvm": {}}, "vars": EVERY_HOST_BECOMES_NOBODY}}
    inventory = write_inventory(fleet.path / "hosts.yml", groups)
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


def test_extra_variables_that_would_apply_to_the_vms_are_refused(fleet: LocalFleet) -> None:
    inventory = write_inventory(fleet.path / "hosts.yml", {"hypervisors": {"hosts": {"kvm": {}}}})
    check = {
        "ansible.builtin.include_role": {"name": "memstretch.density.vm_fleet", "tasks_from": "check"},
        "vars": {"vm_fleet_count": 1, "vm_fleet_image": "/image", "vm_fleet_memory": "1G"},
    }
    playbook = fleet.custom_playbook([check], hosts="hypervisors")
    forced = ("-e", "ansible_ssh_common_args=-v", "-e", "ansible_port=2222", "-e", "ansible_user=root")
    outcome = fleet.run_playbook(*forced, playbook=playbook, inventory=inventory)
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and "-e ansible_port, -e ansible_ssh_common_args: extra variables (-e)" in told, told
    allowed = fleet.run_playbook("--user", "root", "--ssh-common-args=-v", playbook=playbook, inventory=inventory)
    assert allowed.status == 0, allowed.output


def test_the_example_inventory_is_complete_but_for_the_checksum_of_the_image(fleet: LocalFleet) -> None:
    """Its variables are read as an operator's copy of it is, up to the first task that needs the hypervisor."""
    check = {"ansible.builtin.include_role": {"name": "memstretch.density.vm_fleet", "tasks_from": "check"}}
    count = {
        "ansible.builtin.debug": {
            "msg": "{{ groups['fleet'] | length }} VMs of {{ groups['hypervisors'] | length }} hypervisor"
        }
    }
    playbook = fleet.custom_playbook([check, count], hosts="hypervisors")
    example = ROOT / "inventories" / "example"
    outcome = fleet.run_playbook(playbook=playbook, inventory=example)
    assert outcome.status != 0 and "copy the checksum of your image here" in outcome.output, outcome.output
    checksum = f"vm_fleet_image_checksum=sha512:{'0' * 128}"
    outcome = fleet.run_playbook("-e", checksum, playbook=playbook, inventory=example)
    assert outcome.status == 0 and "20 VMs of 1 hypervisor" in outcome.output, outcome.output


def test_every_variable_of_the_example_inventory_is_one_of_a_role() -> None:
    known = {
        name
        for path in (ROOT / "roles").glob("*/meta/argument_specs.yml")
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values()
        for name in entry.get("options", {})
    }
    for path in (ROOT / "inventories" / "example" / "group_vars").glob("*.yml"):
        names = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert [name for name in names if name not in known and not name.startswith("ansible_")] == [], path
