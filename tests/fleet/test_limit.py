# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks with --limit on a fleet of two hypervisors: what they leave out is refused, and no VM moves."""

from __future__ import annotations

from .conftest import Lab


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
