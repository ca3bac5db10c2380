# SPDX-License-Identifier: GPL-3.0-or-later
"""A process whose active memory is known: memory_load.py MIB PATTERN VALUE.

The patterns: C(hot) touches a share of its pages twice a second, C(sequential) so many pages a second one after the
other, and C(random) so many a second at random. It prints a line when its memory is filled and being touched.
"""

from __future__ import annotations

import mmap
import random
import sys
import time


def main(mib: int, pattern: str, value: float) -> None:
    with mmap.mmap(-1, mib * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        pages = len(memory) // mmap.PAGESIZE
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1
        print("ready", flush=True)
        source, touched, began = random.Random(1), 0, time.monotonic()
        while True:
            due = round((time.monotonic() - began) * value) - touched
            if pattern == "hot":
                chosen = iter(range(round(pages * value)))
            elif pattern == "sequential":
                chosen = iter(number % pages for number in range(touched, touched + due))
            else:
                chosen = iter(source.randrange(pages) for _page in range(due))
            for page in chosen:
                memory[page * mmap.PAGESIZE]
            touched += due
            time.sleep(0.5 if pattern == "hot" else 0.02)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
