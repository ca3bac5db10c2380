# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Background reclaim for a control group with a memory limit: what kswapd does for a host.

On a host whose memory runs out, kswapd keeps some pages free, so that a process that needs one finds it. Nothing does
that for a control group. A process that needs a page while its group is at the limit first moves others to swap itself,
in version 1 a batch of 32, and waits for that. Its latency would be that of the budget's mechanism, not of the memory.

This thread keeps the group a little below its limit: it looks at the free room every few milliseconds, less often if
there is plenty, and lets the kernel reclaim in a process that gives way to the fleet. While that falls behind, it is
scheduled like any other, so that the fleet need not reclaim by itself.
"""

from __future__ import annotations

import threading
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CgroupFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.reclaim_process import ReclaimProcess

# Reclaim if less than LOW is free below the limit, until HIGH is free. Both are small compared with the 2 % of
# the budget that the charged DRAM may be off by, and LOW is more than is paged in between two looks.
LOW, HIGH = 512 * 1024, 1024 * 1024
# Seconds between two looks: so many that a fleet which takes memory this many times as fast as of late still finds
# some. Each look costs CPU time that the fleet would have on a real host.
_SHORTEST_S, _LONGEST_S = 0.002, 0.05
_FASTER = 3
# Bytes a second that a fleet takes: at least, since it may begin to, and as long as it is not known.
_SLOWEST, _FASTEST = 5e6, 250e6
# Seconds to wait after the kernel could not reclaim, for example because swap is full.
_REFUSED_S = 0.1


class Room(t.NamedTuple):
    """What is kept free: with less than C(low) bytes below the limit, the kernel reclaims until C(high) are free.

    With less than half of C(low), the fleet takes pages faster than the thread reclaims them.
    """

    low: int
    high: int


class GroupReclaim(threading.Thread):
    """Reclaims memory of a control group in the background, from start() to stop().

    Args:
        group: the control group. Without a limit nothing happens.
        own_session: whether the servers of the group are in other sessions than this process.

    Attributes:
        cpu_s: the CPU time that this thread and its process have taken so far.
        room: what it keeps free.
        gives_way: whether its process lets everybody else have the CPUs first, unless it falls behind or is late.
    """

    def __init__(self, group: CgroupFiles, own_session: bool = False) -> None:
        super().__init__(daemon=True)
        self.cpu_s = 0.0
        self.room = Room(LOW, HIGH)
        self.gives_way = True
        self._group, self._stopped = group, threading.Event()
        self._process = ReclaimProcess(own_session)
        self._used: int | None = None
        self._looked, self._taken = time.monotonic(), _FASTEST / _FASTER

    def run(self) -> None:
        """Reclaim until stop() is called."""
        try:
            while not self._stopped.wait(self.step()):
                self.cpu_s = time.thread_time() + self._process.cpu_s
        finally:
            self._process.stop()

    def step(self) -> float:
        """Reclaim if there is too little room, and return the seconds until the next look."""
        with self._group.locked():
            limit = self._group.limit()
            if limit is None:
                return _LONGEST_S
            used, room = self._group.usage(), self.room
            self._learn(used)
            free = limit - used
            if free < room.low:
                self._process.gives_way = self.gives_way and free >= room.low // 2
                if not self._group.reclaim(limit, room.high, self._process.write):
                    return _REFUSED_S
                self._used = self._group.usage()
                free = limit - self._used
        return min(_LONGEST_S, max(_SHORTEST_S, (free - room.low // 2) / (_FASTER * max(_SLOWEST, self._taken))))

    def _learn(self, used: int) -> None:
        """Take how fast the group takes memory: at once if it is faster than of late, else by and by."""
        now = time.monotonic()
        if self._used is not None:
            rate = max(0, used - self._used) / max(1e-4, now - self._looked)
            self._taken = max(rate, 0.9 * self._taken)
        self._used, self._looked = used, now

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self.join()
