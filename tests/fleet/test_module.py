# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module vm_fleet on real libvirt. No test needs a guest that boots, so the disks are blank."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import time
import typing as t
import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.template import Vm

from .conftest import FOREIGN, FOREIGN_UUID, IMAGES, LIBVIRT_TIMEOUT_S, Hypervisor, Lab, define_foreign_vm

DIRECTORY = f"{IMAGES}/fleet-try"
OWNER = f"{DIRECTORY}/.memstretch-fleet"
TPM_STATE = "/var/lib/libvirt/swtpm"
ABSENT: dict[str, t.Any] = {"state": "absent", "image": None, "memory": None}


def salt(lab: Lab) -> str:
    """Return the salt of the fleet."""
    return next(line[5:] for line in lab.hypervisors[0].run("cat", OWNER).splitlines() if line.startswith("salt "))


def copy_vm(host: Hypervisor, name: str, new_name: str, disk: str, identity: str = "") -> None:
    """Define a VM as virt-clone does: with a name, a UUID, a MAC address and a disk of its own, and all metadata.

    A copy with the name of its VM replaces it.
    """
    xml = host.virsh("dumpxml", "--inactive", name)
    xml = xml.replace(f"<name>{name}</name>", f"<name>{new_name}</name>")
    xml = re.sub("<uuid>.*</uuid>", f"<uuid>{identity or uuid.uuid4()}</uuid>", xml)
    xml = re.sub("<sysinfo.*</sysinfo>", "", xml, flags=re.DOTALL).replace("<smbios mode='sysinfo'/>", "")
    xml = re.sub("<qemu:commandline>.*</qemu:commandline>", "", xml, flags=re.DOTALL)
    xml = xml.replace(f"{DIRECTORY}/clone-{name}.qcow2", disk)
    xml = re.sub(r"<source path='\S+\.console'/>", f"<source path='{IMAGES}/{new_name}.console'/>", xml)
    if new_name == name:
        host.virsh("undefine", name)
    host.virsh("define", "/dev/stdin", text=xml)


def users(lab: Lab) -> set[str]:
    """Return the processes that have the owner file open."""
    owner = os.stat(lab.path / "lab" / lab.hypervisors[0].name / "lib" / OWNER.replace("/var/lib/libvirt/", ""))
    found = set()
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # the process has ended, or closed the file
            if os.path.samestat(link.stat(), owner):
                found.add(link.parts[2])
    return found


def wait_for(what: str, condition: t.Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIBVIRT_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {LIBVIRT_TIMEOUT_S} s"
        time.sleep(0.02)


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
    lab.run_module(count=3, state="started")
    host.virsh("destroy", "try-003")
    others = [f"{DIRECTORY}/clone-try-{number}.qcow2" for number in ("002", "003")]
    before = [host.checksum(path) for path in others]
    predicted = lab.run_module(only=["try-001"], check=True, **ABSENT)
    assert lab.run_module(only=["try-001"], **ABSENT)["actions"] == predicted["actions"]
    assert [host.checksum(path) for path in others] == before
    assert host.vms() == {"try-002", "try-003"} and host.vms("--state-running") == {"try-002"}
    assert "clone-try-001.qcow2" not in host.files(DIRECTORY)
    assert lab.run_module(only=["try-001"], **ABSENT)["changed"] is False
    assert lab.run_module(only=["try-002", "try-003"], **ABSENT)["changed"]
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


@pytest.mark.long
def test_a_vm_that_is_created_again_is_the_same(lab: Lab) -> None:
    network = {"type": "bridge", "name": "br0"}
    lab.run_module(count=1, network=network)
    first = lab.hypervisors[0].identity("try-001")
    lab.run_module(count=0, network=network)
    assert not lab.hypervisors[0].vms()
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


def test_new_keys_never_stop_a_running_vm(lab: Lab) -> None:
    host = lab.hypervisors[0]
    seeds = [{"user-data": f"secret {each}"} for each in "ab"]
    first = lab.run_module(count=1, state="started", seed=seeds[0])
    assert first["actions"] == ["seed disk: create", "try-001: clone, define, start"] and "secret" not in str(first)
    before = host.virsh("domid", "try-001")
    kept = lab.run_module(count=2, state="started", seed=seeds[1])
    assert kept["actions"] == ["seed disk: create", "try-002: clone, define, start"]
    assert host.virsh("domid", "try-001") == before
    assert "1 running VMs have other keys than this controller" in json.dumps(kept["warnings"])
    assert lab.run_module(count=2, state="started", seed=seeds[1], memory="96M")["actions"] == [
        f"try-00{number}: stop, define, start" for number in (1, 2)
    ]
    lab.run_module(count=2, state="stopped", seed=seeds[0])
    assert lab.run_module(count=2, state="started", seed=seeds[1])["actions"][0] == "try-001: define, start"
    disk = re.findall(r"file='(.*/seed-.*iso)'", host.virsh("dumpxml", "try-001"))
    assert host.run("grep", "-a", "-o", "secret [ab]", *disk).split("\n")[0] == "secret b"


@pytest.mark.parametrize(
    "name, same",
    [
        ("try-002", "name"),
        pytest.param("foreign", "UUID", marks=pytest.mark.long),
        pytest.param("foreign", "MAC address", marks=pytest.mark.long),
    ],
)
def test_a_foreign_vm_with_the_same_identity_is_refused(lab: Lab, name: str, same: str) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=1)
    before = host.files(DIRECTORY)
    vm = Vm("try", "try-002", 2, salt(lab))
    card = f"<interface type='user'><mac address='{vm.mac}'/></interface>" if same == "MAC address" else ""
    define_foreign_vm(lab, name, vm.uuid if same == "UUID" else FOREIGN_UUID, card)
    try:
        assert f"has the {same} of try-002" in lab.run_module(count=2)["msg"]
        assert host.vms() == {name, "try-001"} and host.files(DIRECTORY) == before
    finally:
        host.virsh("undefine", name)


def test_the_owner_file_is_private_and_stays_the_same(lab: Lab) -> None:
    lab.run_module(count=2)
    host = lab.hypervisors[0]
    before = host.checksum(OWNER)
    assert host.run("stat", "-c", "%a", OWNER).strip() == "600" and len(salt(lab)) == 32
    assert lab.run_module(count=2)["changed"] is False and host.checksum(OWNER) == before


@pytest.mark.long
def test_copies_of_a_vm_stay_with_their_disks(lab: Lab) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=2)
    disks = {"try-001-clone": f"{DIRECTORY}/clone-try-001-clone.qcow2", "copy": f"{IMAGES}/copy.qcow2"}
    for name, disk in disks.items():
        host.run("cp", f"{DIRECTORY}/clone-try-001.qcow2", disk)
        copy_vm(host, "try-001", name, disk)
    before = [host.checksum(disk) for disk in disks.values()]
    try:
        host.virsh("start", "copy")
        assert lab.run_module(count=2)["changed"] is False
        assert lab.run_module(count=1)["actions"] == ["try-002: undefine, delete"]
        assert lab.run_module(**ABSENT)["actions"] == ["try-001: undefine, delete"]
        assert host.vms() == set(disks) and host.vms("--state-running") == {"copy"}
        assert [host.checksum(disk) for disk in disks.values()] == before
        assert host.files(DIRECTORY) == {"clone-try-001-clone.qcow2"}
    finally:
        host.virsh("destroy", "copy")
        for name in disks:
            host.virsh("undefine", name)
        host.run("rm", "-rf", DIRECTORY, *disks.values())


def test_a_disk_that_another_vm_uses_is_neither_deleted_nor_replaced(lab: Lab) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=1)
    disk = f"{DIRECTORY}/clone-try-001.qcow2"
    before = host.checksum(disk)
    copy_vm(host, "try-001", "copy", disk)
    try:
        assert "is also a disk of VM copy" in lab.run_module(**ABSENT)["msg"]
        host.virsh("undefine", "try-001")
        assert "is also a disk of VM copy" in lab.run_module(count=1)["msg"]
        assert host.checksum(disk) == before and host.vms() == {"copy"}
    finally:
        host.virsh("undefine", "copy")


@pytest.mark.long
def test_two_fleets_with_one_name_do_not_touch_each_other(lab: Lab) -> None:
    host = lab.hypervisors[0]
    other: dict[str, t.Any] = {"directory": f"{IMAGES}/other"}
    lab.run_module(count=2, state="started")
    identities = {name: host.identity(name) for name in ("try-001", "try-002")}
    try:
        assert "of another fleet of that name" in lab.run_module(count=1, **other)["msg"]
        assert "other" not in host.files(IMAGES)
        options = {"vms": {"other-001": 1}, "network": {"type": "bridge", "name": "br0"}, **other}
        assert lab.run_module(**options)["actions"] == ["other-001: clone, define"]
        assert lab.run_module(**options)["changed"] is False
        assert lab.run_module(count=2, state="started")["changed"] is False
        assert lab.run_module(**ABSENT, **other)["actions"] == ["other-001: undefine, delete"]
        assert "other" not in host.files(IMAGES)
        assert {name: host.identity(name) for name in identities} == identities
        assert host.vms("--state-running") == host.vms() == set(identities)
    finally:
        assert "failed" not in lab.run_module(**ABSENT, **other)


def test_a_lost_owner_file_is_refused(lab: Lab) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=1)
    host.run("mv", OWNER, f"{IMAGES}/kept")
    before = host.files(DIRECTORY)
    for options in ({"count": 1}, {"count": 2}, ABSENT):
        assert f"the owner file {OWNER} is missing" in lab.run_module(**options)["msg"]
    assert host.vms() == {"try-001"} and host.files(DIRECTORY) == before
    for text in ("try\\nsalt unknown", "try"):
        host.run("sh", "-c", f"printf '{text}\\n' > {OWNER}")
        assert "is damaged" in lab.run_module(**ABSENT)["msg"]
    host.run("mv", f"{IMAGES}/kept", OWNER)
    assert lab.run_module(count=1)["changed"] is False


NETWORK = {"type": "network", "name": "try", "address": "10.78.0.1/24"}
MARK = '<d:network xmlns:d="https://github.com/memstretch/density/vm" fleet="try"/>'


def networks(host: Hypervisor, *options: str) -> set[str]:
    return set(host.virsh("net-list", "--name", *(options or ("--all",))).split())


def test_a_network_is_made_and_removed_with_the_fleet(lab: Lab) -> None:
    host = lab.hypervisors[0]
    prepared: dict[str, t.Any] = {"state": "prepared", "image": None, "memory": None, "network": NETWORK}
    operations = ["network try: define, start, autostart"]
    predicted = lab.run_module(check=True, **prepared)
    assert predicted["changed"] and predicted["actions"] == operations
    assert not networks(host) and "fleet-try" not in host.files(IMAGES)
    assert lab.run_module(**prepared)["actions"] == operations
    assert networks(host, "--autostart") == networks(host) == {"try"} and len(salt(lab)) == 32
    assert lab.run_module(**prepared)["changed"] is False
    assert lab.run_module(count=1, network=NETWORK)["actions"] == ["try-001: clone, define"]
    host.virsh("net-destroy", "try")
    assert lab.run_module(count=1, network=NETWORK)["actions"] == ["network try: start"]
    predicted = lab.run_module(check=True, **ABSENT)
    assert predicted["actions"] == ["try-001: undefine, delete", "network try: remove"] and networks(host) == {"try"}
    # No option names the network: the owner file does.
    assert lab.run_module(**ABSENT)["actions"] == predicted["actions"]
    assert not networks(host) and "fleet-try" not in host.files(IMAGES)
    assert lab.run_module(**ABSENT)["changed"] is False


@pytest.mark.long
def test_a_network_that_somebody_else_uses_stays(lab: Lab) -> None:
    """Also that of another fleet of this name, in another directory."""
    host = lab.hypervisors[0]
    lab.run_module(count=1, network=NETWORK)
    other: dict[str, t.Any] = {"directory": f"{IMAGES}/other"}
    used = {"vms": {"other-001": 1}, "network": NETWORK, "state": "started", **other}
    try:
        assert lab.run_module(**used)["actions"] == ["other-001: clone, define, start"]
        removed = lab.run_module(**ABSENT)
        assert removed["actions"] == ["try-001: undefine, delete"]
        assert "the network try of the fleet stays, because VM other-001 uses it" in str(removed["warnings"])
        assert networks(host) == {"try"} and host.files(DIRECTORY) == {".memstretch-fleet"}
        assert lab.run_module(**ABSENT)["changed"] is False
        host.virsh("destroy", "other-001")  # it needs its network when it is started again
        assert lab.run_module(**ABSENT)["changed"] is False and networks(host) == {"try"}
        assert lab.run_module(**ABSENT, **other)["actions"] == ["other-001: undefine, delete"]
        assert networks(host) == {"try"}, "who did not make the network does not remove it"
        assert lab.run_module(**ABSENT)["actions"] == ["network try: remove"]
        assert not networks(host) and "fleet-try" not in host.files(IMAGES)
    finally:
        assert "failed" not in lab.run_module(**ABSENT, **other)


@pytest.mark.parametrize(
    "devices",
    [
        "<interface type='network'><source network='try'/></interface>",
        pytest.param("<interface type='bridge'><source bridge='{bridge}'/></interface>", marks=pytest.mark.long),
    ],
)
def test_a_network_of_a_foreign_vm_stays(lab: Lab, devices: str) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=1, network=NETWORK)
    bridge = re.search(r"bridge name='(\S+?)'", host.virsh("net-dumpxml", "try"))
    assert bridge
    define_foreign_vm(lab, "user", devices=devices.format(bridge=bridge[1]))
    try:
        assert "because VM user uses it" in str(lab.run_module(**ABSENT)["warnings"])
        assert networks(host) == {"try"}
    finally:
        host.virsh("undefine", "user")
    assert lab.run_module(**ABSENT)["actions"] == ["network try: remove"]


@pytest.mark.long
def test_a_network_whose_bridge_has_another_port_stays(lab: Lab) -> None:
    """As a container has one, of which libvirt does not know."""
    host = lab.hypervisors[0]
    lab.run_module(count=1, network=NETWORK, state="started")
    bridge = re.search(r"bridge name='(\S+?)'", host.virsh("net-dumpxml", "try"))
    assert bridge
    host.run("ip", "link", "add", "port0", "type", "veth", "peer", "name", "port1")
    try:
        host.run("ip", "link", "set", "port0", "master", bridge[1])
        assert "what is attached to its bridge" in str(lab.run_module(**ABSENT)["warnings"])
        assert networks(host) == {"try"} and host.vms() == set()
    finally:
        host.run("ip", "link", "delete", "port0")
    assert lab.run_module(**ABSENT)["actions"] == ["network try: remove"]


def test_a_network_with_our_name_and_mark_is_not_ours(lab: Lab) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=1, network=NETWORK)
    host.virsh("net-destroy", "try")
    host.virsh("net-undefine", "try")
    foreign = f"<network><name>try</name><metadata>{MARK}</metadata><ip address='10.78.0.1' prefix='24'/></network>"
    host.virsh("net-define", "/dev/stdin", text=foreign)
    assert "was not made for fleet try, and is off" in lab.run_module(count=1, network=NETWORK)["msg"]
    host.virsh("net-start", "try")
    before = host.virsh("net-dumpxml", "try")
    assert lab.run_module(count=1, network=NETWORK)["changed"] is False
    other = {**NETWORK, "address": "10.79.0.1/24"}
    assert "its address is not 10.79.0.1/24; it has 10.78.0.1 (255" in lab.run_module(count=1, network=other)["msg"]
    assert lab.run_module(**ABSENT)["actions"] == ["try-001: undefine, delete"]
    assert host.virsh("net-dumpxml", "try") == before


def test_two_runs_at_once_take_turns(lab: Lab) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=1)
    holder = host.start("flock", OWNER, "sh", "-c", "echo locked; read line")
    assert holder.stdout and holder.stdout.readline() == "locked\n"
    runs = [lab.start_module(count=3, state="started") for repeat in range(2)]
    waiting = len(users(lab)) + 2
    wait_for("both runs wait for the lock", lambda: len(users(lab)) >= waiting)
    holder.communicate("\n")
    results = [lab.result(each) for each in runs]
    started = ["try-001: start", "try-002: clone, define, start", "try-003: clone, define, start"]
    assert sorted(each["actions"] for each in results) == [[], started]
    assert host.vms("--state-running") == {"try-001", "try-002", "try-003"}


@pytest.mark.long
def test_a_run_that_waited_for_a_removal_creates_the_fleet_again(lab: Lab) -> None:
    host = lab.hypervisors[0]
    lab.run_module(count=1)
    holder = host.start("flock", OWNER, "sh", "-c", f"echo locked; read line; rm -r {DIRECTORY}")
    assert holder.stdout and holder.stdout.readline() == "locked\n"
    waiting = len(users(lab)) + 1
    host.virsh("undefine", "try-001")
    run = lab.start_module(count=1)
    wait_for("the run waits for the lock", lambda: len(users(lab)) >= waiting)
    holder.communicate("\n")
    assert lab.result(run)["actions"] == ["try-001: clone, define"]
    assert lab.run_module(count=1)["changed"] is False and len(salt(lab)) == 32


def test_a_link_in_place_of_the_owner_file_is_refused(lab: Lab) -> None:
    host = lab.hypervisors[0]
    host.run("sh", "-c", f"mkdir {DIRECTORY}; : > {IMAGES}/target; ln -s {IMAGES}/target {OWNER}")
    try:
        assert "is a symbolic link" in lab.run_module(count=1)["msg"]
        assert not host.vms() and host.run("cat", f"{IMAGES}/target") == ""
    finally:
        host.run("rm", "-r", DIRECTORY, f"{IMAGES}/target")


def test_impossible_fleets_are_refused_before_any_change(lab: Lab) -> None:
    """What test_lifecycle does not have in one playbook."""
    cases: list[tuple[dict[str, t.Any], str]] = [
        ({"parallel": 0}, "parallel: 0 is out of range"),
        ({"memory": "1M"}, "it must be at least 64M"),
        ({"network": {"type": "network", "name": "none"}}, "libvirt has no network 'none'"),
        ({"directory": IMAGES}, "was not made for a fleet"),
    ]
    for changes, reason in cases:
        assert reason in lab.run_module(count=2, **changes)["msg"]
        assert not lab.hypervisors[0].vms() and "fleet-try" not in lab.hypervisors[0].files(IMAGES)


@pytest.mark.long
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


@pytest.mark.long
def test_a_master_on_a_block_device_is_the_same_after_a_boot_of_its_host(lab: Lab) -> None:
    """The node of a device gets another time at each boot; what is written to the device is noticed all the same."""
    host = lab.hypervisors[0]
    image = f"{IMAGES}/device.raw"
    host.run("qemu-img", "create", "-q", "-f", "raw", image, "64M")
    device = host.run("losetup", "--find", "--show", image).strip()
    disk = (
        f"<disk type='block'><driver name='qemu' type='raw'/><source dev='{device}'/>"
        "<target dev='vda' bus='virtio'/></disk>"
    )
    define_foreign_vm(lab, "master", devices=disk)
    options: dict[str, t.Any] = {"image": None, "master": "master", "memory": None, "count": 1}
    try:
        assert lab.run_module(**options)["changed"]
        host.run("touch", "--date=2001-01-01", device)
        again = lab.run_module(**options)
        assert again.get("changed") is False, again
        host.run("dd", "if=/dev/urandom", f"of={device}", "bs=1M", "count=1", "conv=notrunc,fsync", "status=none")
        assert "has changed since try-001 was cloned" in lab.run_module(**options)["msg"]
        lab.run_module(state="absent", image=None, memory=None)
    finally:
        host.virsh("undefine", "master")
        host.run("losetup", "--detach", device)
        host.run("rm", image)


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


def test_clones_share_nothing_that_a_master_keeps_outside_of_its_disk(lab: Lab) -> None:
    host = lab.hypervisors[0]
    kept = {name: f"{IMAGES}/master.{name}" for name in ("code", "nvram", "serial", "log")}
    host.run("qemu-img", "create", "-q", "-f", "raw", f"{IMAGES}/master.raw", "1M")
    for name in ("code", "nvram"):
        host.run("sh", "-c", f"echo of the master > {kept[name]}; truncate -s 64K {kept[name]}; chmod 644 {kept[name]}")
    for name in ("serial", "log"):
        host.run("sh", "-c", f"echo of the master > {kept[name]}")
    devices = (
        f"<disk type='file'><driver name='qemu' type='raw'/><source file='{IMAGES}/master.raw'/>"
        "<target dev='vda' bus='virtio'/></disk>"
        f"<serial type='file'><source path='{kept['serial']}'/></serial>"
        f"<serial type='pty'><log file='{kept['log']}' append='off'/></serial>"
        f"<channel type='unix'><source mode='bind' path='{IMAGES}/master.agent'/>"
        "<target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
        "<tpm model='tpm-tis'><backend type='emulator'/></tpm>"
    )
    firmware = (
        f"<type arch='x86_64' machine='q35'>hvm</type><loader readonly='yes' type='pflash'>{kept['code']}</loader>"
        f"<nvram>{kept['nvram']}</nvram>"
    )
    xml = FOREIGN.format(name="master", uuid=FOREIGN_UUID, devices=devices)
    assert shutil.which("swtpm"), "this test needs an emulated TPM: apt-get install swtpm swtpm-tools"
    host.virsh(
        "define",
        "/dev/stdin",
        text=xml.replace("<type>hvm</type></os>", f"{firmware}</os><features><acpi/></features>"),
    )
    before = {path: host.checksum(path) for path in kept.values()}
    options: dict[str, t.Any] = {"image": None, "master": "master", "memory": None, "count": 2}
    try:
        started = lab.run_module(state="started", **options)
        assert "failed" not in started, started
        assert host.vms("--state-running") == {"try-001", "try-002"}
        assert {
            f"clone-try-00{number}.{kind}" for number in (1, 2) for kind in ("nvram", "serial-0.out", "serial-1.log")
        } < (host.files(DIRECTORY))
        assert host.checksum(f"{DIRECTORY}/clone-try-001.nvram") == before[kept["nvram"]]
        uuids = {host.virsh("domuuid", f"try-00{number}") for number in (1, 2)}
        assert host.files(TPM_STATE) == uuids
        assert lab.run_module(state="started", **options)["changed"] is False
        lab.run_module(state="started", **{**options, "count": 1})
        assert not {name for name in host.files(DIRECTORY) if "try-002" in name}
        lab.run_module(**ABSENT)
        assert host.vms() == {"master"} and "fleet-try" not in host.files(IMAGES)
        assert not host.files(TPM_STATE) & uuids
        assert {path: host.checksum(path) for path in kept.values()} == before
    finally:
        host.virsh("undefine", "master", "--keep-nvram")
        host.run("rm", "-f", f"{IMAGES}/master.raw", *kept.values())


def test_libvirtd_is_restarted(lab: Lab) -> None:
    lab.run_module(count=1, state="started")
    host = lab.hypervisors[0]
    host.run(
        "sh",
        "-c",
        'pid=$(cat "$1"); kill "$pid"; while [ -e "/proc/$pid" ]; do sleep 0.1; done',
        "sh",
        f"{lab.path}/lab/{lab.hypervisors[0].name}/libvirtd.pid",
    )
    assert "libvirt does not answer" in lab.run_module(count=1, state="started")["msg"]
    lab.up(*(each.name for each in lab.hypervisors))
    assert lab.run_module(count=1, state="started")["changed"] is False
    assert host.vms("--state-running") == {"try-001"}
