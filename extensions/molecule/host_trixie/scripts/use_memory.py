# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill memory, then read a random byte of it every 20 ms, as a server does that is asked for random keys.

Arguments: the number of MiB; how many bytes of each page are random, the others are zeroes; a file to write once the
memory is filled.
"""

from __future__ import annotations

import os
import pathlib
import random
import sys
import time

PAGE = 4096


def main():
    size, random_bytes, filled = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    memory = bytearray(size * 2**20)
    for start in range(0, len(memory), PAGE):
        memory[start : start + random_bytes] = os.urandom(random_bytes)
    filled.touch()
    while True:
        time.sleep(0.02)
        random.choice(memory)


if __name__ == "__main__":
    main()
