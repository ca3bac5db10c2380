# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warnings about the sockets of drives, and encrypted areas. tests/local/swap tries the rest on real disks."""

from __future__ import annotations

import shutil
import subprocess
import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.disks import Disks, socket_warnings
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import table
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard
from ansible_collections.memstretch.density.plugins.module_utils.swap.samples import EDGE_BYTES
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command

PARTUUID = "ABCDEF01-2345-6789-abcd-ef0123456789"


class Drive:
    """The attributes of a disk that matter for its socket."""

    def __init__(self, name):
        self.name, self.path = name, f"/dev/disk/by-id/{name}"


@pytest.fixture
def warnings(tmp_path, make_guard):
    """A function that returns the warnings of a host with drives near these NUMA nodes."""

    def make(sockets, nodes):
        files = {
            f"/sys/devices/system/cpu/cpu{number}/topology/physical_package_id": f"{number}\n"
            for number in range(sockets)
        }
        for number, node in enumerate(nodes):
            files[f"/sys/devices/pci{number}/numa_node"] = f"{node}\n"
        guard = make_guard(files)
        for number in range(len(nodes)):
            (tmp_path / f"sys/block/drive{number}").mkdir(parents=True)
            (tmp_path / f"sys/block/drive{number}/device").symlink_to(tmp_path / f"sys/devices/pci{number}")
        return socket_warnings(guard.files, [Drive(f"drive{number}") for number in range(len(nodes))])

    return make


@pytest.mark.parametrize(("sockets", "nodes"), [(1, [0, 0]), (1, [-1]), (2, [0, 1]), (2, []), (4, [0, 2, 3])])
def test_no_warning_for_one_socket_or_spread_drives(warnings, sockets, nodes):
    assert warnings(sockets, nodes) == []


def test_drives_that_are_not_spread_equally(warnings):
    assert warnings(2, [0, 1, 1]) == [
        "the swap drives are not spread equally over the sockets: 1 near NUMA node 0, 2 near NUMA node 1"
    ]


def test_drives_on_one_of_two_sockets(warnings):
    assert warnings(2, [1, 1]) == [
        "this host has 2 sockets and all swap drives are near NUMA node 1: "
        "/dev/disk/by-id/drive0, /dev/disk/by-id/drive1",
    ]


def test_one_drive_on_a_host_with_two_sockets(warnings):
    assert warnings(2, [0]) == [
        "this host has 2 sockets and all swap drives are near NUMA node 0: /dev/disk/by-id/drive0"
    ]


def test_drives_without_a_known_socket(warnings):
    assert warnings(2, [0, -1]) == ["the socket nearest to these swap drives is unknown: /dev/disk/by-id/drive1"]


@pytest.fixture
def encrypted_disk(tmp_path):
    """A file with the partition table of an encrypted disk."""
    disk = Drive("encrypted")
    disk.node = str(tmp_path / "disk")
    with open(disk.node, "wb") as file:
        file.truncate(16 * 2**20)
    sfdisk = shutil.which("sfdisk", path="/usr/sbin:/sbin:/usr/bin:/bin")
    assert sfdisk, "sfdisk is missing"
    command = [sfdisk, "--quiet", "--no-tell-kernel", disk.node]
    data = table(16 * 2**20, True, [uuid.UUID(PARTUUID)])
    subprocess.run(command, input=data, text=True, check=True, capture_output=True)
    return disk


@pytest.mark.parametrize(("discard", "allowed"), [("none", False), ("once", True), ("pages", True)])
def test_unit_of_an_encrypted_area(make_options, encrypted_disk, discard, allowed):
    options = make_options(kind="devices", devices=["/dev/disk/by-id/none"], encrypted=True, discard=discard)
    swap = Disks(options, Guard(run_command, HostFiles()), {})
    assert swap.mapping(encrypted_disk) == (PARTUUID.lower(), "/dev/mapper/memstretch-abcdef01", 14 * 2**20)
    swap.disks = [(encrypted_disk, None)]
    units = swap.unit(swap.location(encrypted_disk.path, "/dev/mapper/memstretch-abcdef01"))
    service = next(text for path, text in units.items() if path.endswith("/memstretch-abcdef01.service"))
    (command,) = [line for line in service.splitlines() if line.startswith("ExecStart=/usr/sbin/cryptsetup")]
    assert ("--allow-discards" in command) is allowed
    assert command.endswith(f" /dev/disk/by-partuuid/{PARTUUID.lower()} memstretch-abcdef01")
    assert any("What=/dev/mapper/memstretch-abcdef01\n" in text for text in units.values())


@pytest.mark.parametrize(
    ("size", "edge"), [(375 * 10**9, EDGE_BYTES), (16 * 2**20, EDGE_BYTES), (10 * 2**20 + 512, 2621440)]
)
def test_nothing_is_encrypted_where_signatures_stand(make_options, size, edge):
    """As in systemd/systemd#37328: random data looks like a file system once in thousands of boots."""
    options = make_options(kind="devices", devices=["/dev/disk/by-id/none"], encrypted=True)
    disks = Disks(options, Guard(run_command, HostFiles()), {})
    command = disks.open_command("/dev/sdb1", disks.mapping_of("ab", size))
    offset, length = (int(command[command.index(option) + 1]) * 512 for option in ("--offset", "--size"))
    assert offset == edge and edge <= size - offset - length < edge + 4096
    assert offset % 4096 == length % 4096 == 0
