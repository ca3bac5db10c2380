# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Masters and networks as other managers define them (CloudStack, OpenStack), cloned on real libvirt."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t
import xml.etree.ElementTree as ET

import pytest

from .conftest import IMAGES, Hypervisor, Lab

CASES = pathlib.Path(__file__).parent / "masters"
DISK = "/var/lib/libvirt/images/cs10.qcow2"
NAMES = ("try-001", "try-002")
# libvirt of the lab does not tune CPUs, and cannot write there.
SHARES = {"<cputune><shares>1600</shares></cputune>": ""}
LOG = {
    "<cputune><shares>2048</shares></cputune>": "",
    "<log file='/var/lib/nova/instances/5c3d0f4e/console.log' append='off'/>": "",
}
# One that cannot be a master, and three that can.
OF_THE_SELF_TEST = {
    "master-topology": {
        "</disk>": "</disk><disk type='file'><source file='/x'/><target dev='vdb' bus='virtio'/></disk>"
    },
    "master-numa-cell": SHARES,
    "master-sysinfo-serial-log": LOG,
    "master-uefi": {},
}


class Master(t.NamedTuple):
    """A master on the first hypervisor, and clones of it."""

    lab: Lab
    host: Hypervisor

    def clone(self, **changes: t.Any) -> dict[str, t.Any]:
        return self.lab.run_module(**{"image": None, "master": "master", "memory": None, "count": 2, **changes})

    def definition(self, name: str) -> ET.Element:
        return ET.fromstring(self.host.virsh("dumpxml", "--inactive", name))


@pytest.fixture
def define(lab: Lab) -> t.Iterator[t.Callable[..., Master]]:
    """A function that defines a master from a file, after replacements in its text."""
    host = lab.hypervisors[0]
    host.run("qemu-img", "create", "-q", "-f", "qcow2", DISK, "64M")

    def run(case: str, /, name: str = "master", **replacements: str) -> Master:
        text = (CASES / f"{case}.xml").read_text(encoding="utf-8").replace("type='kvm'", "type='qemu'")
        text = re.sub("<name>.*</name>", f"<name>{name}</name>", text)
        for old, new in replacements.items():
            assert old in text
            text = text.replace(old, new)
        host.virsh("define", "/dev/stdin", text=text)
        return Master(lab, host)

    yield run
    lab.run_module(state="absent", image=None, memory=None)
    if "master" in host.vms():
        host.virsh("undefine", "master")
    host.run("rm", DISK)


def test_sizes_of_a_master_with_numa_cells(define: t.Callable[..., Master]) -> None:
    master = define("master-numa-cell", **SHARES)
    result = master.clone(memory="2G", vcpus=2)
    assert result.get("changed"), result
    for name in NAMES:
        root = master.definition(name)
        assert [root.findtext(each) for each in ("memory", "currentMemory", "vcpu")] == ["2097152", "2097152", "2"]
        assert root.find("vcpu").get("current") is None
        assert root.find("./cpu/numa/cell").attrib == {"id": "0", "cpus": "0-1", "memory": "2097152", "unit": "KiB"}
    assert master.clone(memory="2G", vcpus=2)["changed"] is False
    # What it costs is what libvirt makes of it, before and after the options.
    assert "2 VMs of 8 GiB" in master.clone(reserve="400G")["msg"]
    assert "2 VMs of 3 GiB" in master.clone(memory="3G", reserve="400G")["msg"]
    master.clone(memory="256M", vcpus=2, state="started")
    assert master.host.vms("--state-running") == set(NAMES)
    for name in NAMES:
        assert "actual 262144" in master.host.virsh("dommemstat", name)


@pytest.mark.long
def test_a_master_with_a_topology_gets_other_sizes(define: t.Callable[..., Master]) -> None:
    master = define("master-topology")
    result = master.clone(memory="64M", vcpus=4)
    assert result.get("changed"), result
    for name in NAMES:
        topology = master.definition(name).find("./cpu/topology").attrib
        assert (topology["sockets"], topology["cores"], topology["threads"]) == ("2", "2", "1")
    logs = [log.get("file") for name in NAMES for log in master.definition(name).iterfind("./devices/serial/log")]
    assert len(set(logs)) == 2 and all("/fleet-try/clone-try-00" in log for log in logs), logs


def test_too_few_vcpus_for_the_cells_are_refused_before_a_clone_exists(define: t.Callable[..., Master]) -> None:
    master = define(
        "master-numa-cell",
        **{"cpus='0-7'": "cpus='0-3'", "</numa>": "<cell id='1' cpus='4-7' memory='1' unit='GiB'/></numa>"},
    )
    assert "vcpus: 1 is too few for the 2 NUMA cells" in master.clone(memory="2G", vcpus=1)["msg"]
    assert master.host.vms() == {"master"} and "fleet-try" not in master.host.files(IMAGES)


def test_clones_have_their_own_firmware_uuid_and_run_side_by_side(define: t.Callable[..., Master]) -> None:
    master = define("master-sysinfo-serial-log", **LOG)
    result = master.clone(memory="64M", vcpus=1, state="started")
    assert result.get("changed"), result
    assert master.host.vms("--state-running") == set(NAMES)
    told = {name: master.definition(name).findtext("./sysinfo/system/entry[@name='uuid']") for name in NAMES}
    assert told == {name: master.host.virsh("domuuid", name) for name in NAMES} and len(set(told.values())) == 2


@pytest.mark.parametrize(
    "network",
    [
        {"type": "network", "name": "host-bridge"},
        pytest.param({"type": "bridge", "name": "br0"}, marks=pytest.mark.long),
    ],
)
def test_vms_on_a_bridge_are_found_in_the_arp_table(lab: Lab, network: dict[str, str]) -> None:
    """libvirt serves no DHCP there: it has neither a number of addresses nor leases."""
    host = lab.hypervisors[0]
    host.run("ip", "link", "add", "br0", "type", "bridge")
    try:
        host.virsh("net-define", "/dev/stdin", text=(CASES / "network-bridge.xml").read_text(encoding="utf-8"))
        host.virsh("net-start", "host-bridge")
        result = lab.run_module(count=2, state="started", network=network)
        assert result.get("changed") and [each["address"] for each in result["vms"]] == ["", ""], result
        mac = host.identity("try-002")[1]
        host.run("ip", "neigh", "add", "10.79.0.2", "lladdr", mac, "dev", "br0", "nud", "reachable")
        again = lab.run_module(count=2, state="started", network=network)
        assert [each["address"] for each in again["vms"]] == ["", "10.79.0.2"]
        lab.run_module(state="absent", image=None, memory=None)
    finally:
        host.run("ip", "link", "delete", "br0")


def test_the_self_test_says_which_vms_could_be_masters(
    lab: Lab, define: t.Callable[..., Master], tmp_path: pathlib.Path
) -> None:
    """Those of UEFI, NUMA and OpenStack kind could; one with two disks could not. Nothing is defined."""
    host = lab.hypervisors[0]
    for case, changes in OF_THE_SELF_TEST.items():
        define(case, name=case, **changes)
    before = {name: host.virsh("dumpxml", "--inactive", name) for name in host.vms()}
    try:
        variables = json.dumps({"results_dir": str(tmp_path), "selftest_checks": ["masters"]})
        outcome = lab.run_playbook("selftest", "-e", variables)
        assert outcome.status == 0, outcome.output
        assert {name: host.virsh("dumpxml", "--inactive", name) for name in host.vms()} == before
    finally:
        for name in OF_THE_SELF_TEST:
            host.virsh("undefine", name, "--nvram")
    text = (tmp_path / "selftest" / "selftest.json").read_text(encoding="utf-8")
    assert not any(name in text for name in OF_THE_SELF_TEST), "names of VMs are left out of the file"
    made = json.loads(text)["hosts"]["host-1"]
    assert made["results"]["masters"]["reason"] == "3 of 4 VMs could be the master of a fleet", made["results"]
    works = {each["what"]: (each["works"], each["why"]) for each in made["works"] if "clones of" in each["what"]}
    assert works == {
        "clones of 1 VM (1 NUMA cell)": (True, ""),
        "clones of 1 VM (UEFI)": (True, ""),
        "clones of 1 VM (i440fx, OpenStack Nova)": (True, ""),
        "clones of 1 VM (i440fx)": (False, "the master has 2 disks; it must have exactly one"),
    }
    assert "master-topology | i440fx | the master has 2 disks" in outcome.output
