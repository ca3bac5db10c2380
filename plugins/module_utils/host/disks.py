# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a host, from sysfs: the real ones, those with swap, their identities and places."""

from __future__ import annotations

import glob
import os
import re

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, swap_areas

# Each path of a multipath NVMe disk has its own statistics; the disk itself counts the same I/O.
_NVME_PATH = re.compile(r"^nvme\d+c\d+n\d+$")
_PCI_ADDRESS = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_SESSION = re.compile(r"^session\d+$")
_SCSI_ADDRESS = re.compile(r"^\d+:\d+:\d+:\d+$")


def real_disks(files: HostFiles) -> list[str]:
    """Return the disks that are physical, or emulated by a hypervisor, sorted by name: no loop, zram or dm devices."""
    return [
        name
        for name in files.names("/sys/block")
        if not _NVME_PATH.match(name) and files.exists(f"/sys/block/{name}/device")
    ]


def swap_disks(files: HostFiles) -> list[str]:
    """Return the disks that the active swap areas are on, each once; for a partition, the disk it is part of."""
    disks: list[str] = []
    for area in swap_areas(files):
        if area["type"] == "file":
            device = _device_number(files.path(area["name"]))
            link = files.path(f"/sys/dev/block/{device}")
        else:
            link = files.path("/sys/class/block/" + os.path.basename(area["name"]))
        if not os.path.exists(link):
            continue  # a file on a file system without a block device
        directory = os.path.realpath(link)
        if os.path.exists(os.path.join(directory, "partition")):
            directory = os.path.dirname(directory)
        disk = os.path.basename(directory)
        if disk not in disks:
            disks.append(disk)
    return disks


def _device_number(path: str) -> str:
    """Return "major:minor" of the device that a file is on; "0:0" if the file no longer exists.

    An ordinary user may not look into a directory of root's. Such a file is on the device of that directory.
    """
    try:
        device = os.stat(path).st_dev
    except FileNotFoundError:
        return "0:0"
    except PermissionError:
        return _device_number(os.path.dirname(path))
    return f"{os.major(device)}:{os.minor(device)}"


def disk_serial(files: HostFiles, disk: str) -> str | None:
    """Return the serial number of a disk; None if it reports none."""
    device = f"/sys/block/{disk}/device"
    page = files.raw(f"{device}/vpd_pg80")  # SCSI: a header of four bytes, then the serial number
    serial = files.text(f"/sys/block/{disk}/serial") or files.text(f"{device}/serial")
    return serial or (page[4:].decode("ascii", "replace").strip() if page else None) or None


def disk_wwid(files: HostFiles, disk: str) -> str | None:
    """Return the world-wide name of a disk; None if the kernel shows none."""
    return files.text(f"/sys/block/{disk}/wwid") or files.text(f"/sys/block/{disk}/device/wwid") or None


def _device_directories(files: HostFiles, disk: str) -> list[str]:
    """Return the directories below /sys/devices of a disk's device and, of a multipath NVMe disk, its controllers."""
    root = os.path.realpath(files.root)
    device = os.path.realpath(files.path(f"/sys/block/{disk}/device"))
    # A multipath NVMe disk is below its subsystem, which links to the controllers.
    found = (device, *(os.path.realpath(path) for path in sorted(glob.glob(f"{device}/nvme*"))))
    return ["/" + os.path.relpath(path, root) for path in found]


def pci_addresses(files: HostFiles, disk: str) -> set[str]:
    """Return the addresses of all PCI devices that a disk is behind, such as 0000:3b:00.0."""
    directories = _device_directories(files, disk)
    return {name for path in directories for name in path.split("/") if _PCI_ADDRESS.match(name)}


def behind_pch(files: HostFiles, disk: str) -> bool | None:
    """Check whether a disk, on one of its paths, is behind the platform controller hub of an Intel platform.

    None if that is unknown.

    The hub's own controllers and root ports are the devices 11 to 1f of the first bus. Those of the processors have
    lower numbers, or are on other root buses.
    """
    # A multipath NVMe disk is below its subsystem, which is no PCI device, and has a controller on each path.
    paths = [path for path in _device_directories(files, disk) if any(map(_PCI_ADDRESS.match, path.split("/")))]
    answers = [_path_behind_pch(files, path) for path in paths]
    if True in answers:
        return True
    return None if None in answers or not answers else False


def _path_behind_pch(files: HostFiles, path: str) -> bool | None:
    root = next((name for name in path.split("/") if _PCI_ADDRESS.match(name)), None)
    if root is None or files.text(path[: path.index(root)] + f"{root}/vendor") != "0x8086":
        return None
    _domain, bus, device = root.split(":")
    return bus == "00" and 0x11 <= int(device.split(".")[0], 16) <= 0x1F


def scsi_address(files: HostFiles, disk: str) -> str | None:
    """Return host:channel:target:unit of a disk; None if it is not on SCSI."""
    name = os.path.basename(_device_directories(files, disk)[0])
    return name if _SCSI_ADDRESS.match(name) else None


def iscsi_targets(files: HostFiles, disk: str) -> set[str]:
    """Return the names of the iSCSI targets that a disk comes from."""
    parts = {part for path in _device_directories(files, disk) for part in path.split("/")}
    names = {files.text(f"/sys/class/iscsi_session/{part}/targetname") for part in parts if _SESSION.match(part)}
    return {name for name in names if name}


def numa_node(files: HostFiles, disk: str) -> int | None:
    """Return the NUMA node that a disk's controller is attached to; None if there is none or it is unknown."""
    for path in _device_directories(files, disk):
        while path.startswith("/sys/devices/"):
            node = files.number(f"{path}/numa_node")
            if node is not None:
                return node if node >= 0 else None
            path = os.path.dirname(path)
    return None
