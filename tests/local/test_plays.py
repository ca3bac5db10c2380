# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays that others write: their strategy, their groups, and variables that apply to every host."""

from __future__ import annotations

import json
import pathlib
import sys
import typing as t

import pytest

from .conftest import LocalFleet, write_inventory

FLEET = {"fleet": {"hosts": {"a": {}, "b": {}}}}


@pytest.mark.parametrize(
    "role, keywords, expected",
    [
        ("vm_fleet", {"strategy": "free"}, "strategy: free is not allowed for the play 'fleet'; it must be linear"),
        ("latency_benchmark", {"serial": 1}, "serial: 1 is not allowed for the play 'fleet'"),
    ],
)
def test_hosts_that_do_not_work_together_are_refused(
    fleet: LocalFleet, role: str, keywords: dict[str, t.Any], expected: str
) -> None:
    inventory = write_inventory(fleet.path / "hosts.yml", FLEET)
    check = {"ansible.builtin.include_role": {"name": f"memstretch.density.{role}", "tasks_from": "check"}}
    outcome = fleet.run_playbook(playbook=fleet.custom_playbook([check], **keywords), inventory=inventory)
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and expected in told, told


def test_a_strategy_of_the_configuration_is_refused_before_any_host_is_touched(fleet: LocalFleet) -> None:
    fleet.environment["ANSIBLE_STRATEGY"] = "ansible.builtin.free"
    outcome = fleet.run_playbook(inventory=write_inventory(fleet.path / "hosts.yml", FLEET))
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and "strategy: ansible.builtin.free is not allowed" in told, told
    assert not fleet.results.exists()


def test_other_names_of_groups_are_variables(fleet: LocalFleet) -> None:
    wrong = {"hosts": {"a": {}}, "vars": {"latency_benchmark_rate": 0}}
    inventory = write_inventory(fleet.path / "hosts.yml", {"caches": wrong, "kvm": {"hosts": {"hv": {}}}})
    cases = [
        ("benchmark", {"fleet_group": "caches"}, "latency_benchmark_rate: 0"),
        ("fleet", {"hypervisors_group": "kvm", "vm_fleet_count": 1}, "fatal: [hv]: FAILED!"),
        ("restore", {"hypervisors_group": "kvms"}, "hypervisors_group: kvms is not a group of the inventory; it has"),
    ]
    for playbook, variables, expected in cases:
        outcome = fleet.run_playbook("-e", json.dumps(variables), playbook=playbook, inventory=inventory)
        told = " ".join(outcome.output.split())
        assert outcome.status != 0 and expected in told, told


def test_what_a_playbook_cannot_do_with_an_inventory_is_refused_before_anything_is_changed(fleet: LocalFleet) -> None:
    groups = {name: {"hosts": {host: {}}} for name, host in (("fleet", "x"), ("caches", "c"), ("kvm", "hv"))}
    inventory = write_inventory(fleet.path / "hosts.yml", groups)
    standard = write_inventory(fleet.path / "more.yml", {**groups, "hypervisors": {"hosts": {"prod": {}}}})
    cases = [
        (
            standard,
            "restore",
            {"hypervisors_group": "kvm"},
            "hosts that are not in kvm (prod). Give that group another",
        ),
        (
            inventory,
            "benchmark",
            {"fleet_group": "caches"},
            "hosts that are not in caches (x). Give that group another",
        ),
        (inventory, "benchmark", {"fleet_group": "caches2"}, "fleet_group: caches2 is not a group of the inventory"),
        (inventory, "drives", {}, 'the inventory has no host in the group "hypervisors"'),
        (inventory, "image", {}, 'the inventory has no host in the group "hypervisors"'),
        (standard, "image", {"vm_fleet_image": "https://x/y"}, 'vm_fleet_image: "https://x/y" is not allowed'),
        (inventory, "calibrated", {"run_id": "mine"}, "run_id: this playbook makes two runs"),
    ]
    for hosts, playbook, variables, expected in cases:
        outcome = fleet.run_playbook("-e", json.dumps(variables), playbook=playbook, inventory=hosts)
        told = " ".join(outcome.output.split())
        assert outcome.status != 0 and expected in told and "changed=1" not in told, told


def test_a_host_with_an_old_python_gets_one_sentence(fleet: LocalFleet) -> None:
    """The host's Python reports the version of CentOS 7's."""
    (fleet.path / "old").mkdir()
    (fleet.path / "old" / "sitecustomize.py").write_text("import sys\nsys.version_info = (2, 7, 5)\n", encoding="utf-8")
    python = fleet.path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={fleet.path}/old exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    variables = {
        "client_program_name": "membw",
        "client_program_directory": str(fleet.path / "programs"),  # where it is not installed yet
        "vm_fleet_count": 1,
        "vm_fleet_image": "/golden.qcow2",
        "vm_fleet_memory": "1G",
    }
    roles = ("client_program", "host_tuning", "kernel_cmdline", "redis", "swap_space", "vm_fleet")
    cases = [
        *((role, python, "a has Python 2.7 only at") for role in roles),
        ("redis", fleet.path / "none", "a has no Python that starts at"),
    ]
    tasks = [
        {
            "ansible.builtin.include_role": {"name": f"memstretch.density.{role}"},
            "vars": {**variables, "ansible_python_interpreter": str(interpreter)},
        }
        for role, interpreter, _text in cases
    ]
    inventory = write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": {"a": {}}}})
    for (role, _interpreter, text), message in zip(cases, fleet.messages(tasks, inventory)):
        assert message.startswith(text) and "needs Python 3.8 or newer" in message, f"{role}: {message}"
    hosts = {"hypervisors": {"hosts": {"a": {"ansible_python_interpreter": str(python)}}}}
    outcome = fleet.run_playbook(playbook="drives", inventory=write_inventory(fleet.path / "kvm.yml", hosts))
    assert outcome.status != 0 and "a has Python 2.7 only at" in " ".join(outcome.output.split()), outcome.output


def test_the_drives_are_listed_with_all_that_decides_about_them(fleet: LocalFleet) -> None:
    hosts = write_inventory(fleet.path / "hosts.yml", {"hypervisors": {"hosts": {"a": {}}}})
    outcome = fleet.run_playbook(playbook="drives", inventory=hosts)
    assert outcome.status == 0 and "changed=0" in outcome.output, outcome.output
    disks = [path.parent.name for path in pathlib.Path("/sys/block").glob("*/device")]
    lines = [line for line in outcome.output.splitlines() if " | serial " in line]
    assert len(lines) == len(disks), outcome.output
    assert ("this host has no disks" in outcome.output) is not bool(disks), outcome.output
    for line in lines:
        path, _model, _serial, size, node, pch, judgement = line.strip(' ",').split(" | ")
        assert path.startswith("/dev/") and size.endswith(" GB") and float(size.split()[0]) >= 0, line
        assert node.startswith("NUMA node ") and pch.split(": ")[1] in ("yes", "no", "unknown"), line
        assert judgement.startswith(("can be used", "it ")), line
