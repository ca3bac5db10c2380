# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the module C(swap_space): their defaults, and the checks that do not need the host's disks."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.record import DIRECTORY
from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    Ranges,
    SettingError,
    check_numbers,
    number,
    size_in_bytes,
)

# The module's defaults, which are also those of the role swap_space and of the section swap of a profile.
DEFAULTS: dict[str, t.Any] = {
    "state": "present",
    "kind": "none",
    "devices": [],
    "overwrite": [],
    "partitions": 0,
    "priority": 10,
    "discard": "once",
    "encrypted": False,
    "file": f"{DIRECTORY}/memstretch.swap",
    "file_size": "",
    "zram_size": "50%",
    # The fastest to decompress first: a page fault waits for that.
    "zram_algorithm": ["lz4", "lzo-rle", "zstd"],
    "zram_devices": 1,
    "zram_first": False,
    "others": "keep",
    "reserve": "512M",
    "min_size": "1G",
    "persistence": "auto",
}
# The options that a profile may set. The disks or the file are set in the inventory.
PROFILE_OPTIONS = (
    "kind",
    "others",
    "priority",
    "discard",
    "partitions",
    "encrypted",
    "zram_size",
    "zram_algorithm",
    "zram_devices",
    "zram_first",
)
RANGES: Ranges = {
    "priority": Range(int, 0, 32767, "priority"),
    "partitions": Range(int, 0, 128, "partitions of each disk; 0 is the whole disk"),
    "zram_devices": Range(int, 1, 64, "devices"),
}
_ONE_MORE_FOR_ZRAM = "with zram_first, which needs one more for zram"
_DEVICE_KEYS = {"path", "serial", "size"}
_OVERWRITE_KEYS = {"path", "content"}


class WantedDisk(t.NamedTuple):
    """A disk as the user names it, with the serial number and the size in bytes that it must have, if given."""

    path: str
    serial: str | None = None
    size: int | None = None


class MayLose(t.NamedTuple):
    """A disk whose content may be lost, if that content has this fingerprint; without a fingerprint, none may."""

    path: str
    content: str | None = None


class Options(t.NamedTuple):
    """The options with all sizes in bytes."""

    kind: str
    devices: list[WantedDisk]
    overwrite: list[MayLose]
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
    zram_first: bool
    others: str
    reserve: int
    min_size: int
    tools: dict[str, str | None]

    def tool(self, name: str) -> str:
        """Return the path of a program, or its name if it is missing, which only check mode allows."""
        return self.tools.get(name) or name


def read(params: dict[str, t.Any], memory: int, tools: dict[str, str | None]) -> Options:
    """Return the options from a module's parameters. Raises SettingError for a value that is not allowed.

    Args:
        memory: the host's memory in bytes, for a C(zram_size) that is a share of it.
        tools: paths of programs by name, None for those that are missing.
    """
    kind, file = params["kind"], params["file"] or ""
    check_numbers(params, RANGES)
    if kind == "devices" and not params["devices"]:
        raise SettingError(
            "devices: the list is empty; kind=devices needs at least one path below /dev/disk/by-id. Name an empty "
            "drive, or take kind=file, which needs none (host_tuning_swap: {kind: file}, with swap_space_file_size)"
        )
    if params["encrypted"]:
        _check_encrypted(kind, params["partitions"], tools)
    if kind == "file" and (not os.path.isabs(file) or os.path.normpath(file) != file or re.search(r"\s", file)):
        raise SettingError(f"file: {file!r} must be an absolute path without . and .. and white space")
    if params["zram_first"]:
        _check_zram_first(kind, params["priority"])
    uses_zram = kind == "zram" or params["zram_first"]
    if uses_zram and not (
        params["zram_algorithm"] and all(re.match(r"^[a-z0-9-]+$", name) for name in params["zram_algorithm"])
    ):
        raise SettingError(f"zram_algorithm: {params['zram_algorithm']} must be a list of names such as lz4, zstd")
    return Options(
        kind=kind,
        devices=[_disk(entry) for entry in params["devices"]] if kind == "devices" else [],
        overwrite=[_may_lose(entry) for entry in params["overwrite"]] if kind == "devices" else [],
        partitions=params["partitions"],
        priority=params["priority"],
        discard=params["discard"],
        encrypted=params["encrypted"],
        file=file,
        file_size=_at_least_1m("file_size", params["file_size"]) // 4096 * 4096 if kind == "file" else 0,
        zram_size=_at_least_1m("zram_size", params["zram_size"], memory) if uses_zram else 0,
        zram_is_share="%" in str(params["zram_size"]),
        zram_algorithm=list(params["zram_algorithm"]),
        zram_devices=params["zram_devices"],
        zram_first=params["zram_first"],
        others=params["others"],
        reserve=size_in_bytes("reserve", params["reserve"]),
        min_size=size_in_bytes("min_size", params["min_size"]),
        tools=tools,
    )


def _check_zram_first(kind: str, priority: int) -> None:
    if kind not in ("devices", "file"):
        raise SettingError(
            f"zram_first: kind={kind} has nothing that could follow zram; it needs kind=devices or kind=file. Swap on "
            "zram alone is kind=zram"
        )
    allowed = RANGES["priority"]
    number("priority", priority, dataclasses.replace(allowed, high=allowed.high - 1, unit=_ONE_MORE_FOR_ZRAM))


def _check_encrypted(kind: str, partitions: int, tools: dict[str, str | None]) -> None:
    if kind != "devices":
        raise SettingError(f"encrypted: only disks can be encrypted (kind=devices), not kind={kind}")
    if partitions > 1:
        raise SettingError(
            f"partitions is {partitions}; with encrypted it must be 0 or 1, because encrypted swap has one on each disk"
        )
    if not tools.get("cryptsetup"):
        raise SettingError("encrypted: the program cryptsetup is missing on this host; the role swap_space installs it")


def _at_least_1m(option: str, value: t.Any, total: int | None = None) -> int:
    if value in (None, ""):
        raise SettingError(f"{option}: a size is required, in bytes or with K, M, G or T")
    size = size_in_bytes(option, value, total)
    if size < 2**20:
        raise SettingError(f"{option}: {value} is out of range; the minimum is 1M")
    return size


def _disk(entry: t.Any) -> WantedDisk:
    if isinstance(entry, str):
        return WantedDisk(entry)
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str) or set(entry) - _DEVICE_KEYS:
        raise SettingError(
            f"devices: {entry!r} is neither a path nor a dictionary with path and, optionally, serial and size"
        )
    size = entry.get("size")
    return WantedDisk(
        entry["path"],
        None if entry.get("serial") is None else str(entry["serial"]),
        None if size is None else size_in_bytes("devices", size),
    )


def _may_lose(entry: t.Any) -> MayLose:
    if isinstance(entry, str):
        return MayLose(entry)
    if (
        not isinstance(entry, dict)
        or set(entry) != _OVERWRITE_KEYS
        or not all(isinstance(value, str) for value in entry.values())
    ):
        raise SettingError(f"overwrite: {entry!r} must be a dictionary with path and content, which a refusal shows")
    return MayLose(entry["path"], entry["content"])
