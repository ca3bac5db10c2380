# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drives of a recorded host are offered; tests/local/swap tries the guard on real disks."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import behind_pch
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.candidates import candidates, summary
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command


@pytest.fixture
def host(tmp_path):
    """A function that adds a disk behind PCI devices, with the vendor of the first, and returns the host."""

    def add(name, *addresses, vendor="0x8086", rotational=0):
        device = tmp_path.joinpath("sys/devices", f"pci{addresses[0][:7]}", *addresses, "host")
        device.mkdir(parents=True)
        (device.parents[len(addresses) - 1] / "vendor").write_text(vendor + "\n", encoding="utf-8")
        block = tmp_path / "sys/block" / name
        (block / "queue").mkdir(parents=True)
        (block / "queue/rotational").write_text(f"{rotational}\n", encoding="utf-8")
        (block / "size").write_text("2097152\n", encoding="utf-8")
        (block / "device").symlink_to(device)
        (device / "model").write_text("INTEL SSDPED1D750GA\n", encoding="utf-8")
        (device / "serial").write_text("PHMB1\n", encoding="utf-8")
        return HostFiles(str(tmp_path))

    return add


@pytest.mark.parametrize(
    ("addresses", "vendor", "behind"),
    [
        (("0000:17:00.0", "0000:18:00.0"), "0x8086", False),  # a root port of the second root bus, of a processor
        (("0000:00:1d.0", "0000:04:00.0"), "0x8086", True),  # a root port of the hub
        (("0000:00:17.0",), "0x8086", True),  # its SATA controller
        (("0000:00:01.0", "0000:01:00.0"), "0x8086", False),
        (("0000:00:1d.0", "0000:04:00.0"), "0x1022", None),
    ],
)
def test_which_disks_are_behind_the_pch(host, addresses, vendor, behind):
    assert behind_pch(host("nvme0n1", *addresses, vendor=vendor), "nvme0n1") is behind


@pytest.mark.parametrize(
    ("controllers", "behind"),
    [
        ((("0000:00:1d.0", "0000:04:00.0"),), True),
        ((("0000:17:00.0", "0000:18:00.0"), ("0000:00:1d.0", "0000:04:00.0")), True),
        ((("0000:17:00.0", "0000:18:00.0"), ("0000:65:00.0", "0000:66:00.0")), False),
        ((), None),
    ],
)
def test_a_multipath_drive_is_behind_the_pch_if_one_of_its_controllers_is(host, tmp_path, controllers, behind):
    subsystem = tmp_path / "sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    (subsystem / "nvme0n1").mkdir(parents=True)
    files = HostFiles(str(tmp_path))
    for number, addresses in enumerate(controllers):
        files = host(f"path{number}", *addresses)
        (subsystem / f"nvme{number}").symlink_to((tmp_path / "sys/block" / f"path{number}" / "device").resolve())
    (tmp_path / "sys/block").mkdir(parents=True, exist_ok=True)
    (subsystem / "nvme0n1/device").symlink_to(subsystem)
    (tmp_path / "sys/block/nvme0n1").symlink_to(subsystem / "nvme0n1")
    assert behind_pch(files, "nvme0n1") is behind


def test_every_drive_is_listed_with_what_speaks_against_it(host):
    host("sda", "0000:00:17.0", rotational=1)
    files = host("nvme0n1", "0000:17:00.0", "0000:18:00.0")
    found = {each["disk"]: each for each in candidates(Guard(run_command, files))}
    assert found["nvme0n1"]["size_bytes"] == 2**30 and found["nvme0n1"]["model"] == "INTEL SSDPED1D750GA"
    assert found["nvme0n1"]["serial"] == "PHMB1" and found["nvme0n1"]["behind_pch"] is False
    assert len(found["nvme0n1"]["against"]) == 1 and "no path below" in found["nvme0n1"]["against"][0]
    assert [text.split(",")[0].split(":")[0] for text in found["sda"]["against"][1:]] == [
        "is a rotating disk according to the kernel",
        "is behind the PCH",
    ]


def mounted_disks() -> set[str]:
    """Return the disks of this machine with a mounted file system, on the disk itself or on a partition."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        numbers = {line.split()[2] for line in file}
    places = [os.path.realpath(f"/sys/dev/block/{number}") for number in numbers]
    return {
        os.path.basename(os.path.dirname(place) if os.path.exists(f"{place}/partition") else place)
        for place in places
        if os.path.exists(place)
    }


@pytest.mark.usefixtures("needs_root")  # to read the contents of drives
def test_the_drives_of_this_machine_are_examined_and_none_in_use_is_offered():
    files = HostFiles()
    found = {each["disk"]: each["against"] for each in candidates(Guard(run_command, files))}
    used = mounted_disks() & found.keys()
    if not used:
        pytest.skip("no file system of this machine is on a disk or a partition")
    for disk in used:
        assert any("carries the file system" in text for text in found[disk]), (disk, found[disk])


@pytest.mark.parametrize(
    ("different", "text"),
    [
        (
            {},
            "/dev/disk/by-id/nvme-X | X | serial S1 | 750.2 GB | NUMA node 1 | behind the PCH: no "
            "| can be used (swap_space_devices)",
        ),
        (
            {
                "path": None,
                "model": None,
                "serial": None,
                "numa_node": None,
                "behind_pch": None,
                "against": ["is old", "is used"],
            },
            "/dev/nvme0n1 | model unknown | serial unknown | 750.2 GB | NUMA node unknown | behind the PCH: unknown "
            "| it is old; it is used",
        ),
    ],
)
def test_a_drive_in_one_line(different, text):
    drive = {
        "disk": "nvme0n1",
        "path": "/dev/disk/by-id/nvme-X",
        "model": "X",
        "serial": "S1",
        "size_bytes": 750156374016,
        "numa_node": 1,
        "behind_pch": False,
        "against": [],
    }
    assert summary({**drive, **different}) == text
