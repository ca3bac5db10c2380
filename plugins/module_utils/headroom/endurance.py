# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How worn the drives with swap are: what an NVMe drive says itself, as nvme smart-log shows it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.disks import swap_disks
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

# linux/nvme_ioctl.h: NVME_IOCTL_ADMIN_CMD. NVM Express Base Specification, Get Log Page: SMART / Health Information,
# 512 bytes, whose byte 5 is Percentage Used; it may be above 100.
_ADMIN_COMMAND, _GET_LOG_PAGE, _SMART, _SIZE, _PERCENTAGE_USED = 0xC0484E41, 0x02, 0x02, 512, 5
_ALL_NAMESPACES = 0xFFFFFFFF


class _Command(ctypes.Structure):
    _fields_ = [
        ("opcode", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("reserved", ctypes.c_uint16),
        ("namespace", ctypes.c_uint32),
        ("words_2_3", ctypes.c_uint32 * 2),
        ("metadata", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("metadata_length", ctypes.c_uint32),
        ("data_length", ctypes.c_uint32),
        ("words_10_15", ctypes.c_uint32 * 6),
        ("timeout_ms", ctypes.c_uint32),
        ("result", ctypes.c_uint32),
    ]


def swap_drives(files: HostFiles) -> list[dict[str, t.Any]]:
    """Return C(name) of each drive with swap, and C(worn_percent) of its endurance; None if it does not say that."""
    drives = [disk for disk in swap_disks(files) if not disk.startswith("zram")]
    return [{"name": disk, "worn_percent": _worn(files.path(f"/dev/{disk}"))} for disk in drives]


def _worn(path: str) -> int | None:
    page = ctypes.create_string_buffer(_SIZE)
    command = _Command(
        opcode=_GET_LOG_PAGE,
        namespace=_ALL_NAMESPACES,
        address=ctypes.addressof(page),
        data_length=_SIZE,
        words_10_15=(ctypes.c_uint32 * 6)((_SIZE // 4 - 1) << 16 | _SMART),
        timeout_ms=1000,
    )
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # there is no such file, or a container keeps its root from the drives of the host
    try:
        refused = fcntl.ioctl(descriptor, _ADMIN_COMMAND, command)
    except OSError:
        return None  # no NVMe drive, or one that does not answer; None says so
    finally:
        os.close(descriptor)
    return None if refused else page.raw[_PERCENTAGE_USED]
