# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes swap areas on disks and in files: the only code of this collection that writes to a disk.

A disk is opened exclusively (O_EXCL), checked again, and written before it is closed, so that no other process can
mount it, add it to a pool or swap onto it in between. mkswap opens the disk exclusively itself, so the header of the
swap area, which mkswap would write, is written here.
"""

from __future__ import annotations

import errno
import os
import struct
import time
import typing as t
import uuid
from contextlib import contextmanager
from functools import partial

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.files import sync_directory
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import Disk
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import (
    BLANK,
    CRYPT_PARTITION,
    FOREIGN,
    LABEL,
    SWAP_PARTITION,
    Guard,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.samples import end, middle, start

MIB = 1024 * 1024
# The smallest area that mkswap accepts, in pages.
MIN_PAGES = 10
# The kernel counts the pages of an area in 32 bits.
MAX_PAGES = 2**32 - 1
_PARTITIONS_APPEAR_S = 10.0
FILE_SYSTEMS = ("ext3", "ext4", "xfs", "btrfs")


class FormatError(Exception):
    """A disk or a file was left alone; the text gives the reason."""


def header(size: int, identifier: uuid.UUID, label: str = LABEL) -> bytes:
    """Return the first page of a swap area (linux/swap.h, union swap_header version 1)."""
    page = os.sysconf("SC_PAGE_SIZE")
    pages = min(size // page, MAX_PAGES)
    if pages < MIN_PAGES:
        raise FormatError(f"{size} bytes are too small for a swap area; the minimum is {MIN_PAGES * page}")
    data = bytearray(page)
    struct.pack_into("=III16s16s", data, 1024, 1, pages - 1, 0, identifier.bytes, label.encode())
    data[-10:] = b"SWAPSPACE2"
    return bytes(data)


@contextmanager
def held(guard: Guard, disk: Disk, may_lose: str | None) -> t.Iterator[int]:
    """Open a disk exclusively, check it again, and yield its descriptor for writing.

    Args:
        may_lose: the fingerprint of the content that may be lost, from C(overwrite).
    """
    try:
        descriptor = os.open(disk.node, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        raise FormatError(
            f"{disk} has come into use since it was checked ({error.strerror}); it was not touched"
        ) from error
    try:
        if Disk(disk.path, disk.files).number != disk.number:
            raise FormatError(f"{disk.path} is no longer the disk that was checked; nothing was written to it")
        content = guard.content(disk)
        if content.kind == FOREIGN and (may_lose is None or guard.fingerprint(disk) != may_lose):
            raise FormatError(
                f"{disk} has changed since it was checked, it now holds {content.text}; nothing was written to it"
            )
        yield descriptor
        _sync(str(disk), descriptor)
    finally:
        os.close(descriptor)


def erase(guard: Guard, disk: Disk, descriptor: int) -> None:
    """Make a disk blank: write zeroes wherever the guard looks for data.

    The end of the disk is written first and its start, where our mark is, last: if the erasing is interrupted, the disk
    still carries our mark and is not taken for one with unknown data.

    Args:
        descriptor: of the disk, opened by C(held).
    """
    if disk.partitions:
        run_checked(guard.run_command, ["partx", "--delete", disk.node], FormatError)
    for places in ([end(disk.size)], middle(disk.size), [start(disk.size)]):
        for offset, length in places:
            _write(str(disk), descriptor, bytes(length), offset)
        _sync(str(disk), descriptor)


def _write(what: str, descriptor: int, data: bytes, offset: int) -> None:
    """Write data to a device or a file; C(what) names it in the error."""
    try:
        written = os.pwrite(descriptor, data, offset)
    except OSError as error:
        raise FormatError(
            f"{what} cannot be written at {offset} ({error.strerror}). The drive may be failing"
        ) from error
    if written != len(data):
        raise FormatError(f"{what}: only {written} of {len(data)} bytes at {offset} could be written")


def _sync(what: str, descriptor: int) -> None:
    """Wait until what was written is on the device; only then does the kernel report most errors."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise FormatError(
            f"{what} has not stored what was written ({error.strerror}). The drive may be failing"
        ) from error


def make(
    guard: Guard, disk: Disk, may_lose: str | None, partitions: int, encrypted: bool, identifiers: list[uuid.UUID]
) -> None:
    """Turn a disk into swap space: as a whole, in equal partitions, or in one partition for an encrypted area.

    Args:
        identifiers: the UUIDs of the areas, which the host's record already lists; a partition has that of its area.
    """
    with held(guard, disk, may_lose) as descriptor:
        if guard.content(disk).kind != BLANK:
            erase(guard, disk, descriptor)
        if not partitions and not encrypted:
            _write(str(disk), descriptor, header(disk.size, identifiers[0]), 0)
            return
        run_checked(
            partial(guard.run_command, data=table(disk.size, encrypted, identifiers)),
            ["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", disk.node],
            FormatError,
        )
        for name, identifier in zip(show_partitions(guard, disk, partitions or 1), identifiers):
            _fill_partition(f"/dev/{name}", encrypted, identifier)


def table(size: int, encrypted: bool, identifiers: list[uuid.UUID]) -> str:
    """Return the partition table for sfdisk: equal parts, aligned to 1 MiB, with 1 MiB free at both ends.

    Args:
        identifiers: the UUIDs of the partitions.
    """
    count = len(identifiers)
    each = (size - 2 * MIB) // count // MIB
    if each < 1:
        raise FormatError(f"{size_text(size)} cannot be divided into {count} partitions of at least 1 MiB")
    name, kind = (CRYPT_PARTITION, "L") if encrypted else (SWAP_PARTITION, "S")
    lines = [f'size={each}MiB, type={kind}, name="{name}", uuid={identifier}\n' for identifier in identifiers]
    return "label: gpt\n" + "".join(lines)


def show_partitions(guard: Guard, disk: Disk, count: int) -> list[str]:
    """Make the kernel show the partitions that are in the table, and return their names in order.

    Some kernels never read partition tables themselves, and none reads that of a disk which is opened exclusively.
    """
    if len(disk.partitions) != count:
        run_checked(guard.run_command, ["partx", "--update", disk.node], FormatError)
    deadline = time.monotonic() + _PARTITIONS_APPEAR_S
    while not (len(disk.partitions) == count and all(os.path.exists(f"/dev/{name}") for name in disk.partitions)):
        if time.monotonic() > deadline:
            raise FormatError(
                f"{disk} has {count} partitions, but the kernel shows only: {', '.join(disk.partitions) or 'none'}"
            )
        time.sleep(0.05)
    return disk.partitions


def _fill_partition(node: str, encrypted: bool, identifier: uuid.UUID) -> None:
    # Without O_EXCL: we have already opened the whole disk exclusively.
    descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        # Old data at the ends of the partition could be taken for a signature.
        for offset, length in (start(size), end(size)):
            _write(node, descriptor, bytes(length), offset)
        if not encrypted:
            _write(node, descriptor, header(size, identifier), 0)
        _sync(node, descriptor)
    finally:
        os.close(descriptor)


def write_area(node: str) -> None:
    """Write the header of a swap area to a device whose content does not matter: zram, or an encrypted mapping."""
    descriptor = os.open(node, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        _write(node, descriptor, header(size, uuid.uuid4()), 0)
        _sync(node, descriptor)
    finally:
        os.close(descriptor)


def make_file(guard: Guard, path: str, size: int, file_system: str, identifier: uuid.UUID) -> None:
    """Make a swap file without holes; it gets its name only once it is complete.

    Args:
        identifier: the UUID of the area, which the host's record already lists.
    """
    new = new_name(path)
    if os.path.lexists(new):
        os.unlink(new)
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        if file_system == "btrfs":
            # Without copy-on-write, Btrfs never moves a block of the file. A compressed file cannot be without it, and
            # a file in a directory that Btrfs compresses is compressed.
            run_checked(guard.run_command, ["chattr", "-c", new], FormatError)
            run_checked(guard.run_command, ["chattr", "+C", new], FormatError)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                raise FormatError(
                    f"the file system of {path} ({file_system}) cannot reserve blocks, so a swap file would have holes"
                ) from error
            raise
        _write(path, descriptor, header(size, identifier), 0)
        _sync(path, descriptor)
        os.rename(new, path)
    except BaseException:
        os.unlink(new)
        raise
    finally:
        os.close(descriptor)
    sync_directory(os.path.dirname(path))


def new_name(path: str) -> str:
    """Return the name of a swap file that is not complete yet."""
    return f"{path}.memstretch-new"
