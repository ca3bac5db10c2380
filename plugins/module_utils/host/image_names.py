# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of this host the images of VMs' disks name, as QEMU reads it."""

from __future__ import annotations

import json
import os
import re
import stat
import typing as t

_JSON = "json:"
# With these, the rest of the name is a path of this host; with other protocols it is on another machine.
_LOCAL = re.compile(r"(file|host_device|raw|qcow2):(//(?=/))?")
_PROTOCOL = re.compile(r"[a-z0-9+_-]+:")
_FILE_NAME = re.compile(r'"(?:[^"]*\.)?filename"\s*:\s*"([^"]+)"')


def paths_of_image_name(name: str) -> list[str]:
    """Return the paths on this host that the name of a backing file stands for; relative ones as they are.

    Args:
        name: a path, an address with a protocol, or C(json:) with options.
    """
    if name.startswith(_JSON):
        return [path for found in _file_names(name[len(_JSON) :]) for path in paths_of_image_name(found)]
    local = _LOCAL.match(name)
    if local:
        return [name[local.end() :]]
    return [] if _PROTOCOL.match(name) else [name]


def _file_names(text: str) -> list[str]:
    try:
        return list(_values_of_file_names(json.loads(text)))
    except (ValueError, RecursionError):
        return _FILE_NAME.findall(text)  # QEMU may read what Python's parser refuses


def _values_of_file_names(options: t.Any) -> t.Iterator[str]:
    if isinstance(options, list):
        for each in options:
            yield from _values_of_file_names(each)
    elif isinstance(options, dict):
        for key, value in options.items():
            if isinstance(value, str) and key.split(".")[-1] == "filename":
                yield value
            yield from _values_of_file_names(value)


def can_hold_image(status: os.stat_result) -> bool:
    """Decide whether something can be an image: a file or a block device."""
    return stat.S_ISREG(status.st_mode) or stat.S_ISBLK(status.st_mode)
