# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks with --limit on a fleet of two hypervisors: what they leave out is refused, and no VM moves.

None moves when the list of hypervisors changes, either.
"""

from __future__ import annotations

import pytest

from .conftest import Lab


@pytest.mark.long
def test_a_limit_never_moves_a_vm_and_never_skips_in_silence(lab: Lab) -> None:
    fleet = {"vm_fleet_count": 3, "hypervisors": 2}
    limit = "hypervisors,fleet,localhost"
    created = lab.run_playbook("fleet", "--limit", limit, "-e", "vm_fleet_state=present", **fleet)
    assert created.status == 0, created.output
    placed = [{"try-001", "try-003"}, {"try-002"}]
    assert [each.vms() for each in lab.hypervisors] == placed
    # The playbook, its limit, and the first host that the refusal names as left out.
    cases = [
        ("fleet", "try1,localhost", "try2"),
        ("teardown", "try2,localhost", "try1"),
        ("site", "hypervisors,localhost", "try-001"),
        ("study", "hypervisors", "localhost"),
        ("report", "hypervisors", "localhost"),
    ]
    started = {**fleet, "vm_fleet_address_timeout": 1}
    for playbook, limited, left_out in cases:
        outcome = lab.run_playbook(playbook, "--limit", limited, "-e", "profiles=dram,swap", **started)
        told = " ".join(outcome.output.split())
        assert outcome.status != 0, f"{playbook} --limit {limited}: {told}"
        assert f"--limit {limited} leaves out {left_out}" in told, f"{playbook} --limit {limited}: {told}"
        assert [each.vms() for each in lab.hypervisors] == placed
        assert not any(each.vms("--state-running") for each in lab.hypervisors)


@pytest.mark.long
def test_another_list_of_hypervisors_never_moves_a_vm(lab: Lab) -> None:
    """As after a hypervisor was added: VMs would be deleted with their data, and created empty elsewhere."""
    fleet = {"vm_fleet_count": 3, "vm_fleet_state": "present", "vm_fleet_surplus": "absent"}
    assert lab.run_playbook("fleet", **fleet).status == 0
    placed = [{"try-001", "try-002", "try-003"}, set()]
    assert [each.vms() for each in lab.hypervisors] == placed
    disk = lab.hypervisors[0].identity("try-002")
    for surplus in ("absent", "stopped"):
        refused = lab.run_playbook("fleet", hypervisors=2, **{**fleet, "vm_fleet_surplus": surplus})
        told = " ".join(refused.output.split())
        assert refused.status != 0 and "1 VMs of fleet try are not on the hypervisors" in told, told
        assert "try-002 (on try1, not try2)" in told and "remove it first with its data" in told, told
        assert [each.vms() for each in lab.hypervisors] == placed
    assert lab.hypervisors[0].identity("try-002") == disk
    # The ways that the refusal names: the list of before, or a removal.
    assert lab.run_playbook("fleet", **fleet).changed == 0
    assert lab.run_playbook("teardown", hypervisors=2, **fleet).status == 0
    assert lab.run_playbook("fleet", hypervisors=2, **fleet).status == 0
    assert [each.vms() for each in lab.hypervisors] == [{"try-001", "try-003"}, {"try-002"}]
