# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory that the records of a Redis take."""

from __future__ import annotations

# On top of its value, a record has a table entry (24 bytes), an object (16), a key (16) and its share of the table's
# slots.
INDEX_BYTES = 56
SLOT_BYTES = 8
# What the kernel and the services of a small guest need in addition to Redis.
GUEST_SYSTEM_BYTES = 128 * 2**20
# jemalloc's size classes: four per power of two, at least this many bytes apart (http://jemalloc.net/jemalloc.3.html).
_QUANTUM = 16
# Redis' string header and final zero (its sds.h): 4 bytes, for strings of 64 KiB and more 10 bytes.
_STRING_BYTES, _LONG_STRING_BYTES = 4, 10


def size_class(size: int) -> int:
    """Return the bytes that jemalloc allocates for this size."""
    step = max(_QUANTUM, 2 ** max(0, (max(size, 1) - 1).bit_length() - 3))
    return -(-size // step) * step


def value_bytes(value_size: int) -> int:
    """Return the bytes of memory of a value of this size in Redis."""
    return size_class(value_size + (_STRING_BYTES if value_size < 2**16 else _LONG_STRING_BYTES))


def data_bytes(keys: int, value_size: int) -> int:
    """Return the bytes of memory of these records in Redis, without Redis itself."""
    slots = 2 ** max(2, (keys - 1).bit_length())  # of its hash table: the next power of two
    return keys * (value_bytes(value_size) + INDEX_BYTES) + slots * SLOT_BYTES
