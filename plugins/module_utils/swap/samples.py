# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bytes of a disk are read to find data that has no signature.

The first and the last 4 MiB are read completely: all known formats have their marks there, and if a partition table was
lost, its first partition still begins at 1 MiB. The middle between them is read completely up to 256 MiB.
In a larger middle, 2,048 blocks of 16 KiB are read (32 MiB on any drive: 0.2 s at 0.1 ms for each read), one in each
of 2,048 equal stripes. So data that lies together and fills a thousandth of the disk, two stripes, is always found.
Scattered data that fills the share f of the disk is missed with the probability (1 - f) ** 2048: 13 % for a thousandth,
1e-9 for a hundredth.

The place of the block within its stripe differs from stripe to stripe. Blocks at equal distances could all meet the
same part of every block group of a file system, or of every stripe of a RAID. It depends on the size of the disk only:
the same content always has the same fingerprint.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.swap.device import GuardError

MIB = 1024 * 1024
EDGE_BYTES = 4 * MIB
COMPLETE_BYTES = 256 * MIB
BLOCKS = 2048
BLOCK_BYTES = 16 * 1024
# Multiples of the golden ratio modulo 1 spread evenly, however many there are; here as a share of 2 ** 32.
_GOLDEN = 0x9E3779B9


class Place(t.NamedTuple):
    """A range of bytes on a disk."""

    offset: int
    length: int


def start(size: int) -> Place:
    """Return the first 4 MiB of a disk with C(size) bytes."""
    return Place(0, min(EDGE_BYTES, size))


def end(size: int) -> Place:
    """Return the last 4 MiB of a disk; on a small disk they overlap the first ones."""
    return Place(max(0, size - EDGE_BYTES), min(EDGE_BYTES, size))


def middle(size: int) -> t.Iterator[Place]:
    """Return the places between the first and the last 4 MiB that are read, in ascending order."""
    last = size - EDGE_BYTES
    length = last - EDGE_BYTES
    if length <= COMPLETE_BYTES:
        for offset in range(EDGE_BYTES, last, EDGE_BYTES):
            yield Place(offset, min(EDGE_BYTES, last - offset))
        return
    stripe = length // BLOCKS
    for number in range(BLOCKS):
        inside = (stripe - BLOCK_BYTES) * (number * _GOLDEN % 2**32) >> 32
        offset = EDGE_BYTES + number * stripe + inside
        yield Place(offset - offset % BLOCK_BYTES, BLOCK_BYTES)


def places(size: int) -> t.Iterator[Place]:
    """Return every place of a disk that is read; those where data is most likely come first."""
    yield start(size)
    yield end(size)
    yield from middle(size)


def read(node: str, wanted: t.Iterable[Place]) -> t.Iterator[bytes]:
    """Return the content of each place.

    Raises:
        GuardError: a place cannot be read completely. What is not read must not count as blank.
    """
    descriptor = os.open(node, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Without this, the kernel reads much more than each block.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        for offset, length in wanted:
            try:
                data = os.pread(descriptor, length, offset)
            except OSError as error:
                raise GuardError(
                    f"{node} cannot be read: {length} bytes at {offset} ({error.strerror}). The drive may be failing"
                ) from error
            if len(data) != length:
                raise GuardError(
                    f"{node} cannot be read: only {len(data)} of {length} bytes at {offset}. The drive may be failing"
                )
            yield data
    finally:
        os.close(descriptor)


def first_data(node: str, size: int) -> Place | None:
    """Return a place of a device that holds data, or None if the device is blank.

    A place is blank if it holds only zeroes, or only ones as erased flash reads.

    Raises:
        GuardError: the device cannot be read.
    """
    for place, data in zip(places(size), read(node, places(size))):
        if data not in (bytes(len(data)), b"\xff" * len(data)):
            return place
    return None
