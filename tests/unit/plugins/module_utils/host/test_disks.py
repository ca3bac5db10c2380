# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a recorded host."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import (
    disk_serial,
    disk_wwid,
    numa_node,
    pci_addresses,
    real_disks,
    scsi_address,
    swap_disks,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles


def test_real_disks_are_those_with_a_device(quiet):
    assert "zram0" in HostFiles(quiet).names("/sys/block")
    assert real_disks(HostFiles(quiet)) == ["nvme0n1", "nvme1n1", "sda"]


def test_swap_on_a_whole_disk(quiet):
    assert swap_disks(HostFiles(quiet)) == ["zram0", "nvme0n1", "nvme1n1"]


def test_swap_on_a_partition_counts_for_its_disk(quiet, write):
    disk = os.path.realpath(quiet + "/sys/class/block/nvme1n1")
    write(disk, "/nvme1n1p2/partition", "2\n")
    os.symlink(disk + "/nvme1n1p2", quiet + "/sys/class/block/nvme1n1p2")
    write(quiet, "/proc/swaps", "Filename Type Size Used Priority\n/dev/nvme1n1p2 partition 1024 0 5\n")

    assert swap_disks(HostFiles(quiet)) == ["nvme1n1"]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_swap_file_counts_for_the_disk_of_its_file_system(quiet, write, monkeypatch, hidden):
    """It is hidden from an ordinary user in a directory of root's."""
    write(quiet, "/root/swap", "")
    device = os.stat(quiet + "/root").st_dev
    if hidden:
        look = os.stat

        def refuse(path, *more, **options):
            if str(path).endswith("/swap"):
                raise PermissionError(13, "Permission denied", path)
            return look(path, *more, **options)

        monkeypatch.setattr(os, "stat", refuse)
    os.makedirs(quiet + "/sys/dev/block")
    os.symlink(
        os.path.realpath(quiet + "/sys/class/block/sda"),
        f"{quiet}/sys/dev/block/{os.major(device)}:{os.minor(device)}",
    )
    write(quiet, "/proc/swaps", "Filename Type Size Used Priority\n/root/swap file 1024 0 5\n")

    assert swap_disks(HostFiles(quiet)) == ["sda"]


def test_a_swap_file_that_no_longer_exists_is_on_no_disk(quiet, write):
    write(quiet, "/proc/swaps", "Filename Type Size Used Priority\n/swap\\040file file 1024 512 -2\n")

    assert swap_disks(HostFiles(quiet)) == []


def test_serial_numbers_of_nvme_and_scsi_disks(quiet):
    files = HostFiles(quiet)

    assert (disk_serial(files, "nvme0n1"), disk_serial(files, "sda")) == ("OPT0", "SCSI0")
    assert disk_serial(files, "zram0") is None


def test_numa_nodes_of_the_controllers(quiet):
    files = HostFiles(quiet)

    assert [numa_node(files, disk) for disk in ("nvme0n1", "nvme1n1", "sda")] == [0, 1, None]


def test_a_multipath_disk_is_on_the_node_of_its_controller(quiet, write):
    subsystem = quiet + "/sys/devices/virtual/nvme-subsystem/nvme-subsys9"
    os.makedirs(subsystem + "/nvme9n1")
    os.symlink(subsystem, subsystem + "/nvme9n1/device")
    os.symlink(subsystem + "/nvme9n1", quiet + "/sys/block/nvme9n1")
    os.makedirs(quiet + "/sys/block/nvme9c1n1/device")
    os.symlink(quiet + "/sys/devices/pci0000:40/0000:40:00.0/0000:41:00.0/nvme/nvme1", subsystem + "/nvme1")
    write(subsystem, "/nvme9n1/size", "4096\n")
    write(quiet, "/sys/block/nvme9c1n1/size", "4096\n")
    files = HostFiles(quiet)

    assert numa_node(files, "nvme9n1") == 1
    assert pci_addresses(files, "nvme9n1") == {"0000:40:00.0", "0000:41:00.0"}
    assert "nvme9n1" in real_disks(files) and "nvme9c1n1" not in real_disks(files)


def test_pci_addresses_are_those_on_the_way_to_a_disk(quiet):
    files = HostFiles(quiet)

    assert pci_addresses(files, "nvme1n1") == {"0000:40:00.0", "0000:41:00.0"}
    assert pci_addresses(files, "zram0") == set()


def test_the_scsi_address_is_the_name_of_the_device(quiet, write):
    device = quiet + "/sys/devices/host2/target2:0:1/2:0:1:0"
    os.makedirs(device + "/block/sdz")
    os.symlink(device, device + "/block/sdz/device")
    os.symlink(device + "/block/sdz", quiet + "/sys/block/sdz")
    write(device, "/wwid", "naa.5000c500a1b2c3d4\n")
    files = HostFiles(quiet)

    assert (scsi_address(files, "sdz"), scsi_address(files, "nvme0n1")) == ("2:0:1:0", None)
    assert (disk_wwid(files, "sdz"), disk_wwid(files, "zram0")) == ("naa.5000c500a1b2c3d4", None)
