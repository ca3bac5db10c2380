# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of VMs, on real libvirt. None of it needs a guest that boots, so their disks are blank."""

from __future__ import annotations

import pytest
from ansible_collections.memstretch.density.plugins.module_utils.vm_domain import Vm

from .conftest import IMAGES, Lab

PLACE = f"{IMAGES}/fleet-try"
FOREIGN = "<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory>" \
    "<os><type>hvm</type></os><devices>{devices}</devices></domain>"
OTHERS = "3a3f2c55-1111-4222-8333-444444444444"


def foreign(lab: Lab, name: str, uuid: str = OTHERS, devices: str = "") -> None:
    lab.hypervisors[0].virsh("define", "/dev/stdin", text=FOREIGN.format(name=name, uuid=uuid, devices=devices))


def test_check_mode_changes_nothing_and_says_what_would_change(fleet: Lab) -> None:
    outcome = fleet.play("fleet", "--check", "--diff", vm_fleet_state="present", vm_fleet_count=2)
    assert outcome.status == 0, outcome.output
    assert "+try-001: shut off" in outcome.output and outcome.changed > 0
    host = fleet.hypervisors[0]
    assert not host.vms() and "fleet-try" not in host.files(IMAGES) and "try" not in host.virsh("net-list", "--all", "--name").split()
    assert not (fleet.path / "fleet").exists()


def test_grows_shrinks_and_is_idempotent(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    fleet.made(vm_fleet_count=2)
    assert host.vms() == {"try-001", "try-002"}
    before = {name: host.identity(name) for name in ("try-001", "try-002")}
    assert fleet.made(vm_fleet_count=2).changed == 0
    outcome = fleet.made(vm_fleet_count=4)
    assert outcome.changed > 0
    assert {name: host.identity(name) for name in before} == before
    assert host.vms() == {f"try-00{number}" for number in range(1, 5)}
    host.virsh("start", "try-004")
    fleet.made(vm_fleet_count=3, vm_fleet_surplus="stopped")
    assert host.vms() == {f"try-00{number}" for number in range(1, 5)} and not host.vms("--state-running")
    fleet.made(vm_fleet_count=2)
    assert host.vms() == {"try-001", "try-002"}
    assert {name for name in host.files(PLACE) if name.startswith("clone")} == {"clone-try-001.qcow2", "clone-try-002.qcow2"}
    assert {name: host.identity(name) for name in before} == before


def test_vm_that_is_made_anew_is_the_same(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    fleet.made(vm_fleet_count=1)
    first = host.identity("try-001")
    assert fleet.play("teardown", vm_fleet_count=0).status == 0
    fleet.made(vm_fleet_count=1)
    assert host.identity("try-001")[:2] == first[:2]


def test_interrupted_run_is_completed(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    fleet.made(vm_fleet_count=3)
    host.virsh("undefine", "try-001") # a disk without a VM
    host.run("rm", f"{PLACE}/clone-try-002.qcow2") # a VM without a disk
    host.run("touch", f"{PLACE}/.clone-try-003.new") # half a disk
    fleet.made(vm_fleet_count=3)
    assert host.vms() == {"try-001", "try-002", "try-003"}
    assert fleet.made(vm_fleet_count=3).changed == 0


def test_changed_wish_defines_anew_and_keeps_the_disk(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    fleet.made(vm_fleet_count=1)
    before = host.identity("try-001")
    fleet.made(vm_fleet_count=1, vm_fleet_memory="96M")
    assert "Max memory:     98304 KiB" in host.virsh("dominfo", "try-001")
    assert host.identity("try-001") == before


def test_teardown_leaves_what_is_not_ours(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    host.run("qemu-img", "create", "-q", "-f", "qcow2", f"{IMAGES}/foreign.qcow2", "1M")
    host.virsh("net-define", "/dev/stdin", text="<network><name>foreign</name></network>")
    foreign(fleet, "foreign")
    host.virsh("start", "foreign")
    fleet.made(vm_fleet_count=2)
    host.run("touch", f"{PLACE}/notes.txt")
    assert fleet.play("teardown", "--check", vm_fleet_count=2).status == 0
    assert host.vms() == {"foreign", "try-001", "try-002"} and "try" in host.virsh("net-list", "--name").split()
    outcome = fleet.play("teardown", vm_fleet_count=2)
    assert outcome.status == 0, outcome.output
    assert host.vms("--state-running") == {"foreign"} == host.vms()
    assert {"foreign.qcow2", "golden", "fleet-try"} <= host.files(IMAGES)
    assert host.files(PLACE) == {"notes.txt"}
    assert host.virsh("net-list", "--all", "--name").split() == ["foreign"]
    assert not list((fleet.path / "fleet").glob("*"))
    assert fleet.play("teardown", vm_fleet_count=2).changed == 0
    host.run("rm", "-r", PLACE)
    host.virsh("destroy", "foreign")
    host.virsh("undefine", "foreign")
    host.virsh("net-undefine", "foreign")


@pytest.mark.parametrize("name, uuid, devices, said", [
    ("try-002", OTHERS, "", "has the name of our try-002"),
    ("foreign", Vm("try", "try-002", 2).uuid, "", "has the UUID of our try-002"),
    ("foreign", OTHERS, f"<interface type='user'><mac address='{Vm('try', 'try-002', 2).mac}'/></interface>", "has the MAC address of our try-002"),
])
def test_foreign_vm_in_the_place_of_one_of_ours_is_refused(fleet: Lab, name: str, uuid: str, devices: str, said: str) -> None:
    host = fleet.hypervisors[0]
    foreign(fleet, name, uuid, devices)
    try:
        outcome = fleet.play(vm_fleet_state="present", vm_fleet_count=2)
        assert outcome.status != 0 and said in outcome.output
        assert host.vms() == {name} and "fleet-try" not in host.files(IMAGES)
    finally:
        host.virsh("undefine", name)


@pytest.mark.parametrize("wish, said", [
    ({"vm_fleet_image": f"{IMAGES}/golden/none.qcow2"}, "none.qcow2 is not there"),
    ({"vm_fleet_image_checksum": "sha256:" + "0" * 64}, "has the checksum"),
    ({"vm_fleet_image": "", "vm_fleet_master": "nobody"}, "there is no VM nobody"),
    ({"vm_fleet_memory": "4T"}, "0 VMs fit"),
    ({"vm_fleet_disk_growth": "400T"}, "disk: 2 new clones"),
    ({"vm_fleet_count": 254}, "the network can give 253"),
    ({"vm_fleet_count": -1}, "vm_fleet_count: "),
    ({"vm_fleet_image": "https://example.com/x.qcow2"}, "vm_fleet_image_checksum: is missing"),
    ({"vm_fleet_name": "No Name"}, "vm_fleet_name: "),
    ({"vm_fleet_pin": True}, "pin: true needs cpus"),
])
def test_what_cannot_work_is_refused_before_anything_is_touched(fleet: Lab, wish: dict, said: str) -> None:
    host = fleet.hypervisors[0]
    outcome = fleet.play(**{"vm_fleet_state": "present", "vm_fleet_count": 2, **wish})
    assert outcome.status != 0 and said in outcome.output, outcome.output
    assert not host.vms() and "fleet-try" not in host.files(IMAGES) and not (fleet.path / "fleet").exists()


def test_too_many_cpus_are_a_warning_with_the_figures(fleet: Lab) -> None:
    assert "VCPUs for each" in fleet.made(vm_fleet_count=2, vm_fleet_vcpus=8).output


def test_changed_golden_image_is_refused(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    image = f"{IMAGES}/golden/changing.qcow2"
    host.run("cp", f"{IMAGES}/golden/blank.qcow2", image)
    fleet.made(vm_fleet_count=1, vm_fleet_image=image)
    host.run("touch", image)
    outcome = fleet.play(vm_fleet_state="present", vm_fleet_count=2, vm_fleet_image=image)
    assert outcome.status != 0 and "has changed since try-001 was cloned" in outcome.output


def test_clones_of_a_master(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    host.run("qemu-img", "create", "-q", "-f", "raw", f"{IMAGES}/master.raw", "64M")
    foreign(fleet, "master", devices="<disk type='file'><driver name='qemu' type='raw'/>"
            f"<source file='{IMAGES}/master.raw'/><target dev='vda' bus='virtio'/></disk>")
    try:
        wish = {"vm_fleet_image": "", "vm_fleet_master": "master", "vm_fleet_memory": "", "vm_fleet_count": 2}
        host.virsh("start", "master")
        outcome = fleet.play(**{**wish, "vm_fleet_state": "present"})
        assert outcome.status != 0 and "master runs" in outcome.output
        host.virsh("destroy", "master")
        fleet.made(**wish)
        assert host.vms() == {"master", "try-001", "try-002"}
        assert "master.raw" in host.run("qemu-img", "info", f"{PLACE}/clone-try-001.qcow2")
        assert fleet.made(**wish).changed == 0
        assert fleet.play("teardown", **wish).status == 0
        assert host.vms() == {"master"} and "master.raw" in host.files(IMAGES)
    finally:
        host.virsh("undefine", "master")


def test_libvirtd_that_is_restarted(fleet: Lab) -> None:
    fleet.made(vm_fleet_count=1)
    fleet.hypervisors[0].virsh("start", "try-001")
    host = fleet.hypervisors[0]
    host.run("sh", "-c", 'pid=$(cat "$1"); kill "$pid"; while [ -e "/proc/$pid" ]; do sleep 0.1; done', "sh", f"{fleet.path}/lab/try1/libvirtd.pid")
    outcome = fleet.play(vm_fleet_state="present", vm_fleet_count=1)
    assert outcome.status != 0 and "libvirt" in outcome.output
    fleet.lab("up", "try1", "try2")
    assert fleet.made(vm_fleet_count=1).changed == 0
    assert host.vms("--state-running") == {"try-001"}


def test_vm_that_never_boots_is_named(fleet: Lab) -> None:
    outcome = fleet.play(vm_fleet_count=1, vm_fleet_address_timeout=3)
    assert outcome.status != 0
    assert "No address within 3 s (vm_fleet_address_timeout): try-001" in outcome.output
    assert fleet.hypervisors[0].vms("--state-running") == {"try-001"}


def test_vms_are_dealt_out_to_two_hypervisors(fleet: Lab) -> None:
    fleet.made(vm_fleet_count=3, hypervisors=2)
    assert [each.vms() for each in fleet.hypervisors] == [{"try-001", "try-003"}, {"try-002"}]
    assert fleet.made(vm_fleet_count=3, hypervisors=2).changed == 0
