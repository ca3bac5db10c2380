# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Emulate a slow drive: a loop device whose writes the kernel limits in number and in bytes per second.

The limits are those of the root of the controller blkio, version 1, which pages that the kernel writes back belong to.
They apply to the loop device alone. Direct I/O keeps the pages of the file below it out of the page cache.
"""

from __future__ import annotations

import glob
import os
import re

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, mounts

_IOPS, _BYTES = "blkio.throttle.write_iops_device", "blkio.throttle.write_bps_device"
_IMAGE, _MOUNT = "drive.img", "drive"


class SlowDriveError(Exception):
    """A slow drive cannot be emulated on this host. The text says why."""


def throttle_directory(files: HostFiles) -> str:
    """Find where the controller blkio of version 1 is mounted.

    Raises:
        SlowDriveError: this host has none.
    """
    for mount in mounts(files):
        if mount.kind == "cgroup" and "blkio" in mount.options.split(","):
            return mount.place
    raise SlowDriveError(
        "emulated_iops: this host has no controller blkio of cgroup version 1, which limits the writes of the emulated "
        "drive; boot it with systemd.unified_cgroup_hierarchy=0, or use 0 for a real drive"
    )


class SlowDrive:
    """A file system on a loop device. All files are in a directory that the caller owns."""

    def __init__(self, place: str, iops: int, bandwidth: int, run_command: RunCommand) -> None:
        self.place, self.iops, self.bandwidth, self._run = place, iops, bandwidth, run_command
        self.directory = os.path.join(place, _MOUNT)
        self.disk = ""
        self._throttle = throttle_directory(HostFiles())

    def start(self, size: int) -> None:
        """Make the drive with this many bytes, without its limits."""
        image = os.path.join(self.place, _IMAGE)
        with open(image, "xb") as stream:
            stream.truncate(size)
        device = self._checked("losetup", "--find", "--show", "--direct-io=on", image).strip()
        self.disk = os.path.basename(device)
        self._checked("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", device)
        os.mkdir(self.directory)
        self._checked("mount", device, self.directory)

    def slow_down(self) -> None:
        """Apply the limits."""
        _limit(self._throttle, self.disk, self.iops, self.bandwidth)

    def speed_up(self) -> None:
        """Lift the limits, so that what waits is written at once."""
        _limit(self._throttle, self.disk, 0, 0)

    def _checked(self, *words: str) -> str:
        return run_checked(self._run, list(words), SlowDriveError)


def remove(place: str, run_command: RunCommand) -> None:
    """Lift the limits, unmount the drive in a directory and detach it; nothing happens without one."""
    image, mounted = os.path.join(place, _IMAGE), os.path.join(place, _MOUNT)
    disks = [
        path.split("/")[3]
        for path in glob.glob("/sys/block/loop*/loop/backing_file")
        if (HostFiles().text(path) or "") == os.path.realpath(image)
    ]
    for disk in disks:
        _limit(throttle_directory(HostFiles()), disk, 0, 0)
    if os.path.ismount(mounted):
        run_checked(run_command, ["umount", mounted], SlowDriveError)
    for disk in disks:
        run_checked(run_command, ["losetup", "--detach", f"/dev/{disk}"], SlowDriveError)


def _limit(directory: str, disk: str, iops: int, bandwidth: int) -> None:
    """Limit the writes of a disk per second, in number and in bytes; 0 is no limit."""
    with open(f"/sys/block/{disk}/dev", encoding="ascii") as stream:
        number = re.sub(r"\s", "", stream.read())
    for name, value in ((_IOPS, iops), (_BYTES, bandwidth)):
        with open(os.path.join(directory, name), "w", encoding="ascii") as stream:
            stream.write(f"{number} {value}")
