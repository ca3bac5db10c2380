# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks fleet and teardown on real libvirt. No test needs a guest that boots, so the disks are blank."""

from __future__ import annotations

import json
import pathlib

import pytest

from .conftest import IMAGES, Lab, define_foreign_vm

DIRECTORY = f"{IMAGES}/fleet-try"


def test_check_mode_changes_nothing_and_shows_what_would_change(lab: Lab) -> None:
    outcome = lab.run_playbook("fleet", "--check", "--diff", vm_fleet_state="present", vm_fleet_count=2)
    assert outcome.status == 0, outcome.output
    assert "+try-001: shut off" in outcome.output and outcome.changed > 0
    host = lab.hypervisors[0]
    assert (
        not host.vms()
        and "fleet-try" not in host.files(IMAGES)
        and "try" not in host.virsh("net-list", "--all", "--name").split()
    )
    assert not (lab.path / "fleet").exists()


def test_teardown_leaves_everything_foreign(lab: Lab) -> None:
    host = lab.hypervisors[0]
    host.run("qemu-img", "create", "-q", "-f", "qcow2", f"{IMAGES}/foreign.qcow2", "1M")
    host.virsh("net-define", "/dev/stdin", text="<network><name>foreign</name></network>")
    define_foreign_vm(lab, "foreign")
    host.virsh("start", "foreign")
    lab.create_fleet(vm_fleet_count=2)
    host.run("touch", f"{DIRECTORY}/notes.txt")
    predicted = lab.run_playbook("teardown", "--check", vm_fleet_count=2)
    assert predicted.status == 0, predicted.output
    assert host.vms() == {"foreign", "try-001", "try-002"} and "try" in host.virsh("net-list", "--name").split()
    outcome = lab.run_playbook("teardown", vm_fleet_count=2)
    assert outcome.status == 0, outcome.output
    assert host.vms("--state-running") == {"foreign"} == host.vms()
    assert {"foreign.qcow2", "golden", "fleet-try"} <= host.files(IMAGES)
    assert host.files(DIRECTORY) == {"notes.txt"}
    assert host.virsh("net-list", "--all", "--name").split() == ["foreign"]
    assert not list((lab.path / "fleet").glob("*"))
    host.run("rm", "-r", DIRECTORY)
    host.virsh("destroy", "foreign")
    host.virsh("undefine", "foreign")
    host.virsh("net-undefine", "foreign")


IMPOSSIBLE = [
    ({"vm_fleet_image": f"{IMAGES}/golden/none.qcow2"}, "none.qcow2 does not exist"),
    ({"vm_fleet_image_checksum": "sha256:" + "0" * 64}, "has the checksum"),
    ({"vm_fleet_image": "", "vm_fleet_master": "nobody"}, "this host has no VM nobody"),
    ({"vm_fleet_memory": "4T"}, "0 VMs fit"),
    ({"vm_fleet_disk_growth": "400T"}, "disk: 2 new clones"),
    ({"vm_fleet_count": 254}, "the network can assign only 253"),
    ({"vm_fleet_count": -1}, "vm_fleet_count: "),
    ({"vm_fleet_image": "https://example.com/x.qcow2"}, "vm_fleet_image_checksum: is missing"),
    ({"vm_fleet_name": "No Name"}, "vm_fleet_name: "),
    ({"vm_fleet_pin": True}, "pin: true needs cpus"),
]


def test_impossible_fleets_are_refused_before_any_change(lab: Lab) -> None:
    cases = [{"vm_fleet_state": "present", "vm_fleet_count": 2, **changes} for changes, _reason in IMPOSSIBLE]
    found = lab.refusals("vm_fleet", cases)
    lacking = {
        reason: found.get(number)
        for number, (_changes, reason) in enumerate(IMPOSSIBLE)
        if reason not in found.get(number, "")
    }
    assert lacking == {}
    host = lab.hypervisors[0]
    assert not host.vms() and "fleet-try" not in host.files(IMAGES) and not (lab.path / "fleet").exists()


@pytest.mark.long
def test_too_many_cpus_are_a_warning_with_the_figures(lab: Lab) -> None:
    assert "vCPUs per CPU" in lab.create_fleet(vm_fleet_count=2, vm_fleet_vcpus=8).output


@pytest.mark.long
def test_a_vm_that_never_boots_is_named(lab: Lab) -> None:
    outcome = lab.run_playbook(vm_fleet_count=1, vm_fleet_address_timeout=3)
    assert outcome.status != 0
    assert "No address within 3 s (vm_fleet_address_timeout): try-001" in outcome.output
    assert lab.hypervisors[0].vms("--state-running") == {"try-001"}


@pytest.mark.long
def test_vms_are_distributed_over_two_hypervisors(lab: Lab) -> None:
    lab.create_fleet(vm_fleet_count=3, hypervisors=2)
    assert [each.vms() for each in lab.hypervisors] == [{"try-001", "try-003"}, {"try-002"}]
    assert lab.create_fleet(vm_fleet_count=3, hypervisors=2).changed == 0


@pytest.mark.long
def test_the_self_test_removes_a_vm_that_does_not_boot(lab: Lab, tmp_path: pathlib.Path) -> None:
    """The golden image is that of the inventory's own fleet, and empty."""
    settings = {"selftest_emulation": True, "selftest_vm_memory": "64M", "selftest_vm_timeout": 2}
    variables = json.dumps({"results_dir": str(tmp_path), "selftest_checks": ["vm", "guest_arguments"]})
    outcome = lab.run_playbook("selftest", "-e", variables, **settings)
    assert outcome.status != 0 and "1 of 3 checks failed: vm on try1" in outcome.output, outcome.output
    text = (tmp_path / "selftest" / "selftest.json").read_text(encoding="utf-8")
    results = json.loads(text)["hosts"]["host-1"]["results"]
    assert "No address within 2 s" in results["vm"]["reason"], results["vm"]
    assert results["guest_arguments"]["result"] == "skipped"
    assert results["put_back"]["result"] == "passed", results["put_back"]
    host = lab.hypervisors[0]
    assert host.vms() == set() and "fleet-memstretch-selftest" not in host.files(IMAGES)
    assert not pathlib.Path("/var/lib/memstretch-selftest").exists()
