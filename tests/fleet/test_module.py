# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module vm_fleet on real libvirt. No test needs a guest that boots, so the disks are blank."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.template import Vm

from .conftest import FOREIGN_UUID, IMAGES, Lab, define_foreign_vm

DIRECTORY = f"{IMAGES}/fleet-try"


def test_grows_shrinks_and_is_idempotent(lab: Lab) -> None:
    host = lab.hypervisors[0]
    assert lab.run_module(count=2)["actions"] == ["try-001: clone, define", "try-002: clone, define"]
    before = {name: host.identity(name) for name in ("try-001", "try-002")}
    assert lab.run_module(count=2)["changed"] is False
    assert lab.run_module(count=4)["actions"] == ["try-003: clone, define", "try-004: clone, define"]
    assert {name: host.identity(name) for name in before} == before
    host.virsh("start", "try-004")
    assert lab.run_module(count=3, surplus="stopped")["actions"] == ["try-004: stop"]
    assert host.vms() == {f"try-00{number}" for number in range(1, 5)} and not host.vms("--state-running")
    assert lab.run_module(count=2)["actions"] == ["try-003: undefine, delete", "try-004: undefine, delete"]
    assert host.vms() == {"try-001", "try-002"}
    assert {name for name in host.files(DIRECTORY) if name.startswith("clone")} == {
        "clone-try-001.qcow2",
        "clone-try-002.qcow2",
    }
    assert {name: host.identity(name) for name in before} == before


def test_check_mode_predicts_the_actions(lab: Lab) -> None:
    predicted = lab.run_module(count=2, check=True)
    assert not lab.hypervisors[0].vms() and "fleet-try" not in lab.hypervisors[0].files(IMAGES)
    assert lab.run_module(count=2)["actions"] == predicted["actions"]
    predicted = lab.run_module(state="absent", image=None, memory=None, check=True)
    assert lab.hypervisors[0].vms() == {"try-001", "try-002"}
    assert lab.run_module(state="absent", image=None, memory=None)["actions"] == predicted["actions"]
    assert not lab.hypervisors[0].vms() and "fleet-try" not in lab.hypervisors[0].files(IMAGES)


def test_removing_one_vm_leaves_the_disks_of_the_others(lab: Lab) -> None:
    host = lab.hypervisors[0]
    absent: dict[str, t.Any] = {"state": "absent", "image": None, "memory": None}
    lab.run_module(count=3, state="started")
    host.virsh("destroy", "try-003")
    others = [f"{DIRECTORY}/clone-try-{number}.qcow2" for number in ("002", "003")]
    before = [host.checksum(path) for path in others]
    predicted = lab.run_module(only=["try-001"], check=True, **absent)
    assert lab.run_module(only=["try-001"], **absent)["actions"] == predicted["actions"]
    assert [host.checksum(path) for path in others] == before
    assert host.vms() == {"try-002", "try-003"} and host.vms("--state-running") == {"try-002"}
    assert "clone-try-001.qcow2" not in host.files(DIRECTORY)
    assert lab.run_module(only=["try-001"], **absent)["changed"] is False
    assert lab.run_module(only=["try-002", "try-003"], **absent)["changed"]
    assert not host.vms() and "fleet-try" not in host.files(IMAGES)


def test_states(lab: Lab) -> None:
    host = lab.hypervisors[0]
    assert lab.run_module(count=2, state="started")["changed"]
    assert host.vms("--state-running") == {"try-001", "try-002"}
    assert lab.run_module(count=2, state="started")["changed"] is False
    assert lab.run_module(count=2, state="present")["changed"] is False
    host.virsh("suspend", "try-001")
    assert lab.run_module(count=2, state="started")["actions"] == ["try-001: start"]
    assert lab.run_module(count=2, state="stopped")["actions"] == ["try-001: stop", "try-002: stop"]
    assert lab.run_module(count=2, state="stopped")["changed"] is False and not host.vms("--state-running")


def test_a_vm_that_is_created_again_is_the_same(lab: Lab) -> None:
    network = {"type": "bridge", "name": "br0"}
    lab.run_module(count=1, network=network)
    first = lab.hypervisors[0].identity("try-001")
    lab.run_module(state="absent", image=None, memory=None)
    lab.run_module(count=1, network=network)
    assert lab.hypervisors[0].identity("try-001")[:2] == first[:2]


def test_an_interrupted_run_is_completed(lab: Lab) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=3)
    host.virsh("undefine", "try-001")  # a disk without a VM
    host.run("rm", f"{DIRECTORY}/clone-try-002.qcow2")  # a VM without a disk
    host.run("touch", f"{DIRECTORY}/.clone-try-003.new")  # a partial disk
    assert lab.run_module(count=3)["actions"] == ["try-001: clone, define", "try-002: clone"]
    assert lab.run_module(count=3)["changed"] is False


def test_a_changed_option_defines_the_vm_again_and_keeps_the_disk(lab: Lab) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=1, state="started")
    before = host.identity("try-001")
    assert lab.run_module(count=1, memory="96M")["actions"] == ["try-001: stop, define, start"]
    assert "98304 KiB" in host.virsh("dominfo", "try-001")
    assert host.identity("try-001") == before


@pytest.mark.parametrize(
    "name, uuid, devices, reason",
    [
        ("try-002", FOREIGN_UUID, "", "has the name of try-002"),
        ("foreign", Vm("try", "try-002", 2).uuid, "", "has the UUID of try-002"),
        (
            "foreign",
            FOREIGN_UUID,
            f"<interface type='user'><mac address='{Vm('try', 'try-002', 2).mac}'/></interface>",
            "has the MAC address of try-002",
        ),
    ],
)
def test_a_foreign_vm_with_the_same_identity_is_refused(
    lab: Lab, name: str, uuid: str, devices: str, reason: str
) -> None:
    host = lab.hypervisors[0]
    define_foreign_vm(lab, name, uuid, devices)
    try:
        assert reason in lab.run_module(count=2)["msg"]
        assert host.vms() == {name} and "fleet-try" not in host.files(IMAGES)
    finally:
        host.virsh("undefine", name)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"memory": "4T"}, "0 VMs fit"),
        ({"disk_growth": "400T"}, "disk: 2 new clones"),
        ({"pin": True}, "pin: true needs cpus"),
        ({"parallel": 0}, "parallel: 0 is out of range"),
        ({"memory": "1M"}, "it must be at least 64M"),
        ({"network": {"type": "network", "name": "none"}}, "libvirt has no network 'none'"),
        ({"image": None, "master": "nobody", "memory": None}, "this host has no VM nobody"),
        ({"image": "/none.qcow2"}, "golden image: /none.qcow2 does not exist"),
        ({"directory": IMAGES}, "was not made for a fleet"),
    ],
)
def test_impossible_fleets_are_refused_before_any_change(lab: Lab, changes: dict, reason: str) -> None:
    assert reason in lab.run_module(count=2, **changes)["msg"]
    assert not lab.hypervisors[0].vms() and "fleet-try" not in lab.hypervisors[0].files(IMAGES)


def test_refusals_can_be_warnings(lab: Lab) -> None:
    result = lab.run_module(count=2, disk_growth="400T", admission="warn", vcpus=64)
    warnings = json.dumps(result["warnings"])  # Ansible wraps each text in a dictionary with further details
    assert result["changed"] and "disk: 2 new clones" in warnings and "CPU: 2 VMs" in warnings


def test_a_changed_golden_image_is_refused(lab: Lab) -> None:
    image = f"{IMAGES}/golden/changing.qcow2"
    lab.hypervisors[0].run("cp", f"{IMAGES}/golden/blank.qcow2", image)
    lab.run_module(count=1, image=image)
    lab.hypervisors[0].run("touch", image)
    assert "has changed since try-001 was cloned" in lab.run_module(count=2, image=image)["msg"]


def test_clones_of_a_master(lab: Lab) -> None:
    host = lab.hypervisors[0]
    host.run("qemu-img", "create", "-q", "-f", "raw", f"{IMAGES}/master.raw", "64M")
    disk = (
        f"<disk type='file'><driver name='qemu' type='raw'/><source file='{IMAGES}/master.raw'/>"
        "<target dev='vda' bus='virtio'/></disk>"
    )
    define_foreign_vm(lab, "master", devices=disk)
    options: dict[str, t.Any] = {"image": None, "master": "master", "memory": None, "count": 2}
    try:
        host.virsh("start", "master")
        assert "master is running" in lab.run_module(**options)["msg"]
        host.virsh("destroy", "master")
        assert lab.run_module(**options)["changed"]
        assert host.vms() == {"master", "try-001", "try-002"}
        assert "master.raw" in host.run("qemu-img", "info", f"{DIRECTORY}/clone-try-001.qcow2")
        assert lab.run_module(**options)["changed"] is False
        lab.run_module(state="absent", image=None, memory=None)
        assert host.vms() == {"master"} and "master.raw" in host.files(IMAGES)
    finally:
        host.virsh("undefine", "master")


def test_libvirtd_is_restarted(lab: Lab) -> None:
    lab.run_module(count=1, state="started")
    host = lab.hypervisors[0]
    host.run(
        "sh",
        "-c",
        'pid=$(cat "$1"); kill "$pid"; while [ -e "/proc/$pid" ]; do sleep 0.1; done',
        "sh",
        f"{lab.path}/lab/try1/libvirtd.pid",
    )
    assert "libvirt does not answer" in lab.run_module(count=1, state="started")["msg"]
    lab.up("try1", "try2")
    assert lab.run_module(count=1, state="started")["changed"] is False
    assert host.vms("--state-running") == {"try-001"}
