# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths name a disk."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.swap.device import path_reason


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
