# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk of the fleet that somebody else uses is never deleted: situations on real libvirt, with real images."""

from __future__ import annotations

import typing as t

import pytest

from .conftest import FOREIGN, FOREIGN_UUID, IMAGES, Hypervisor, Lab, define_foreign_vm

DIRECTORY = f"{IMAGES}/fleet-try"
DISK = f"{DIRECTORY}/clone-try-001.qcow2"
OTHERS = f"{IMAGES}/others"
OVERLAY = f"{OTHERS}/overlay.qcow2"
ABSENT: dict[str, t.Any] = {"state": "absent", "image": None, "memory": None}
POOL = "<pool type='dir'><name>others</name><target><path>{path}</path></target></pool>"


def disk(path: str, attribute: str = "file", kind: str = "file", format_: str = "qcow2") -> str:
    return (
        f"<disk type='{kind}'><driver name='qemu' type='{format_}'/><source {attribute}='{path}'/>"
        "<target dev='vda' bus='virtio'/></disk>"
    )


def overlay(lab: Lab, path: str = OVERLAY, below: str = DISK, backing_name: str = "") -> None:
    host = lab.hypervisors[0]
    host.run("mkdir", "-p", OTHERS)
    host.run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", below, path)
    if backing_name:
        host.run("qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", backing_name, path)
    host.run("chmod", "666", path)


def vm_on_an_overlay(lab: Lab) -> None:
    overlay(lab)
    define_foreign_vm(lab, "foreign", devices=disk(OVERLAY))


def vm_on_an_overlay_of_an_overlay(lab: Lab) -> None:
    overlay(lab, backing_name=f"../../images/fleet-try/{DISK.rsplit('/', maxsplit=1)[1]}")
    overlay(lab, f"{OTHERS}/top.qcow2", OVERLAY)
    define_foreign_vm(lab, "foreign", devices=disk(f"{OTHERS}/top.qcow2"))


def vm_on_an_overlay_whose_backing_file_is_json(lab: Lab) -> None:
    overlay(lab, backing_name='json:{"driver":"qcow2","file":{"driver":"file","filename":"' + DISK + '"}}')
    define_foreign_vm(lab, "foreign", devices=disk(OVERLAY))


def vm_by_a_link(lab: Lab) -> None:
    lab.hypervisors[0].run("sh", "-c", f"mkdir -p {OTHERS}; ln -s {DISK} {OTHERS}/link")
    define_foreign_vm(lab, "foreign", devices=disk(f"{OTHERS}/link"))


def transient_vm_that_runs(lab: Lab) -> None:
    overlay(lab)
    xml = FOREIGN.format(name="foreign", uuid=FOREIGN_UUID, devices=disk(OVERLAY))
    lab.hypervisors[0].virsh("create", "/dev/stdin", text=xml)


def running_vm_whose_definition_has_changed(lab: Lab) -> None:
    vm_on_an_overlay(lab)
    lab.hypervisors[0].virsh("start", "foreign")
    define_foreign_vm(lab, "foreign")


def arguments_for_qemu(lab: Lab) -> None:
    overlay(lab)
    xml = FOREIGN.format(name="foreign", uuid=FOREIGN_UUID, devices="").replace(
        "<domain type='qemu'>", "<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
    )
    line = f"<qemu:arg value='-drive'/><qemu:arg value='file={OVERLAY},format=qcow2'/>"
    xml = xml.replace("</domain>", f"<qemu:commandline>{line}</qemu:commandline></domain>")
    lab.hypervisors[0].virsh("define", "/dev/stdin", text=xml)


def snapshot_of_a_vm(lab: Lab) -> None:
    """The VM has gone back to another disk; its snapshot still needs the overlay."""
    vm_on_an_overlay(lab)
    host = lab.hypervisors[0]
    host.virsh(
        "snapshot-create-as", "foreign", "kept", "--disk-only", "--diskspec", f"vda,file={OTHERS}/snapshot.qcow2"
    )
    host.run("qemu-img", "create", "-q", "-f", "qcow2", f"{OTHERS}/fresh.qcow2", "1M")
    define_foreign_vm(lab, "foreign", devices=disk(f"{OTHERS}/fresh.qcow2"))


def volume(lab: Lab, active: bool = True) -> None:
    overlay(lab)
    host = lab.hypervisors[0]
    host.virsh("pool-define", "/dev/stdin", text=POOL.format(path=OTHERS))
    if active:
        host.virsh("pool-start", "others")


def volume_of_a_pool_that_is_off(lab: Lab) -> None:
    volume(lab, active=False)


def vm_on_a_volume(lab: Lab) -> None:
    volume(lab)
    source = "<source pool='others' volume='overlay.qcow2'/>"
    define_foreign_vm(lab, "foreign", devices=f"<disk type='volume'>{source}<target dev='vda' bus='virtio'/></disk>")


def link_that_is_a_volume(lab: Lab) -> None:
    vm_by_a_link(lab)
    lab.hypervisors[0].virsh("undefine", "foreign")
    lab.hypervisors[0].virsh("pool-define", "/dev/stdin", text=POOL.format(path=OTHERS))


def file_in_the_directory_of_the_fleet(lab: Lab) -> None:
    overlay(lab, f"{DIRECTORY}/mine.qcow2")


def image_that_cannot_be_read(lab: Lab) -> None:
    lab.hypervisors[0].run("sh", "-c", f"printf 'QFI\\373\\0\\0\\0\\3' > {DIRECTORY}/broken.qcow2")


SITUATIONS = [
    (vm_on_an_overlay, f"is below the disk {OVERLAY} of VM foreign"),
    (vm_on_an_overlay_of_an_overlay, f"is below the disk {OTHERS}/top.qcow2 of VM foreign"),
    (vm_on_an_overlay_whose_backing_file_is_json, f"is below the disk {OVERLAY} of VM foreign"),
    (vm_by_a_link, "is also a disk of VM foreign"),
    (transient_vm_that_runs, f"is below the disk {OVERLAY} of VM foreign"),
    (running_vm_whose_definition_has_changed, "is also a disk of VM foreign"),
    (arguments_for_qemu, f"is below the disk {OVERLAY} of VM foreign"),
    (snapshot_of_a_vm, f"is below the disk {OVERLAY} of VM foreign"),
    (volume, "is below the volume overlay.qcow2 of the storage pool others"),
    (volume_of_a_pool_that_is_off, "is below the volume overlay.qcow2 of the storage pool others"),
    (vm_on_a_volume, f"is below the disk {OVERLAY} of VM foreign"),
    (link_that_is_a_volume, "is also the volume link of the storage pool others"),
    (file_in_the_directory_of_the_fleet, f"is below the file {DIRECTORY}/mine.qcow2"),
    (image_that_cannot_be_read, f"nothing shows what the image {DIRECTORY}/broken.qcow2 stands on"),
]


def remove_what_is_foreign(host: Hypervisor) -> None:
    """Remove what a situation has added for somebody else."""
    if "foreign" in host.vms():
        if "foreign" in host.vms("--state-running"):
            host.virsh("destroy", "foreign")
        if "foreign" in host.vms():
            host.virsh("undefine", "foreign", "--snapshots-metadata")
    if "others" in host.virsh("pool-list", "--all", "--name").split():
        if "others" in host.virsh("pool-list", "--name").split():
            host.virsh("pool-destroy", "others")
        host.virsh("pool-undefine", "others")
    host.run("rm", "-rf", OTHERS, f"{DIRECTORY}/mine.qcow2", f"{DIRECTORY}/broken.qcow2")


@pytest.fixture
def fleet(lab: Lab) -> t.Iterator[Lab]:
    """A fleet of two VMs; what a test adds for somebody else is removed after it."""
    lab.run_module(count=2)
    yield lab
    remove_what_is_foreign(lab.hypervisors[0])


# Several ways to be below a disk, of which make test has the plainest.
DEEP = {
    vm_on_an_overlay_of_an_overlay,
    vm_on_an_overlay_whose_backing_file_is_json,
    transient_vm_that_runs,
    running_vm_whose_definition_has_changed,
    snapshot_of_a_vm,
    volume_of_a_pool_that_is_off,
    vm_on_a_volume,
    link_that_is_a_volume,
    file_in_the_directory_of_the_fleet,
}


@pytest.mark.parametrize("deep", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_disk_that_somebody_else_uses_stays(fleet: Lab, deep: bool) -> None:
    host = fleet.hypervisors[0]
    wrong = {}
    for situation, reason in SITUATIONS:
        if (situation in DEEP) == deep:
            situation(fleet)
            before = host.vms(), host.files(DIRECTORY), host.checksum(DISK)
            message = fleet.run_module(**ABSENT).get("msg", "")
            after = host.vms(), host.files(DIRECTORY), host.checksum(DISK)
            if reason not in message or "Nothing was changed" not in message or before != after:
                wrong[situation.__name__] = message
            remove_what_is_foreign(host)
    assert wrong == {}


def test_every_way_to_remove_a_vm_refuses_a_disk_that_somebody_else_uses(fleet: Lab) -> None:
    vm_on_an_overlay(fleet)
    host = fleet.hypervisors[0]
    vms, files, before = host.vms(), host.files(DIRECTORY), host.checksum(DISK)
    for options in ({**ABSENT, "check": True}, {**ABSENT, "only": ["try-001"]}, {"count": 0}):
        message = fleet.run_module(**options).get("msg", "")
        assert f"{DISK} of try-001 is below the disk {OVERLAY} of VM foreign" in message, options
    assert (host.vms(), host.files(DIRECTORY), host.checksum(DISK)) == (vms, files, before)
    assert fleet.run_module(**ABSENT, only=["try-002"])["actions"] == ["try-002: undefine, delete"]


def test_a_disk_that_a_program_has_open_stays(fleet: Lab) -> None:
    host = fleet.hypervisors[0]
    program = host.start("sh", "-c", f"exec 3<{DISK}; echo open; read line")
    assert program.stdout and program.stdout.readline() == "open\n"
    assert f"{DISK} of try-001 is open in process" in fleet.run_module(**ABSENT)["msg"]
    assert "clone-try-001.qcow2" in host.files(DIRECTORY)
    program.communicate("\n")
    assert fleet.run_module(**ABSENT)["changed"]


def test_its_own_use_does_not_keep_a_disk(fleet: Lab) -> None:
    """A pool on the fleet's directory, as virt-manager makes one; a VM of the fleet that runs, and its snapshot."""
    host = fleet.hypervisors[0]
    host.virsh("pool-define", "/dev/stdin", text=POOL.format(path=DIRECTORY))
    host.virsh("pool-start", "others")
    host.virsh("start", "try-001")
    host.virsh("snapshot-create-as", "try-001", "later", "--disk-only")
    assert "clone-try-001.later" in host.files(DIRECTORY)
    assert fleet.run_module(**ABSENT)["actions"] == ["try-001: undefine, delete", "try-002: undefine, delete"]
    assert not host.vms() and host.files(DIRECTORY) == {"clone-try-001.later"}
    host.run("rm", "-r", DIRECTORY)
