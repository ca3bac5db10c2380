# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what the image of a virtual machine's disk stands on: a qcow2 file may be an overlay of a block device."""

from __future__ import annotations

import os
import struct

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.image_names import (
    can_hold_image,
    paths_of_image_name,
)

# docs/interop/qcow2.rst of QEMU: magic, version, offset and length of the name of the backing file; version 3 says how
# long the header is. Extensions follow it, each with type and length; one of them names the file with the data.
_MAGIC = b"QFI\xfb"
_HEADER = struct.Struct(">4sIQI")
_EXTENSION = struct.Struct(">II")
_VERSION_2_LENGTH, _LENGTH_AT = 72, 100
_EXTENSIONS_END, _DATA_FILE = 0, 0x44415441
# QEMU keeps the header and the names in the first cluster, which has at most 2 MiB; names have at most 1023 bytes.
_MOST_BYTES = 2 * 1024 * 1024
# Far more than anybody uses; ends a chain that leads back to itself.
_LONGEST_CHAIN = 200


def stands_on(files: HostFiles, path: str) -> list[str]:
    """Return the files and devices that an image stands on, also indirectly; none if it is not a qcow2 file."""
    found: list[str] = []
    todo = [path]
    while todo and len(found) < _LONGEST_CHAIN:
        below = [name for name in _names_in(files, todo.pop(0)) if name not in found]
        found += below
        todo += below
    return found


def _names_in(files: HostFiles, path: str) -> list[str]:
    """Return the files and devices that the header of an image names."""
    data = _first_bytes(files.path(path))
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        return []
    _magic, version, offset, length = _HEADER.unpack_from(data)
    names = [data[offset : offset + length]] if offset else []
    at = _VERSION_2_LENGTH
    if version > 2 and len(data) >= _LENGTH_AT + 4:
        (at,) = struct.unpack_from(">I", data, _LENGTH_AT)
    while at + _EXTENSION.size <= len(data):
        kind, length = _EXTENSION.unpack_from(data, at)
        if kind == _EXTENSIONS_END:
            break
        if kind == _DATA_FILE:
            names.append(data[at + _EXTENSION.size : at + _EXTENSION.size + length])
        at += _EXTENSION.size + (length + 7) // 8 * 8
    directory = os.path.dirname(path)
    return [os.path.join(directory, found) for name in names for found in paths_of_image_name(os.fsdecode(name))]


def _first_bytes(path: str) -> bytes:
    """Return the beginning of an image: a regular file, or a block device."""
    try:
        if not can_hold_image(os.stat(path)):
            return b""
        # Another file may have its name now, even a pipe that nobody writes to.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""  # it does not exist, so no machine can start with it
    try:
        if not can_hold_image(os.fstat(descriptor)):
            return b""
        start = os.pread(descriptor, _HEADER.size, 0)
        return os.pread(descriptor, _MOST_BYTES, 0) if start[:4] == _MAGIC else b""
    finally:
        os.close(descriptor)
