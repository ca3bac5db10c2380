# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays that others write: their strategy, their groups, and variables that apply to every host."""

from __future__ import annotations

import json
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


def test_a_name_that_a_tenant_of_a_cloud_has_chosen_forges_no_verdict(fleet: LocalFleet) -> None:
    hosts = write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": {"a\nVerdict: PASS": {}}}})
    outcome = fleet.run_playbook(inventory=hosts)
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and r"a host whose name is not allowed: 'a\\nVerdict: PASS'" in told, told
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
        (inventory, "benchmark", {"latency_benchmark_rat": 100}, "did you mean latency_benchmark_rate?"),
        (inventory, "benchmark", {"slo": "relative"}, "slo: relative is not allowed here; a run is judged by"),
        (inventory, "fleet", {"image_build": True}, 'the inventory has no host in the group "hypervisors"'),
        (
            standard,
            "fleet",
            {"image_build": True, "vm_fleet_image": "https://x/y"},
            'vm_fleet_image: "https://x/y" is not allowed',
        ),
    ]
    for hosts, playbook, variables, expected in cases:
        outcome = fleet.run_playbook("-e", json.dumps(variables), playbook=playbook, inventory=hosts)
        told = " ".join(outcome.output.split())
        assert outcome.status != 0 and expected in told and "changed=1" not in told, told


def test_to_tune_nothing_is_an_error(fleet: LocalFleet) -> None:
    none = write_inventory(fleet.path / "none.yml", FLEET)
    hosts = {**FLEET, "hypervisors": {"hosts": {"kvm": {"host_tuning_state": "recorded"}}}}
    recorded = write_inventory(fleet.path / "recorded.yml", hosts)
    nothing = 'There is nothing to tune: the inventory has no host in the group "hypervisors"'
    left_out = "--limit a leaves out every host of the group hypervisors"
    cases = [
        ("tune", none, ["--limit", "a"], nothing),
        ("tune", recorded, ["--limit", "a"], left_out),
        ("tune", recorded, [], "host_tuning_state is recorded for kvm, so nothing would be tuned"),
        ("verify", none, [], nothing),
        ("restore", none, [], nothing),
        ("restore", recorded, ["--limit", "a"], left_out),
    ]
    for playbook, inventory, arguments, expected in cases:
        outcome = fleet.run_playbook("-e", "profile=zram", *arguments, playbook=playbook, inventory=inventory)
        assert outcome.status != 0 and expected in outcome.output.strip().splitlines()[-1], outcome.output
        assert "changed=1" not in outcome.output


def test_a_profile_that_does_not_exist_is_one_sentence(fleet: LocalFleet) -> None:
    hosts = {"hypervisors": {"hosts": {"kvm": {"host_tuning_state": "recorded"}}}}
    inventory = write_inventory(fleet.path / "hosts.yml", hosts)
    outcome = fleet.run_playbook("-e", "profile=zrm", playbook="verify", inventory=inventory)
    told = [line for line in outcome.output.splitlines() if "zrm" in line]
    expected = "the option profile (host_tuning_profile) is 'zrm', but there is no such profile. Allowed: dram, "
    assert outcome.status != 0 and len(told) == 2 and all(expected in line for line in told), outcome.output
    assert "Origin:" not in outcome.output and "caused by" not in outcome.output, outcome.output


def test_a_misspelt_variable_is_refused_wherever_it_is_set(fleet: LocalFleet) -> None:
    """In a role that is used alone: as its parameter, as a variable of the play, and of another host of the play."""
    hosts = {"a": {}, "b": {"vm_fleet_cont": 3}}
    inventory = write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": hosts}})
    expected = [
        "redis_prt (set for a) is not a variable of memstretch.density; did you mean redis_port?",
        "swap_space_kin (set for a) is not a variable of memstretch.density; did you mean swap_space_kind?",
        "vm_fleet_cont (set for b) is not a variable of memstretch.density; did you mean vm_fleet_count?",
    ]
    include = {"ansible.builtin.include_role": {"name": "memstretch.density.redis"}, "vars": {"redis_prt": 1}}
    playbook = fleet.custom_playbook([include], vars={"swap_space_kin": "file", "redis_version": 7})
    outcome = fleet.run_playbook(playbook=playbook, inventory=inventory)
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and [text for text in expected if text not in told] == [], told


def test_a_misspelt_variable_of_the_command_line_is_refused(fleet: LocalFleet) -> None:
    """Else `tune -e profil=zram` would apply the default, and say that all went well."""
    inventory = write_inventory(fleet.path / "hosts.yml", {"hypervisors": {"hosts": {"kvm": {}}}})
    outcome = fleet.run_playbook("-e", "profil=zram", playbook="tune", inventory=inventory)
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and "profil (set for every host) is not a variable" in told, told
    assert "did you mean profile?" in told and "changed=1" not in told


def test_a_line_is_in_a_pipe_as_soon_as_it_is_known(fleet: LocalFleet) -> None:
    """Otherwise a long measurement shows no progress to a pipeline, or to somebody who keeps the output in a file."""
    fleet.add("a")
    seen = fleet.path / "seen"
    tasks = [
        {"ansible.builtin.debug": {"msg": "the first line"}, "changed_when": True},
        {"ansible.builtin.wait_for": {"path": str(seen)}},
    ]
    process = fleet.start(playbook=fleet.custom_playbook(tasks))
    assert process.stdout
    while "the first line" not in process.stdout.readline():
        assert process.poll() is None, "it ended without the line"
    assert process.poll() is None, "the second task waits for the file"
    seen.touch()
    assert fleet.wait(process).status == 0
