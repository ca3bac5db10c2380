# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""The VMs as libvirt and qemu-img show them."""

from __future__ import annotations

import json
import re

import pytest

NAMES = ("redis-001", "redis-002")
IMAGES = "/var/lib/libvirt/images"


def test_the_vms_are_defined_and_not_started(virsh):
    assert set(virsh("list --all --name").split()) == {*NAMES, "foreign"}
    assert virsh("list --name") == ""


@pytest.mark.parametrize("name", NAMES)
def test_each_disk_is_a_linked_clone_of_the_golden_image(host, virsh, name):
    (disk,) = re.findall(r"(\S+clone\S+\.qcow2)", virsh(f"domblklist {name}"))
    image = json.loads(host.check_output("qemu-img info --output=json %s", disk))
    assert image["backing-filename"] == f"{IMAGES}/golden/blank.qcow2"
    assert image["actual-size"] < 2**20 < image["virtual-size"]


def test_each_vm_has_an_address_of_its_own(virsh):
    found = [re.findall(r"network\s+redis\s+virtio\s+(\S+)", virsh(f"domiflist {name}")) for name in NAMES]
    assert all(len(each) == 1 for each in found) and found[0] != found[1], found


def test_each_vm_has_its_memory(virsh):
    assert [re.search(r"Max memory:\s+(\d+) KiB", virsh(f"dominfo {name}"))[1] for name in NAMES] == ["65536"] * 2


def test_the_network_is_up(host, virsh):
    assert virsh("net-list --name") == "redis"
    assert "10.78.0.1/24" in host.check_output("ip -brief address")
