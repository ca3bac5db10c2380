# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""Nothing of the fleet is left, and all that is not the fleet's is there."""

from __future__ import annotations

import os
import pathlib

IMAGES = "/var/lib/libvirt/images"


def test_the_vm_of_somebody_else_is_left(virsh):
    assert virsh("list --all --name") == "foreign"


def test_the_disks_are_gone_and_the_golden_image_is_left(host):
    assert host.file(IMAGES).listdir() == ["golden"]
    assert host.run("qemu-img check %s", f"{IMAGES}/golden/blank.qcow2").rc == 0


def test_the_network_is_gone(virsh):
    assert virsh("net-list --all --name") == ""


def test_the_keys_are_gone():
    assert not list(pathlib.Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "fleet").glob("*"))
