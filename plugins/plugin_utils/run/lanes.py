# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many numbers in one large integer, each in its lane of 32 or 64 bits: adding two integers adds all their lanes.

A sum must fit into its lane; else it would spill into the next one.
"""

from __future__ import annotations

import array
import sys


def packed(lanes: array.array) -> int:
    """Return the numbers of an array as one integer; the first number is the lowest part."""
    return int.from_bytes(little_endian(lanes), "little")


def little_endian(lanes: array.array) -> bytes:
    """Return the numbers of an array as bytes that are the same on every machine."""
    if sys.byteorder == "big":
        lanes.byteswap()
    return lanes.tobytes()


def unpacked(value: int, typecode: str) -> array.array:
    """Return the numbers of an integer as an array of this type."""
    lanes = array.array(typecode)
    bits = 8 * lanes.itemsize
    lanes.frombytes(value.to_bytes((value.bit_length() + bits - 1) // bits * lanes.itemsize, "little"))
    if sys.byteorder == "big":
        lanes.byteswap()
    return lanes
