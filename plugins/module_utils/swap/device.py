# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One block device as the kernel presents it, and the stable path that names it."""

from __future__ import annotations

import glob
import os
import re
import stat

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import disk_serial, disk_wwid
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import first_names, size_text

BY_ID = "/dev/disk/by-id/"
# So many disks are named in an error.
_SHOWN_DISKS = 12


class GuardError(Exception):
    """A disk cannot be examined and is therefore not touched; the text gives the reason."""


class Disk:
    """One block device as the kernel presents it, found by the path that the user gave."""

    def __init__(self, path: str, files: HostFiles) -> None:
        self.path, self.files = path, files
        self.node = os.path.realpath(path)
        self.number = number_text(os.stat(self.node).st_rdev)
        self.name = os.path.basename(os.path.realpath(files.path(f"/sys/dev/block/{self.number}")))
        self.size = (files.number(f"/sys/class/block/{self.name}/size") or 0) * 512

    @property
    def read_only(self) -> bool:
        return self.files.number(f"/sys/class/block/{self.name}/ro") == 1

    @property
    def is_partition(self) -> bool:
        return self.files.exists(f"/sys/class/block/{self.name}/partition")

    @property
    def is_made_of_others(self) -> bool:
        return any(self.files.exists(f"/sys/class/block/{self.name}/{kind}") for kind in ("dm", "md"))

    @property
    def serial(self) -> str | None:
        return disk_serial(self.files, self.name)

    @property
    def identity(self) -> str:
        """Equal for two paths to the same disk, whether they are two links or two cables (multipath)."""
        return self.wwid or self.number

    @property
    def wwid(self) -> str | None:
        """The world-wide name; the kernel makes one from the serial number if the drive has none."""
        return disk_wwid(self.files, self.name)

    @property
    def partitions(self) -> list[str]:
        directory = f"/sys/class/block/{self.name}"
        return [name for name in self.files.names(directory) if self.files.exists(f"{directory}/{name}/partition")]

    def tree(self) -> dict[str, str]:
        """Return the disk, its partitions and all that is made of them, as names by device number."""
        found: dict[str, str] = {}
        todo = [self.name]
        while todo:
            name = todo.pop()
            number = self.files.text(f"/sys/class/block/{name}/dev")
            if number and number not in found:
                found[number] = name
                todo += self.files.names(f"/sys/class/block/{name}/holders")
                todo += self.partitions if name == self.name else []
        return found

    def __str__(self) -> str:
        return f"{self.path} ({self.name}, {size_text(self.size)})"


def path_reason(path: str) -> str | None:
    """Describe what is wrong with a disk's path, judged by its text, or None."""
    if re.search(r"[*?\[\]{}]", path):
        return "is a pattern. What a pattern matches can change, so name each disk to be wiped by its own path"
    if not path.startswith(BY_ID) or "/" in path[len(BY_ID) :] or path[len(BY_ID) :] in ("", ".", ".."):
        return f"is not a path below {BY_ID}. Kernel names such as /dev/sda change from boot to boot"
    return None


def find(path: str, files: HostFiles) -> Disk:
    """Return the disk of a path. Raises GuardError if there is none."""
    wrong = path_reason(path)
    if wrong:
        raise GuardError(f"{path} {wrong}")
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            raise GuardError(f"{path} is not a block device")
    except OSError as error:
        there = sorted(glob.glob(f"{BY_ID}*"))
        names = first_names(there, _SHOWN_DISKS)
        raise GuardError(
            f"{path} cannot be found ({error.strerror}). This host has: {names or f'nothing in {BY_ID}'}"
        ) from error
    return Disk(path, files)


def device_number(path: str) -> str | None:
    """Return major:minor of a block device, or None if the path is not one."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return number_text(status.st_rdev) if stat.S_ISBLK(status.st_mode) else None


def number_text(device: int) -> str:
    """Return the number of a device as the kernel writes it: major:minor."""
    return f"{os.major(device)}:{os.minor(device)}"
