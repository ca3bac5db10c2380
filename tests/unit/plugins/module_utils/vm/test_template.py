# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.template import (
    DomainError,
    Plan,
    Vm,
    cpu_list,
    disk_of_master,
    macs_of,
    mark_of,
    max_memory_of,
    pinned_memory,
)

MASTER = """<domain type='kvm'><name>master</name><uuid>11111111-2222-3333-4444-555555555555</uuid><memory unit='MiB'>768</memory><vcpu>2</vcpu>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><nvram>/var/lib/libvirt/qemu/nvram/master.fd</nvram></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/images/master.raw'/><target dev='vda' bus='virtio'/></disk>
<disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
<interface type='network'><mac address='52:54:00:00:00:01'/><source network='other'/></interface>
<channel type='unix'><source mode='bind' path='/tmp/master.agent'/><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
<graphics type='vnc' port='5901' autoport='no'/></devices></domain>"""


def plan(**changes):
    known = {
        "domain_type": "kvm",
        "architecture": "x86_64",
        "cpu_model": "",
        "memory": 512 * 2**20,
        "vcpus": 2,
        "cpus": "",
        "pin": False,
        "numa_nodes": (),
        "bus": "virtio",
        "network": {"type": "network", "name": "redis"},
        "locked": False,
        "hugepages": False,
        "balloon": True,
        "free_page_reporting": False,
        "partition": "",
        "seed": "/images/seed.iso",
        "directory": "/images/fleet-redis",
        "base": "/images/debian.qcow2",
        "base_state": "1-2",
        "master": "",
    }
    return Plan(**{**known, **changes})


VM = Vm("redis", "redis-007", 7)


def test_identity_follows_from_fleet_and_number_alone():
    assert VM.uuid == Vm("redis", "other-name", 7).uuid != Vm("redis", "redis-007", 8).uuid
    assert VM.uuid != Vm("cache", "redis-007", 7).uuid
    assert VM.mac.startswith("02:") and VM.mac.endswith(":00:07")
    assert len({Vm("redis", "", number).mac for number in range(1, 1000)}) == 999


def test_definition_carries_the_mark():
    mark = mark_of(plan().xml(VM))
    assert (mark.fleet, mark.number, mark.base, mark.base_state) == ("redis", 7, "/images/debian.qcow2", "1-2")
    assert mark.digest == plan().digest(VM)
    assert mark_of(MASTER) is None


@pytest.mark.parametrize(
    "change",
    [
        {"memory": 2**30},
        {"vcpus": 1},
        {"cpus": "0-1"},
        {"partition": "/fleet"},
        {"seed": ""},
        {"locked": True},
        {"cpu_model": "Nehalem"},
    ],
)
def test_every_wish_changes_the_digest(change):
    assert plan(**change).digest(VM) != plan().digest(VM)


def test_state_of_the_image_is_no_wish():
    assert plan(base_state="3-4").digest(VM) == plan().digest(VM)


@pytest.mark.parametrize("master", ["", MASTER])
def test_the_emulator_keeps_less_than_the_guest_has(master):
    emulated = ET.fromstring(plan(domain_type="qemu", master=master).xml(VM))
    assert [(cache.text, cache.get("unit")) for cache in emulated.iterfind("./features/tcg/tb-cache")] == [
        ("128", "MiB")
    ]
    assert ET.fromstring(plan(master=master).xml(VM)).find("./features/tcg") is None


def test_placement_takes_turns():
    root = ET.fromstring(plan(cpus="0-2", pin=True, numa_nodes=(0, 1)).xml(Vm("redis", "r", 2)))
    assert [pin.get("cpuset") for pin in root.iterfind("./cputune/vcpupin")] == ["2", "0"]
    assert root.find("./numatune/memory").get("nodeset") == "1"
    assert root.find("./vcpu").get("cpuset") == "0-2"


def test_user_networking_gives_each_vm_its_port():
    user = plan(network={"type": "user", "first_port": 22001})
    assert user.port(VM) == 22007
    assert "hostfwd=tcp:127.0.0.1:22007-:22" in user.xml(VM)
    assert not macs_of(user.xml(VM))


@pytest.mark.parametrize("wish, said", [({"locked": True}, "locked"), ({"hugepages": True}, "huge pages"), ({}, "")])
def test_memory_that_cannot_be_stretched_is_seen(wish, said):
    assert said in pinned_memory(ET.fromstring(plan(**wish).xml(VM)))
    assert bool(pinned_memory(ET.fromstring(plan(**wish).xml(VM)))) == bool(said)


def test_device_passed_through_locks_memory():
    xml = MASTER.replace("<graphics", "<hostdev mode='subsystem' type='pci'/><graphics")
    assert "passed through" in pinned_memory(ET.fromstring(plan(master=xml).xml(VM)))


def test_master_is_the_pattern():
    xml = plan(master=MASTER, memory=0, vcpus=0, seed="").xml(VM)
    root = ET.fromstring(xml)
    assert (root.findtext("name"), root.findtext("uuid")) == ("redis-007", VM.uuid)
    assert max_memory_of(xml) == 768 * 2**20
    assert root.findtext("vcpu") == "2"
    assert root.find("./os/nvram").text is None
    assert root.find("./devices/disk/source").get("file") == "/images/fleet-redis/clone-redis-007.qcow2"
    assert macs_of(xml) == {VM.mac}
    assert root.find("./devices/channel/source") is None
    assert "5901" not in xml and "/images/master.raw" not in xml


def test_disk_of_a_master():
    assert disk_of_master(MASTER, "master") == ("/images/master.raw", "raw")
    with pytest.raises(DomainError, match="has 0 disks"):
        disk_of_master("<domain><devices/></domain>", "master")


@pytest.mark.parametrize("text, cpus", [("0", [0]), ("0-2,8", [0, 1, 2, 8])])
def test_cpu_list(text, cpus):
    assert cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-"])
def test_cpu_list_refuses(text):
    with pytest.raises(DomainError, match="cpus"):
        cpu_list(text)
