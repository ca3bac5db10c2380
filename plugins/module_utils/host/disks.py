# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a host, as sysfs describes them: which are real, which carry swap, their serial numbers and NUMA nodes."""

from __future__ import annotations

import glob
import os
import re

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, swap_areas

# A path below a multipath NVMe disk has statistics of its own; the disk above it counts the same I/O.
_NVME_PATH = re.compile(r"^nvme\d+c\d+n\d+$")


def real_disks(files: HostFiles) -> list[str]:
    """Return the disks that have hardware (or a hypervisor's) behind them, in the order of their names."""
    return [
        name
        for name in files.names("/sys/block")
        if not _NVME_PATH.match(name) and files.exists(f"/sys/block/{name}/device")
    ]


def swap_disks(files: HostFiles) -> list[str]:
    """Return the whole disks that the swap areas are on, each once."""
    disks: list[str] = []
    for area in swap_areas(files):
        if area["type"] == "file":
            device = _device_number(files.path(area["name"]))
            link = files.path(f"/sys/dev/block/{device}")
        else:
            link = files.path("/sys/class/block/" + os.path.basename(area["name"]))
        if not os.path.exists(link):
            continue  # a file on a file system that has no device of its own
        directory = os.path.realpath(link)
        if os.path.exists(os.path.join(directory, "partition")):
            directory = os.path.dirname(directory)
        disk = os.path.basename(directory)
        if disk not in disks:
            disks.append(disk)
    return disks


def _device_number(path: str) -> str:
    """Return "major:minor" of the file system's device that the file is on; "0:0" if the file is gone."""
    try:
        device = os.stat(path).st_dev
    except FileNotFoundError:
        return "0:0"
    return f"{os.major(device)}:{os.minor(device)}"


def disk_serial(files: HostFiles, disk: str) -> str | None:
    """Return the serial number that the disk tells; None if it tells none."""
    device = f"/sys/block/{disk}/device"
    page = files.raw(f"{device}/vpd_pg80")  # SCSI: four bytes of header, then the serial number
    serial = files.text(f"/sys/block/{disk}/serial") or files.text(f"{device}/serial")
    return serial or (page[4:].decode("ascii", "replace").strip() if page else None) or None


def numa_node(files: HostFiles, disk: str) -> int | None:
    """Return the node that the disk's controller is on; None if it is on none or nobody knows."""
    root = os.path.realpath(files.root)
    device = os.path.realpath(files.path(f"/sys/block/{disk}/device"))
    # A multipath NVMe disk hangs below its subsystem, which links to the controllers.
    for found in (device, *(os.path.realpath(path) for path in sorted(glob.glob(f"{device}/nvme*")))):
        path = "/" + os.path.relpath(found, root)
        while path.startswith("/sys/devices/"):
            node = files.number(f"{path}/numa_node")
            if node is not None:
                return node if node >= 0 else None
            path = os.path.dirname(path)
    return None
