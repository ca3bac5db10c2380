# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot loaders that are refused by name."""

from __future__ import annotations

import re

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot.other_loaders import (
    boots_without_grub,
    other_loader,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

EFI = "sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
# Ubuntu has both sections on every host.
ZFS = """### BEGIN /etc/grub.d/10_linux ###
linux /boot/vmlinuz root=UUID=1 ro
### END /etc/grub.d/10_linux ###
### BEGIN /etc/grub.d/10_linux_zfs ###
menuentry 'Ubuntu' {{
{}
}}
### END /etc/grub.d/10_linux_zfs ###
### BEGIN /etc/grub.d/20_linux_xen ###
linux /boot/xen
"""


@pytest.fixture
def show(tmp_path):
    """A function that shows files to a host and returns them."""

    def write(files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return HostFiles(str(tmp_path))

    return write


def variable(text):
    return b"\6\0\0\0" + f"{text}\0".encode("utf-16-le")


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({}, None),
        ({EFI.format("LoaderInfo"): variable("GRUB 2.12")}, None),
        ({EFI.format("LoaderInfo"): variable("GRUB 2.12"), EFI.format("StubInfo"): variable("systemd-stub 255")}, None),
        ({EFI.format("LoaderInfo"): variable("systemd-boot 252.38-1")}, "systemd-boot 252.38-1 boots this host"),
        ({EFI.format("StubInfo"): variable("systemd-stub 257")}, "a unified kernel image .systemd-stub 257."),
        ({"etc/kernel/proxmox-boot-uuids": b"1234-ABCD\n"}, "run proxmox-boot-tool refresh"),
        ({"etc/kernel/proxmox-boot-uuids": b"\n"}, None),
        (
            {
                "boot/grub/grub.cfg": ZFS.format(
                    "  linux /BOOT/ubuntu_1@/vmlinuz root=ZFS=rpool/ROOT/ubuntu_1 ro"
                ).encode()
            },
            "10_linux_zfs",
        ),
        ({"boot/grub/grub.cfg": ZFS.format("").encode()}, None),
    ],
)
def test_boot_loaders_that_are_not_supported_are_named(show, files, text):
    found = other_loader(show(files))
    assert found is None if text is None else re.search(text, found)


@pytest.mark.parametrize(
    ("line", "boots"),
    [
        (b"BOOT_IMAGE=/boot/vmlinuz-6.1.0-56-amd64 root=UUID=1 ro quiet\n", True),
        (b"root=/dev/vda1 console=ttyS0\n", False),  # a VM whose hypervisor loads the kernel
    ],
)
def test_a_menu_that_nobody_boots_is_no_boot_loader(show, line, boots):
    found = boots_without_grub(show({"proc/cmdline": line}))
    assert (found is None) is boots


def test_the_first_domain_of_xen_is_named(show):
    """Its kernel has no BOOT_IMAGE= either (Debian's 20_linux_xen writes "placeholder")."""
    files = {"proc/cmdline": b"placeholder root=UUID=1 ro quiet\n", "proc/xen/capabilities": b"control_d\n"}
    assert "Xen has booted" in boots_without_grub(show(files))
