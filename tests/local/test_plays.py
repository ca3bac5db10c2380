# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays that others write: their strategy, their groups, and variables that apply to every host."""

from __future__ import annotations

import pytest

from .conftest import LocalFleet, write_inventory

FLEET = {"fleet": {"hosts": {"a": {}, "b": {}}}}


@pytest.mark.parametrize("role", ["latency_benchmark", "vm_fleet"])
def test_hosts_that_do_not_work_together_are_refused(fleet: LocalFleet, role: str) -> None:
    inventory = write_inventory(fleet.path / "hosts.yml", FLEET)
    check = {"ansible.builtin.include_role": {"name": f"memstretch.density.{role}", "tasks_from": "check"}}
    cases = [
        ({"strategy": "free"}, "strategy: free is not allowed for the play 'fleet'; it must be linear"),
        ({"serial": 1}, "serial: 1 is not allowed for the play 'fleet'"),
    ]
    for keywords, expected in cases:
        outcome = fleet.run_playbook(playbook=fleet.custom_playbook([check], **keywords), inventory=inventory)
        told = " ".join(outcome.output.split())
        assert outcome.status != 0 and expected in told, told


def test_a_strategy_of_the_configuration_is_refused_before_any_host_is_touched(fleet: LocalFleet) -> None:
    fleet.environment["ANSIBLE_STRATEGY"] = "ansible.builtin.free"
    outcome = fleet.run_playbook(inventory=write_inventory(fleet.path / "hosts.yml", FLEET))
    told = " ".join(outcome.output.split())
    assert outcome.status != 0 and "strategy: ansible.builtin.free is not allowed" in told, told
    assert not fleet.results.exists()
