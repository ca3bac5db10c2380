# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the image of a disk stands on."""

from __future__ import annotations

import os
import struct

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.images import stands_on


def image(path, backing=b"", data_file=b"", version=3):
    """Write the header of a qcow2 file, as docs/interop/qcow2.rst of QEMU describes it."""
    length = 104 if version > 2 else 72
    extensions = struct.pack(">II", 0xE2792ACA, 5) + b"qcow2\0\0\0"
    if data_file:
        extensions += struct.pack(">II", 0x44415441, len(data_file)) + data_file.ljust((len(data_file) + 7) // 8 * 8)
    extensions += bytes(8)
    header = struct.pack(">4sIQI", b"QFI\xfb", version, length + len(extensions) if backing else 0, len(backing))
    header = header.ljust(100, b"\0") + struct.pack(">I", length)
    path.write_bytes(header[:length] + extensions + backing)
    return str(path)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("name", "found"),
    [
        (b"/dev/sdb", ["/dev/sdb"]),
        (b"host_device:/dev/sdb", ["/dev/sdb"]),
        (b'json:{"driver": "raw", "file": {"driver": "host_device", "filename": "/dev/sdb"}}', ["/dev/sdb"]),
        (b'json:{"driver": "raw", "file.driver": "host_device", "file.filename": "/dev/sdb"}', ["/dev/sdb"]),
        (b"nbd://backup/disk", []),
        (b"", []),
    ],
)
def test_the_backing_file_of_an_image(tmp_path, version, name, found):
    assert stands_on(HostFiles(), image(tmp_path / "a.qcow2", name, version=version)) == found


def test_a_chain_is_followed_to_its_end_also_by_relative_names(tmp_path):
    (tmp_path / "base").mkdir()
    image(tmp_path / "base" / "b.qcow2", data_file=b"/dev/sdc")
    top = image(tmp_path / "a.qcow2", b"base/b.qcow2")
    assert stands_on(HostFiles(), top) == [str(tmp_path / "base/b.qcow2"), "/dev/sdc"]


def test_a_chain_that_leads_back_to_itself_ends(tmp_path):
    top = image(tmp_path / "a.qcow2", b"b.qcow2")
    image(tmp_path / "b.qcow2", b"a.qcow2")
    assert stands_on(HostFiles(), top) == [str(tmp_path / "b.qcow2"), top]


def test_what_is_no_image_stands_on_nothing(tmp_path):
    raw = tmp_path / "raw"
    raw.write_bytes(bytes(4096))
    short = tmp_path / "short"
    short.write_bytes(b"QFI\xfb")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (raw, short, pipe, tmp_path, tmp_path / "none"):
        assert stands_on(HostFiles(), str(path)) == []
