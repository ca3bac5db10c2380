# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook headroom on a hypervisor with real libvirt, whose VMs are emulated and run without a system."""

from __future__ import annotations

import json
import pathlib

import pytest

from .conftest import Lab

MIB = 2**20


@pytest.mark.long
@pytest.mark.usefixtures("needs_damon")
def test_the_vms_of_a_hypervisor_are_found_and_left_as_they_are(lab: Lab, tmp_path: pathlib.Path) -> None:
    lab.create_fleet(vm_fleet_count=3)
    host = lab.hypervisors[0]
    for name in ("try-001", "try-002"):
        host.virsh("start", name)
    before = [host.virsh("dumpxml", name) for name in sorted(host.vms())]
    outcome = lab.run_playbook(
        "headroom", headroom_ages=[1, 2], headroom_cpu_percent=100, results_dir=str(tmp_path), run_id="look"
    )
    assert outcome.status == 0, outcome.output
    document = json.loads((tmp_path / "look/headroom.json").read_text(encoding="utf-8"))["hosts"][host.name]
    # Other programs may run VMs on the machine whose processes the hypervisor sees.
    units = {unit["name"]: unit for unit in document["units"]}
    assert document["sentence"].startswith(f"{host.name} runs {len(units)} VMs in"), document["sentence"]
    assert document["method"] == "damon" and document["verdict"] != "unknown", document
    assert {"try-001", "try-002"} <= units.keys() and "try-003" not in units, "which is off"
    for name in ("try-001", "try-002"):
        unit = units[name]
        assert unit["given_bytes"] == 64 * MIB and len(unit["ages"]) == 2 and unit["reason"] is None, unit
    assert [host.virsh("dumpxml", name) for name in sorted(host.vms())] == before
    assert host.vms("--state-running") == {"try-001", "try-002"}
