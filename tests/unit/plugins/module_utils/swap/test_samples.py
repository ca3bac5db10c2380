# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bytes of a disk are read, and that no data of some size can be between them."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.swap.device import GuardError
from ansible_collections.memstretch.density.plugins.module_utils.swap.samples import (
    BLOCK_BYTES,
    BLOCKS,
    COMPLETE_BYTES,
    EDGE_BYTES,
    MIB,
    first_data,
    middle,
    places,
)

# A size that is not a power of two, a power of two, and one that ends with half a block.
LARGE = [375 * 10**9, 2**40, COMPLETE_BYTES + 2 * EDGE_BYTES + MIB + 512]


@pytest.fixture
def make_disk(tmp_path):
    """A function that makes a file of some size with data at an offset, from the end if that is negative."""

    def make(size, offset=None, data=b"x"):
        path = tmp_path / "disk"
        with open(path, "wb") as file:
            file.truncate(size)
            if offset is not None:
                file.seek(offset if offset >= 0 else size + offset)
                file.write(data)
        return str(path)

    return make


@pytest.mark.parametrize("offset", [0, EDGE_BYTES - 1, EDGE_BYTES, 8 * MIB + 7, 64 * MIB, -EDGE_BYTES - 1, -1])
@pytest.mark.parametrize("size", [128 * MIB, 128 * MIB + 512, COMPLETE_BYTES + 2 * EDGE_BYTES])
def test_one_byte_anywhere_on_a_small_disk_is_found(make_disk, size, offset):
    place = first_data(make_disk(size, offset), size)
    assert place.offset <= offset % size < place.offset + place.length


@pytest.mark.parametrize("size", [1, 512, MIB, 2 * EDGE_BYTES - 1, 2 * EDGE_BYTES, 2 * EDGE_BYTES + 1])
def test_a_disk_smaller_than_its_ends_is_read_completely(make_disk, size):
    assert first_data(make_disk(size), size) is None
    assert first_data(make_disk(size, size // 2), size)
    assert first_data(make_disk(size, -1), size)


def test_erased_flash_is_blank(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(b"\xff" * (2 * EDGE_BYTES))
    assert first_data(str(path), 2 * EDGE_BYTES) is None


@pytest.mark.parametrize("size", LARGE)
def test_two_stripes_of_data_cannot_be_between_the_blocks(size):
    found = list(middle(size))
    assert len(found) == BLOCKS
    assert all(place.offset % BLOCK_BYTES == 0 and place.length == BLOCK_BYTES for place in found)
    assert found[0].offset >= EDGE_BYTES and found[-1].offset + BLOCK_BYTES <= size - EDGE_BYTES
    ends = [EDGE_BYTES, *(place.offset + place.length for place in found)]
    starts = [*(place.offset for place in found), size - EDGE_BYTES]
    assert all(begin - end >= 0 for begin, end in zip(starts, ends))
    assert max(begin - end for begin, end in zip(starts, ends)) < size / 1000


@pytest.mark.parametrize("size", LARGE[:2])
@pytest.mark.parametrize("period", [128 * MIB, 2 * MIB])
def test_the_blocks_do_not_meet_the_same_part_of_each_block_group(size, period):
    tenths = {place.offset % period * 10 // period for place in middle(size)}
    assert tenths == set(range(10))


@pytest.mark.parametrize("offset", [10**9, 3 * 10**9 + 12345, -(10**9)])
def test_a_thousandth_of_a_large_disk_is_found_wherever_it_is(make_disk, offset):
    size = 8 * 10**9
    assert first_data(make_disk(size), size) is None
    assert first_data(make_disk(size, offset, os.urandom(size // 1000)), size)


def test_the_same_size_gives_the_same_places():
    assert list(places(10**12)) == list(places(10**12))


@pytest.mark.parametrize("missing", [1, EDGE_BYTES, 10 * MIB])
def test_a_disk_that_ends_early_is_not_blank(make_disk, missing):
    path = make_disk(64 * MIB - missing)
    with pytest.raises(GuardError, match=r"cannot be read: only \d+ of 4194304 bytes at \d+"):
        first_data(path, 64 * MIB)


def test_a_read_error_is_not_blank(tmp_path):
    # Nothing is mapped at the start of a process' memory, so its first page reads as EIO.
    with pytest.raises(GuardError, match=r"/proc/self/mem cannot be read: 4194304 bytes at 0 \(Input/output error\)"):
        first_data("/proc/self/mem", 64 * MIB)
