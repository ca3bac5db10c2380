# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.sizes import DomainError, max_memory_of
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import (
    Template,
    Vm,
    allowed_cpus,
    disk_of_master,
    files_of,
    macs_of,
    mark_of,
    seed_of,
    unswappable_reason,
)

MASTERS = pathlib.Path(__file__).parents[4] / "fleet" / "masters"
MASTER = """<domain type='kvm'><name>master</name><uuid>11111111-2222-3333-4444-555555555555</uuid>
<memory unit='MiB'>768</memory><vcpu>2</vcpu>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><nvram>/var/lib/libvirt/qemu/nvram/master.fd</nvram></os>
<devices>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/images/master.raw'/>
<target dev='vda' bus='virtio'/></disk>
<disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
<interface type='network'><mac address='52:54:00:00:00:01'/><source network='other'/></interface>
<channel type='unix'><source mode='bind' path='/tmp/master.agent'/>
<target type='virtio' name='org.qemu.guest_agent.0'/></channel>
<graphics type='vnc' port='5901' autoport='no'/></devices></domain>"""


def template(**changes):
    fields = {
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
    return Template(**{**fields, **changes})


VM = Vm("redis", "redis-007", 7)


def test_identity_follows_from_fleet_and_number_alone():
    assert VM.uuid == Vm("redis", "other-name", 7).uuid != Vm("redis", "redis-007", 8).uuid
    assert VM.uuid != Vm("cache", "redis-007", 7).uuid
    assert VM.mac.startswith("02:") and VM.mac.endswith(":00:07")
    assert len({Vm("redis", "", number).mac for number in range(1, 1000)}) == 999


def test_a_salt_changes_the_identity():
    one, two = VM._replace(salt="1" * 32), VM._replace(salt="2" * 32)
    assert one.uuid != two.uuid and one.mac != two.mac


def test_files_of_a_definition_include_those_below_its_disks():
    definition = """<domain><devices>
    <disk type='file'><source file='/images/top.qcow2'/>
    <backingStore type='file'><source file='/images/base.qcow2'/></backingStore></disk>
    <disk type='block'><source dev='/dev/vg/disk'/></disk><disk type='network'><source protocol='rbd'/></disk>
    </devices></domain>"""
    assert files_of(definition) == {"/images/top.qcow2", "/images/base.qcow2", "/dev/vg/disk"}


def test_definition_carries_the_mark():
    mark = mark_of(template().xml(VM))
    assert (mark.fleet, mark.number, mark.base, mark.base_state) == ("redis", 7, "/images/debian.qcow2", "1-2")
    assert mark.digest == template().digest(VM)
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
def test_every_option_changes_the_digest(change):
    assert template(**change).digest(VM) != template().digest(VM)


def test_state_of_the_image_does_not_change_the_digest():
    assert template(base_state="3-4").digest(VM) == template().digest(VM)


@pytest.mark.parametrize("master", ["", MASTER])
def test_the_cache_of_the_emulator_is_limited(master):
    emulated = ET.fromstring(template(domain_type="qemu", master=master).xml(VM))
    assert [(cache.text, cache.get("unit")) for cache in emulated.iterfind("./features/tcg/tb-cache")] == [
        ("128", "MiB")
    ]
    assert ET.fromstring(template(master=master).xml(VM)).find("./features/tcg") is None


def test_cpus_and_nodes_are_assigned_round_robin():
    root = ET.fromstring(template(cpus="0-2", pin=True, numa_nodes=(0, 1)).xml(Vm("redis", "r", 2)))
    assert [pin.get("cpuset") for pin in root.iterfind("./cputune/vcpupin")] == ["2", "0"]
    assert root.find("./numatune/memory").get("nodeset") == "1"
    assert root.find("./vcpu").get("cpuset") == "0-2"


def test_user_networking_gives_each_vm_its_port():
    user = template(network={"type": "user", "first_port": 22001})
    assert user.port(VM) == 22007
    assert "hostfwd=tcp:127.0.0.1:22007-:22" in user.xml(VM)
    assert not macs_of(user.xml(VM))


@pytest.mark.parametrize("change, reason", [({"locked": True}, "locked"), ({"hugepages": True}, "huge pages")])
def test_reason_why_memory_cannot_be_swapped_out(change, reason):
    assert reason in unswappable_reason(ET.fromstring(template(**change).xml(VM)))


def test_memory_can_be_swapped_out_by_default():
    assert unswappable_reason(ET.fromstring(template().xml(VM))) == ""


def test_a_passed_through_device_locks_memory():
    xml = MASTER.replace("<graphics", "<hostdev mode='subsystem' type='pci'/><graphics")
    assert "passed through" in unswappable_reason(ET.fromstring(template(master=xml).xml(VM)))


def test_definition_follows_the_master():
    xml = template(master=MASTER, memory=0, vcpus=0, seed="").xml(VM)
    root = ET.fromstring(xml)
    assert (root.findtext("name"), root.findtext("uuid")) == ("redis-007", VM.uuid)
    assert max_memory_of(xml) == 768 * 2**20
    assert root.findtext("vcpu") == "2"
    assert root.find("./os/nvram").text == "/images/fleet-redis/clone-redis-007.nvram"
    assert root.find("./devices/disk/source").get("file") == "/images/fleet-redis/clone-redis-007.qcow2"
    assert macs_of(xml) == {VM.mac}
    assert root.find("./devices/channel/source") is None
    assert "5901" not in xml and "/images/master.raw" not in xml


@pytest.mark.parametrize("domain_type", ["kvm", "qemu"])
def test_sizes_of_a_master_are_set_where_its_processor_repeats_them(domain_type):
    master = (MASTERS / "master-numa-cell.xml").read_text(encoding="utf-8")
    root = ET.fromstring(template(master=master, memory=2**31, domain_type=domain_type).xml(VM))
    assert (root.findtext("memory"), root.find("currentMemory"), root.findtext("vcpu")) == ("2147483648", None, "2")
    cell = root.find("./cpu/numa/cell")
    assert (cell.get("cpus"), cell.get("memory"), cell.get("unit")) == ("0-1", "2048", "MiB")
    assert root.find("./cpu/topology").get("sockets") == "2" and root.find("./cpu/topology").get("cores") == "1"
    # An emulated processor is another one; what the VM has of it stays.
    assert root.findtext("./cpu/model") == {"kvm": "qemu64", "qemu": "Nehalem"}[domain_type]


def test_a_clone_tells_its_guest_its_own_uuid():
    master = (MASTERS / "master-sysinfo-serial-log.xml").read_text(encoding="utf-8")
    root = ET.fromstring(template(master=master, seed="").xml(VM))
    entries = {entry.get("name"): entry.text for entry in root.iterfind("./sysinfo/system/entry")}
    assert entries["uuid"] == entries["serial"] == root.findtext("uuid") == VM.uuid
    assert entries["product"] == "OpenStack Nova"


def test_a_seed_is_found_whatever_the_firmware_of_the_master_says():
    master = (MASTERS / "master-sysinfo-serial-log.xml").read_text(encoding="utf-8")
    master = master.replace("<smbios mode='sysinfo'/>", "<smbios mode='host'/>")
    master = master.replace("<os>", "<sysinfo type='fwcfg'><entry name='opt/x'>y</entry></sysinfo><genid>1</genid><os>")
    root = ET.fromstring(template(master=master).xml(VM))
    assert [entry.text for entry in root.iterfind("./sysinfo[@type='smbios']/system/entry")] == [
        f"ds=nocloud;i={VM.uuid};h={VM.name}"
    ]
    assert [each.get("mode") for each in root.iterfind("./os/smbios")] == ["sysinfo"]
    assert root.findtext("./sysinfo[@type='fwcfg']/entry") == "y" and root.findtext("genid") != "1"


@pytest.mark.parametrize(
    "machine, bus", [("pc-q35-7.2", "pcie.0"), ("pc-i440fx-7.2", "pci.0"), ("pc", "pci.0"), ("virt-7.2", "pcie.0")]
)
def test_a_card_of_user_networking_is_on_a_bus_that_the_machine_has(machine, bus):
    user = {"type": "user", "first_port": 22001}
    assert f",bus={bus}," in template(master=MASTER.replace("pc-q35-7.2", machine), network=user).xml(VM)
    assert ",bus=pcie.0," in template(network=user).xml(VM)


def test_every_clone_has_a_channel_for_the_guest_agent():
    for master in ("", MASTER, MASTER.replace("org.qemu.guest_agent.0", "com.redhat.spice.0")):
        channels = ET.fromstring(template(master=master).xml(VM)).iterfind("./devices/channel/target")
        assert [each.get("name") for each in channels].count("org.qemu.guest_agent.0") == 1


def test_disk_of_a_master():
    assert disk_of_master(MASTER, "master") == "/images/master.raw"
    with pytest.raises(DomainError, match="has 0 disks"):
        disk_of_master("<domain><devices/></domain>", "master")


@pytest.mark.parametrize("text, cpus", [("0", [0]), ("0-2,8", [0, 1, 2, 8])])
def test_allowed_cpus(text, cpus):
    assert allowed_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "0,1-,4", "0,,1", "-1"])
def test_allowed_cpus_refuses(text):
    with pytest.raises(DomainError, match="cpus"):
        allowed_cpus(text)


@pytest.mark.parametrize("master", ["", MASTER])
def test_a_definition_with_another_seed_differs_in_the_seed_alone(master):
    vm = Vm("redis", "redis-001", 1)
    old, new = template(master=master), template(master=master, seed="/images/other.iso")
    assert seed_of(old.xml(vm)) == "/images/seed.iso" and seed_of(template(seed="").xml(vm)) == ""
    assert old.digest(vm) != new.digest(vm)
    assert new._replace(seed=seed_of(old.xml(vm))).digest(vm) == old.digest(vm)
