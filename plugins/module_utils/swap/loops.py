# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the loop devices that stand on a block device, by what the kernel says and not by any path.

The path that sysfs shows is that of the node with which the loop device was set up. That node may have been removed or
renamed since, and it may be another node than the one in /dev.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import GuardError, number_text

# linux/loop.h: the request, and struct loop_info64, which begins with the numbers of the file system that holds the
# backing file, of the file itself, and of the device if the file is a node.
_LOOP_GET_STATUS64 = 0x4C05
_LOOP_INFO64 = struct.Struct("=QQQ208x")


def loops_on(files: HostFiles, numbers: set[str]) -> list[str]:
    """Return the loop devices whose backing device has one of these numbers (major:minor).

    Raises:
        GuardError: a loop device cannot be asked.
    """
    bound = [name for name in files.names("/sys/block") if files.exists(f"/sys/block/{name}/loop")]
    return [name for name in bound if _backing_device(name, files.text(f"/sys/block/{name}/dev")) in numbers]


def _backing_device(name: str, number: str | None) -> str | None:
    """Return the number of the device below a loop device, or None if it stands on a file."""
    path = f"/dev/{name}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise GuardError(f"{path} cannot be asked which device it stands on: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISBLK(status.st_mode) or number_text(status.st_rdev) != number:
            raise GuardError(
                f"{path} is not the node of {name} ({number}), so nothing tells which device that stands on"
            )
        answer = fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, bytes(_LOOP_INFO64.size))
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None  # it has been detached
        raise GuardError(f"{path} cannot be asked which device it stands on: {error.strerror}") from error
    finally:
        os.close(descriptor)
    _file_system, _inode, device = _LOOP_INFO64.unpack(answer)
    return number_text(device) if device else None
