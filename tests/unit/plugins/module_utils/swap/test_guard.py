# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guard reads and reports; tests/local/swap tries it on real disks."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import (
    EDGE_BYTES,
    Guard,
    GuardError,
    describe,
    edges_are_blank,
    parsed,
    path_reason,
    read_header,
    source_path,
)


@pytest.mark.parametrize(
    "path",
    [
        "/dev/sda",
        "/dev/nvme0n1",
        "sda",
        "",
        "/dev/disk/by-path/pci-0",
        "/dev/disk/by-id/",
        "/dev/disk/by-id/..",
        "/dev/disk/by-id/../../sda",
        "/dev/disk/by-id/a/b",
        "/dev/disk/by-id",
        "UUID=1",
        "/dev/disk/by-id/nvme-*",
        "/dev/disk/by-id/nvme-?",
        "/dev/disk/by-id/nvme-[ab]",
        "/dev/disk/by-id/nvme-{a,b}",
    ],
)
def test_only_a_plain_path_below_by_id_names_a_disk(path):
    assert path_reason(path)


@pytest.mark.parametrize(
    "name", ["nvme-INTEL_SSDPE21K375GA_PHKE7481", "wwn-0x5000c500a1b2c3d4", "ata-X:1_Y.2", "scsi-SATA_x#1"]
)
def test_names_that_udev_gives_are_accepted(name):
    assert path_reason(f"/dev/disk/by-id/{name}") is None


@pytest.mark.parametrize(
    ("offset", "byte", "blank"),
    [
        (None, b"", True),
        (0, b"x", False),
        (EDGE_BYTES - 1, b"x", False),
        (EDGE_BYTES, b"x", True),
        (-1, b"x", False),
        (-EDGE_BYTES, b"x", False),
        (-EDGE_BYTES - 1, b"x", True),
    ],
)
def test_a_disk_is_blank_if_its_first_and_last_four_mib_are(tmp_path, offset, byte, blank):
    size = 16 * 1024 * 1024
    path = tmp_path / "disk"
    with open(path, "wb") as file:
        file.truncate(size)
        if offset is not None:
            file.seek(offset if offset >= 0 else size + offset)
            file.write(byte)
    assert edges_are_blank(str(path), size) is blank


def test_erased_flash_is_blank(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(b"\xff" * (2 * EDGE_BYTES))
    assert edges_are_blank(str(path), 2 * EDGE_BYTES)


def test_a_disk_smaller_than_its_edges_is_read_completely(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(bytes(1024 * 1024 - 1) + b"x")
    assert not edges_are_blank(str(path), 1024 * 1024)


def test_no_header_without_a_swap_area(tmp_path):
    path = tmp_path / "file"
    assert read_header(str(path)) is None
    path.write_bytes(b"short")
    assert read_header(str(path)) is None
    path.write_bytes(bytes(8192))
    assert read_header(str(path)) is None


def test_each_kind_of_signature_is_named_once():
    found = [{"type": "gpt"}, {"type": "gpt"}, {"type": "PMBR"}, {"type": "ext4", "label": "data"}, {"type": "dos"}]
    assert describe(found) == "gpt, ext4 (label data), MBR"


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("UUID=AB-12", "/dev/disk/by-uuid/ab-12"),
        ('LABEL="swap"', "/dev/disk/by-label/swap"),
        ("PARTUUID=AB", "/dev/disk/by-partuuid/ab"),
        ("/dev/sda1", "/dev/sda1"),
        ("tmpfs", "tmpfs"),
    ],
)
def test_path_of_a_device_in_fstab(source, path):
    assert source_path(source) == path


def test_a_libvirt_file_that_cannot_be_read_is_an_error(tmp_path):
    path = tmp_path / "pool.xml"
    path.write_text("<pool>", encoding="utf-8")
    with pytest.raises(GuardError, match=r"pool\.xml cannot be read, but it may give a disk to libvirt"):
        parsed(str(path))


def host(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Guard(lambda command: pytest.fail(f"runs {command}"), HostFiles(str(tmp_path)))


def test_mounts_of_this_process_and_of_the_first(tmp_path):
    line = "22 1 259:{} / /mnt/with\\040space rw shared:1 - ext4 /dev/none rw\n"
    guard = host(tmp_path, proc__self__mountinfo=line.format(1), proc__1__mountinfo=line.format(2))
    assert guard.mounts() == [("259:1", "/mnt/with space"), ("259:2", "/mnt/with space")]


def test_devices_of_libvirt_pools_and_machines(tmp_path):
    guard = host(
        tmp_path,
        etc__libvirt__storage__a="ignored, not .xml",
    )
    (tmp_path / "etc/libvirt/storage/fast.xml").write_text(
        "<pool type='logical'><name>fast</name><source><device path='/dev/disk/by-id/x'/></source>"
        "<target><path>/dev/fast</path></target></pool>"
    )
    os.makedirs(tmp_path / "etc/libvirt/qemu")
    (tmp_path / "etc/libvirt/qemu/vm.xml").write_text(
        "<domain><name>vm1</name><devices><disk><source file='/a.qcow2'/></disk>"
        "<disk><source dev='/dev/sdb'/></disk></devices></domain>"
    )
    assert [(path, who) for _source, path, who in guard.libvirt_sources()] == [
        ("/dev/disk/by-id/x", "storage pool fast"),
        ("/dev/sdb", "virtual machine vm1"),
    ]


def test_a_pool_below_a_mount_is_named(tmp_path):
    guard = host(tmp_path)
    os.makedirs(tmp_path / "etc/libvirt/storage")
    (tmp_path / "etc/libvirt/storage/d.xml").write_text(
        "<pool type='dir'><name>d</name><target><path>/srv/vms</path></target></pool>"
    )
    assert guard.pools_below("/srv") == "libvirt's storage pool d"
    assert guard.pools_below("/srv/vm") == ""
    assert guard.pools_below("/") == ""
