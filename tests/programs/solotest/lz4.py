# SPDX-License-Identifier: GPL-3.0-or-later
"""LZ4 by the system's library, which every Debian has: apt needs it. zram's lz4 makes pages as small."""

from __future__ import annotations

import ctypes

PAGE = 4096
LIBRARY = "liblz4.so.1"


def compressed_sizes(data: bytes) -> list[int]:
    """Return the compressed size of each whole page of `data`, in bytes."""
    library = ctypes.CDLL(LIBRARY)
    room = ctypes.create_string_buffer(2 * PAGE)
    return [
        library.LZ4_compress_default(data[start : start + PAGE], room, PAGE, len(room))
        for start in range(0, len(data) - PAGE + 1, PAGE)
    ]
