# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module vm_fleet does to VMs, on real libvirt. None of it needs a guest that boots, so their disks are blank."""

from __future__ import annotations

import json

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.template import Vm

from .conftest import IMAGES, OTHERS, Lab, foreign

PLACE = f"{IMAGES}/fleet-try"


def test_grows_shrinks_and_is_idempotent(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    assert fleet.module(count=2)["actions"] == ["try-001: clone, define", "try-002: clone, define"]
    before = {name: host.identity(name) for name in ("try-001", "try-002")}
    assert fleet.module(count=2)["changed"] is False
    assert fleet.module(count=4)["actions"] == ["try-003: clone, define", "try-004: clone, define"]
    assert {name: host.identity(name) for name in before} == before
    host.virsh("start", "try-004")
    assert fleet.module(count=3, surplus="stopped")["actions"] == ["try-004: stop"]
    assert host.vms() == {f"try-00{number}" for number in range(1, 5)} and not host.vms("--state-running")
    assert fleet.module(count=2)["actions"] == ["try-003: undefine, delete", "try-004: undefine, delete"]
    assert host.vms() == {"try-001", "try-002"}
    assert {name for name in host.files(PLACE) if name.startswith("clone")} == {
        "clone-try-001.qcow2",
        "clone-try-002.qcow2",
    }
    assert {name: host.identity(name) for name in before} == before


def test_check_mode_says_what_is_then_done(fleet: Lab) -> None:
    foreseen = fleet.module(count=2, check=True)
    assert not fleet.hypervisors[0].vms() and "fleet-try" not in fleet.hypervisors[0].files(IMAGES)
    assert fleet.module(count=2)["actions"] == foreseen["actions"]
    foreseen = fleet.module(state="absent", image=None, memory=None, check=True)
    assert fleet.hypervisors[0].vms() == {"try-001", "try-002"}
    assert fleet.module(state="absent", image=None, memory=None)["actions"] == foreseen["actions"]
    assert not fleet.hypervisors[0].vms() and "fleet-try" not in fleet.hypervisors[0].files(IMAGES)


def test_states(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    assert fleet.module(count=2, state="started")["changed"]
    assert host.vms("--state-running") == {"try-001", "try-002"}
    assert fleet.module(count=2, state="started")["changed"] is False
    assert fleet.module(count=2, state="present")["changed"] is False
    host.virsh("suspend", "try-001")
    assert fleet.module(count=2, state="started")["actions"] == ["try-001: start"]
    assert fleet.module(count=2, state="stopped")["actions"] == ["try-001: stop", "try-002: stop"]
    assert fleet.module(count=2, state="stopped")["changed"] is False and not host.vms("--state-running")


def test_vm_that_is_made_anew_is_the_same(fleet: Lab) -> None:
    network = {"type": "bridge", "name": "br0"}
    fleet.module(count=1, network=network)
    first = fleet.hypervisors[0].identity("try-001")
    fleet.module(state="absent", image=None, memory=None)
    fleet.module(count=1, network=network)
    assert fleet.hypervisors[0].identity("try-001")[:2] == first[:2]


def test_interrupted_run_is_completed(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    fleet.module(count=3)
    host.virsh("undefine", "try-001")  # a disk without a VM
    host.run("rm", f"{PLACE}/clone-try-002.qcow2")  # a VM without a disk
    host.run("touch", f"{PLACE}/.clone-try-003.new")  # half a disk
    assert fleet.module(count=3)["actions"] == ["try-001: clone, define", "try-002: clone"]
    assert fleet.module(count=3)["changed"] is False


def test_changed_wish_defines_anew_and_keeps_the_disk(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    fleet.module(count=1, state="started")
    before = host.identity("try-001")
    assert fleet.module(count=1, memory="96M")["actions"] == ["try-001: stop, define, start"]
    assert "98304 KiB" in host.virsh("dominfo", "try-001")
    assert host.identity("try-001") == before


@pytest.mark.parametrize(
    "name, uuid, devices, said",
    [
        ("try-002", OTHERS, "", "has the name of our try-002"),
        ("foreign", Vm("try", "try-002", 2).uuid, "", "has the UUID of our try-002"),
        (
            "foreign",
            OTHERS,
            f"<interface type='user'><mac address='{Vm('try', 'try-002', 2).mac}'/></interface>",
            "has the MAC address of our try-002",
        ),
    ],
)
def test_foreign_vm_in_the_place_of_one_of_ours_is_refused(
    fleet: Lab, name: str, uuid: str, devices: str, said: str
) -> None:
    host = fleet.hypervisors[0]
    foreign(fleet, name, uuid, devices)
    try:
        assert said in fleet.module(count=2)["msg"]
        assert host.vms() == {name} and "fleet-try" not in host.files(IMAGES)
    finally:
        host.virsh("undefine", name)


@pytest.mark.parametrize(
    "wish, said",
    [
        ({"memory": "4T"}, "0 VMs fit"),
        ({"disk_growth": "400T"}, "disk: 2 new clones"),
        ({"pin": True}, "pin: true needs cpus"),
        ({"parallel": 0}, "parallel: 0 is out of range"),
        ({"memory": "1M"}, "it takes at least 64M"),
        ({"network": {"type": "network", "name": "none"}}, "'none' is no network"),
        ({"image": None, "master": "nobody", "memory": None}, "there is no VM nobody"),
        ({"image": "/none.qcow2"}, "golden image: /none.qcow2 is not there"),
        ({"directory": IMAGES}, "was not made for a fleet"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_touched(fleet: Lab, wish: dict, said: str) -> None:
    assert said in fleet.module(count=2, **wish)["msg"]
    assert not fleet.hypervisors[0].vms() and "fleet-try" not in fleet.hypervisors[0].files(IMAGES)


def test_figures_can_be_warnings(fleet: Lab) -> None:
    result = fleet.module(count=2, disk_growth="400T", admission="warn", vcpus=64)
    said = json.dumps(result["warnings"])  # Ansible wraps each text in what it knows besides
    assert result["changed"] and "disk: 2 new clones" in said and "CPU: 2 VMs" in said


def test_changed_golden_image_is_refused(fleet: Lab) -> None:
    image = f"{IMAGES}/golden/changing.qcow2"
    fleet.hypervisors[0].run("cp", f"{IMAGES}/golden/blank.qcow2", image)
    fleet.module(count=1, image=image)
    fleet.hypervisors[0].run("touch", image)
    assert "has changed since try-001 was cloned" in fleet.module(count=2, image=image)["msg"]


def test_clones_of_a_master(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    host.run("qemu-img", "create", "-q", "-f", "raw", f"{IMAGES}/master.raw", "64M")
    disk = f"<disk type='file'><driver name='qemu' type='raw'/><source file='{IMAGES}/master.raw'/><target dev='vda' bus='virtio'/></disk>"
    foreign(fleet, "master", devices=disk)
    wish = {"image": None, "master": "master", "memory": None, "count": 2}
    try:
        host.virsh("start", "master")
        assert "master runs" in fleet.module(**wish)["msg"]
        host.virsh("destroy", "master")
        assert fleet.module(**wish)["changed"]
        assert host.vms() == {"master", "try-001", "try-002"}
        assert "master.raw" in host.run("qemu-img", "info", f"{PLACE}/clone-try-001.qcow2")
        assert fleet.module(**wish)["changed"] is False
        fleet.module(state="absent", image=None, memory=None)
        assert host.vms() == {"master"} and "master.raw" in host.files(IMAGES)
    finally:
        host.virsh("undefine", "master")


def test_libvirtd_that_is_restarted(fleet: Lab) -> None:
    fleet.module(count=1, state="started")
    host = fleet.hypervisors[0]
    host.run(
        "sh",
        "-c",
        'pid=$(cat "$1"); kill "$pid"; while [ -e "/proc/$pid" ]; do sleep 0.1; done',
        "sh",
        f"{fleet.path}/lab/try1/libvirtd.pid",
    )
    assert "libvirt does not answer" in fleet.module(count=1, state="started")["msg"]
    fleet.lab("up", "try1", "try2")
    assert fleet.module(count=1, state="started")["changed"] is False
    assert host.vms("--state-running") == {"try-001"}
