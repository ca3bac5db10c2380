# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors before their first profile and their first fleet: what check mode shows, and whether KVM works."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest

from .conftest import SMALL, LocalFleet, write_inventory
from .machine import differences, snapshot
from .other_host import python_with_mounts, without_libvirt

pytestmark = pytest.mark.usefixtures("needs_root")


def write_hypervisors(fleet: LocalFleet, **hosts: dict[str, t.Any]) -> pathlib.Path:
    """Write an inventory with these hypervisors, all of which are this machine, each with its variables."""
    image = fleet.path / "golden.img"
    image.touch()
    options = {
        "vm_fleet_count": 2,
        "vm_fleet_image": str(image),
        "vm_fleet_memory": "1G",
        "vm_fleet_local_directory": str(fleet.path / "controller"),
        "vm_fleet_directory": str(fleet.path / "images"),
    }
    groups = {"hypervisors": {"hosts": hosts, "vars": options}, "fleet": {"vars": SMALL}}
    return write_inventory(fleet.path / "hosts.yml", groups)


def test_check_mode_works_and_touches_nothing(fleet: LocalFleet, untuned_machine: None) -> None:
    python = python_with_mounts(fleet.path / "python", without_libvirt(fleet.path / "host"))
    inventory = write_hypervisors(fleet, kvm01={"ansible_python_interpreter": python})
    installed = pathlib.Path("~/.local/lib/memstretch").expanduser()
    programs = sorted(installed.glob("*"))
    before = snapshot()
    outcome = fleet.run_playbook("--check", playbook="site", inventory=inventory)
    assert outcome.status == 0, outcome.output
    assert "python3-libvirt" in outcome.output and "2 VMs would be created" in outcome.output, outcome.output
    assert differences(before, snapshot()) == {}
    assert not any((fleet.path / each).exists() for each in ("controller", "images", "results"))
    assert sorted(installed.glob("*")) == programs


def test_kvm_that_does_not_work_is_refused_unless_emulation_is_chosen(fleet: LocalFleet) -> None:
    """The host has a /dev/kvm that no user may open, or none."""
    device = fleet.path / "dev"
    device.mkdir()
    mounts: dict[str, object] = {}
    for name in ("null", "urandom", "zero"):
        (device / name).touch()
        mounts[str(device / name)] = f"/dev/{name}"
    without = python_with_mounts(fleet.path / "without", {**mounts, "/dev": device})
    broken = fleet.path / "broken"
    broken.mkdir()
    for name in ("null", "urandom", "zero", "kvm"):
        (broken / name).touch()
    mounts = {str(broken / name): f"/dev/{name}" for name in ("null", "urandom", "zero")}
    mounts[str(broken / "kvm")] = broken / "kvm"
    with_broken = python_with_mounts(fleet.path / "with", {**mounts, "/dev": broken}, read_only=["/dev/kvm"])
    choose = {"ansible.builtin.include_role": {"name": "memstretch.density.vm_fleet", "tasks_from": "accelerator"}}
    show = {"ansible.builtin.debug": {"msg": "chosen: {{ __vm_fleet_accelerator }}"}}
    playbook = fleet.custom_playbook([choose, show], hosts="hypervisors")
    hosts = {
        "broken": {"ansible_python_interpreter": with_broken, "vm_fleet_accelerator": "auto"},
        "emulated": {"ansible_python_interpreter": with_broken, "vm_fleet_accelerator": "qemu"},
        "without": {"ansible_python_interpreter": without, "vm_fleet_accelerator": "auto"},
    }
    # The disk of a master is tried like an image. Without anything to try, KVM needs its device at least.
    clones = {"vm_fleet_accelerator": "auto", "vm_fleet_image": "", "vm_fleet_master": "golden"}
    compared = {**clones, "__vm_fleet_result": {"base": "/golden.qcow2"}}
    hosts["master-broken"] = {**compared, "ansible_python_interpreter": with_broken}
    hosts["master-without"] = {**compared, "ansible_python_interpreter": without}
    hosts["nothing-to-try"] = {**clones, "ansible_python_interpreter": without}
    outcome = fleet.run_playbook(playbook=playbook, inventory=write_hypervisors(fleet, **hosts))
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and "broken has KVM, but it does not work: /dev/kvm exists, but its permissions" in told
    assert "master-broken has KVM, but it does not work" in told, told
    for host in hosts:
        failed = int(host.endswith("broken"))
        assert re.search(rf" {host} : ok=\d+ .*? failed={failed} ", told), told
    assert told.count("chosen: qemu") == 4 and "chosen: kvm" not in told, told
