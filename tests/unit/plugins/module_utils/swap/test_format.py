# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headers of swap areas and partition tables, compared with those of util-linux."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.swap.format import (
    FormatError,
    header,
    make_file,
    table,
    write_area,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import read_header
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command

MIB = 1024 * 1024
IDENTIFIER = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


@pytest.mark.parametrize("size", [1 * MIB, 100 * MIB + 512, 3 * MIB + 4096])
def test_the_header_is_the_one_that_mkswap_writes(tmp_path, size):
    mkswap = shutil.which("mkswap", path="/usr/sbin:/sbin:/usr/bin:/bin")
    assert mkswap, "mkswap is missing"
    path = tmp_path / "area"
    with open(path, "wb") as file:
        file.truncate(size)
    subprocess.run(
        [mkswap, "--label", "memstretch", "--uuid", str(IDENTIFIER), str(path)], check=True, capture_output=True
    )
    expected = path.read_bytes()
    written = header(size, IDENTIFIER)
    assert expected[: len(written)] == written
    assert read_header(str(path)) == (IDENTIFIER.hex, "memstretch")


def test_size_below_the_minimum_is_refused():
    with pytest.raises(FormatError, match="too small for a swap area; the minimum is"):
        header(4096 * 9, IDENTIFIER)


def test_foreign_label_is_read(tmp_path):
    path = tmp_path / "area"
    path.write_bytes(header(MIB, IDENTIFIER, "other"))
    assert read_header(str(path)) == (IDENTIFIER.hex, "other")


@pytest.mark.parametrize(
    ("size", "count", "each"), [(100 * MIB, 1, 98), (100 * MIB, 3, 32), (3 * MIB, 1, 1), (10**9, 7, 135)]
)
def test_partitions_are_equal_and_fit(tmp_path, size, count, each):
    sfdisk = shutil.which("sfdisk", path="/usr/sbin:/sbin:/usr/bin:/bin")
    assert sfdisk, "sfdisk is missing"
    text = table(size, False, [uuid.UUID(int=number) for number in range(1, count + 1)])
    assert re.findall(r"size=(\d+)MiB", text) == [str(each)] * count
    path = tmp_path / "disk"
    with open(path, "wb") as file:
        file.truncate(size // 512 * 512)
    subprocess.run(
        [sfdisk, "--quiet", "--no-tell-kernel", str(path)], input=text, text=True, check=True, capture_output=True
    )


def test_partitions_that_do_not_fit_are_refused():
    with pytest.raises(FormatError, match="10 MiB cannot be divided into 9 partitions"):
        table(10 * MIB, False, [IDENTIFIER] * 9)


def test_an_encrypted_disk_has_one_partition_with_our_mark():
    line = f'size=98MiB, type=L, name="memstretch-crypt", uuid={IDENTIFIER}\n'
    assert table(100 * MIB, True, [IDENTIFIER]) == "label: gpt\n" + line


class Tools:
    """Runs programs as the guard does."""

    run_command = staticmethod(run_command)


def test_a_file_in_a_directory_that_btrfs_compresses_is_not_compressed(needs_root, tmp_path):
    """As in geerlingguy/ansible-role-swap#28. Btrfs has no swap in a file that it compresses, or may move."""
    image, mounted = tmp_path / "image", tmp_path / "mounted"
    with open(image, "wb") as file:
        file.truncate(256 * MIB)
    mounted.mkdir()
    for command in (["mkfs.btrfs", "-q", str(image)], ["mount", "-o", "loop,compress=zstd", str(image), str(mounted)]):
        subprocess.run(command, check=True, capture_output=True)
    try:
        directory = mounted / "compressed"
        directory.mkdir()
        subprocess.run(["btrfs", "property", "set", directory, "compression", "zstd"], check=True)
        make_file(Tools, str(directory / "swap"), 16 * MIB, "btrfs", IDENTIFIER)
        shown = subprocess.run(["lsattr", directory / "swap"], check=True, capture_output=True, text=True).stdout
        assert shown.split()[0].strip("-") == "C"
    finally:
        subprocess.run(["umount", mounted], check=True)


def fail(*_arguments):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("call", "fault", "message"),
    [
        ("pwrite", lambda *_arguments: 512, "only 512 of [0-9]+ bytes at 0 could be written"),
        ("pwrite", fail, "cannot be written at 0 .Input/output error.. The drive may be failing"),
        ("fsync", fail, "has not stored what was written .Input/output error.. The drive may be failing"),
    ],
)
def test_an_area_that_could_not_be_written_names_its_device(tmp_path, monkeypatch, call, fault, message):
    area, path = tmp_path / "area", tmp_path / "file"
    area.write_bytes(bytes(MIB))
    monkeypatch.setattr(os, call, fault)
    with pytest.raises(FormatError, match=f"^{area}:? {message}"):
        write_area(str(area))
    with pytest.raises(FormatError, match=f"^{path}:? {message}"):
        make_file(None, str(path), MIB, "ext4", IDENTIFIER)
    assert [each.name for each in tmp_path.iterdir()] == ["area"]
