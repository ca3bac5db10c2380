# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the module C(swap_space), checked as far as that is possible without looking at the host's disks."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, size_in_bytes

# The kernel's range (swapon(2)); 0 is what the 2018 recipe takes.
PRIORITIES = (0, 32767)
PARTITIONS = (0, 128)
ZRAM_DEVICES = (1, 64)
DISCARDS = ("none", "once", "pages", "both")
KINDS = ("none", "devices", "file", "zram")
_DEVICE_KEYS = {"path", "serial", "size"}


class WantedDisk(t.NamedTuple):
    """A disk as the user names it, and what it must be to be the right one."""

    path: str
    serial: str | None = None
    size: int | None = None


class Options(t.NamedTuple):
    """The options as numbers of bytes, paths and names."""

    kind: str
    devices: list[WantedDisk]
    overwrite: list[str]
    partitions: int
    priority: int
    discard: str
    encrypted: bool
    file: str
    file_size: int
    zram_size: int
    zram_is_share: bool
    zram_algorithm: list[str]
    zram_devices: int
    others: str
    reserve: int
    min_size: int
    tools: dict[str, str | None]


def read(params: dict[str, t.Any], memory: int, tools: dict[str, str | None]) -> Options:
    """Return the options of a module's parameters.

    Args:
        memory: the host's memory in bytes, which C(zram_size) may be a share of.
        tools: paths of programs by name, None for those that are missing.
    """
    kind = params["kind"]
    for option, (low, high) in (("priority", PRIORITIES), ("partitions", PARTITIONS), ("zram_devices", ZRAM_DEVICES)):
        if not low <= params[option] <= high:
            raise SettingError(f"{option}: {params[option]} is out of range; allowed is {low} to {high}")
    if kind == "devices" and not params["devices"]:
        raise SettingError("devices: the list is empty; kind=devices needs at least one path below /dev/disk/by-id")
    if params["encrypted"] and kind != "devices":
        raise SettingError(f"encrypted: only disks can be encrypted (kind=devices), not kind={kind}")
    if params["encrypted"] and params["partitions"] > 1:
        raise SettingError(
            f"partitions: {params['partitions']} encrypted partitions are not supported; encrypted uses one for each disk"
        )
    if params["encrypted"] and not tools.get("cryptsetup"):
        raise SettingError("encrypted: the program cryptsetup is missing on this host; the role swap_space installs it")
    file, file_size = params["file"] or "", 0
    if kind == "file":
        if not os.path.isabs(file) or os.path.normpath(file) != file or re.search(r"\s", file):
            raise SettingError(f"file: {file!r} is no absolute path without . and .. and white space")
        file_size = _positive("file_size", params["file_size"]) // 4096 * 4096
    share = "%" in str(params["zram_size"])
    zram_size = 0
    if kind == "zram":
        zram_size = _positive("zram_size", params["zram_size"], memory)
        if not params["zram_algorithm"] or any(
            not re.match(r"^[a-z0-9-]+$", name) for name in params["zram_algorithm"]
        ):
            raise SettingError(
                f"zram_algorithm: {params['zram_algorithm']} is no list of names such as zstd, lz4, lzo-rle"
            )
    return Options(
        kind=kind,
        devices=[_disk(entry) for entry in params["devices"]] if kind == "devices" else [],
        overwrite=list(params["overwrite"]) if kind == "devices" else [],
        partitions=params["partitions"],
        priority=params["priority"],
        discard=params["discard"],
        encrypted=params["encrypted"],
        file=file,
        file_size=file_size,
        zram_size=zram_size,
        zram_is_share=share,
        zram_algorithm=list(params["zram_algorithm"]),
        zram_devices=params["zram_devices"],
        others=params["others"],
        reserve=size_in_bytes("reserve", params["reserve"]),
        min_size=size_in_bytes("min_size", params["min_size"]),
        tools=tools,
    )


def _positive(option: str, value: t.Any, total: int | None = None) -> int:
    if value in (None, ""):
        raise SettingError(f"{option}: a size is needed, in bytes or with K, M, G or T")
    size = size_in_bytes(option, value, total)
    if size < 2**20:
        raise SettingError(f"{option}: {value} is out of range; the least is 1M")
    return size


def _disk(entry: t.Any) -> WantedDisk:
    if isinstance(entry, str):
        return WantedDisk(entry)
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str) or set(entry) - _DEVICE_KEYS:
        raise SettingError(
            f"devices: {entry!r} is neither a path nor a dictionary of path and, if you like, serial and size"
        )
    size = entry.get("size")
    return WantedDisk(
        entry["path"],
        None if entry.get("serial") is None else str(entry["serial"]),
        None if size is None else size_in_bytes("devices", size),
    )
