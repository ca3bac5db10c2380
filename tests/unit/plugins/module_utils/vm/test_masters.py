# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs could be masters; tests/fleet asks a real libvirt."""

from __future__ import annotations

import pathlib
import re

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm import masters
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import Domain, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import Mark

CASES = pathlib.Path(__file__).parents[4] / "fleet" / "masters"
DISK = "/var/lib/libvirt/images/cs10.qcow2"
UEFI = (
    "<os firmware='efi'><type machine='pc-q35-7.2'>hvm</type><loader secure='yes'/></os>",
    ("UEFI with Secure Boot",),
)
FLASH = ("<os><type machine='q35'>hvm</type><loader type='pflash'>/code.fd</loader></os>", ("UEFI",))
BIOS = ("<os><type machine='pc-i440fx-7.2'>hvm</type></os>", ("i440fx",))


class Libvirt:
    """Answers like a host with these VMs. It refuses clones of those whose definition has a word."""

    def __init__(self, *domains, refused=None):
        self._domains, self._refused, self.asked = domains, refused, []

    def domains(self):
        return {each.name: each for each in self._domains}

    def sizes(self, name, xml):
        self.asked.append(xml)
        if self._refused and self._refused in xml:
            raise VmHostError(f"cannot make a VM of the definition of {name}: unsupported configuration")


@pytest.fixture
def vm(tmp_path):
    """A function that returns a VM whose disk exists, with replacements in its definition."""
    disk = tmp_path / "disk.qcow2"
    disk.touch()

    def make(name, case="master-topology", running=False, mark=None, **replacements):
        xml = re.sub("<name>.*</name>", f"<name>{name}</name>", (CASES / f"{case}.xml").read_text(encoding="utf-8"))
        for old, new in {DISK: str(disk), **replacements}.items():
            assert old in xml
            xml = xml.replace(old, new)
        return Domain(name, f"uuid-of-{name}", running, False, mark, set(), 0, xml)

    return make


def test_vms_that_are_alike_are_one_line(vm):
    names = [f"web{number}" for number in range(5)]
    host = Libvirt(*(vm(name, running=name != "web0") for name in names), vm("big", "master-numa-cell"))
    web, big = masters.look(host)
    assert (web["names"], web["running"], web["kinds"], web["against"]) == (names, 4, ["i440fx"], "")
    assert web["summary"] == "web0, web1, web2 and 2 more | i440fx | could be a master"
    assert (big["kinds"], big["summary"]) == (["1 NUMA cell"], "big | 1 NUMA cell | could be a master")


def test_two_clones_of_each_are_shown_to_libvirt(vm):
    host = Libvirt(vm("instance", "master-sysinfo-serial-log"))
    (found,) = masters.look(host)
    assert found["kinds"] == ["i440fx", "OpenStack Nova"] and len(set(host.asked)) == 2
    assert all("5c3d0f4e-8a6b-4a9e-9d53-6b1b0a6b7c21" not in xml for xml in host.asked)


@pytest.mark.parametrize(
    ("replacements", "refused", "against"),
    [
        ({"type='kvm'": "type='xen'"}, None, "it is a VM of xen; clones are VMs of kvm or qemu"),
        ({"disk.qcow2": "gone.qcow2"}, None, "gone.qcow2 does not exist"),
        ({"device='disk'": "device='lun'"}, None, "the master has 0 disks; it must have exactly one"),
        (
            {"<memballoon": "<tpm><backend type='passthrough'/></tpm><memballoon"},
            None,
            "the master: its TPM is of the kind passthrough. All clones would share it with the master. Remove it "
            "from the master's definition",
        ),
        (
            {"<features>": "<memoryBacking><hugepages/></memoryBacking><features>"},
            None,
            "the VMs' memory consists of huge pages, so it is never swapped out",
        ),
        ({}, "qemu64", "cannot make a VM of the definition of clone-1: unsupported configuration"),
    ],
)
def test_what_keeps_a_vm_from_being_a_master_is_said(vm, replacements, refused, against):
    (found,) = masters.look(Libvirt(vm("first", **replacements), refused=refused))
    assert found["against"].endswith(against) and found["summary"].endswith(against)


def test_a_reason_has_no_name_of_a_vm_so_equal_vms_are_one(vm, tmp_path):
    domains = [vm(name, **{str(tmp_path / "disk"): f"/gone/{name}"}) for name in ("one", "two")]
    (found,) = masters.look(Libvirt(*domains))
    assert found["names"] == ["one", "two"] and found["against"] == "its disk /gone/....qcow2 does not exist"


def test_clones_of_a_fleet_are_left_out(vm):
    assert masters.look(Libvirt(vm("redis-001", mark=Mark("redis", 1, "", "", "")))) == []


@pytest.mark.parametrize(("system", "kinds"), [UEFI, FLASH, BIOS])
def test_what_is_special_about_a_vm(system, kinds):
    root = masters.ET.fromstring(f"<domain>{system}</domain>")
    assert masters.kinds_of(root) == kinds


def test_cells_and_tpm_are_special():
    cells = "<cpu><numa><cell/><cell/></numa></cpu><devices><tpm/></devices>"
    assert masters.kinds_of(masters.ET.fromstring(f"<domain>{cells}</domain>")) == ("2 NUMA cells", "TPM")
