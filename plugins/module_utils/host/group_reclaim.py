# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Background reclaim for a control group with a memory limit: what kswapd does for a host.

On a host whose memory runs out, kswapd keeps some pages free, so that a process that needs one finds it. Nothing does
that for a control group. A process that needs a page while its group is at the limit first moves others to swap itself,
in version 1 a batch of 32, and waits for that. Its latency would be that of the budget's mechanism, not of the memory.

This thread keeps the group a little below its limit: it looks at the free room every few milliseconds, less often if
there is plenty, and lets the kernel reclaim in this process.

On a host with many CPUs, kswapd keeps no VM from running. Here a few CPUs may have to do for all. So the thread has the
policy SCHED_IDLE: a Redis or a client that wakes up takes its CPU at once and does not wait for the end of its slice.
While the thread falls behind, it is scheduled like any other, so that the fleet need not reclaim by itself. Where
others keep all CPUs busy, a thread that gives way runs so rarely that it is behind before it can see that. So once it
has been called late, it does not give way for a while, each time for longer.

Linux compares policies within a session only, since it shares the CPUs between sessions first (autogroup). So the
servers of a ramp are in the session of this thread. Where it has a session without them, that gets a smaller share.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CgroupFiles

# Reclaim if less than LOW is free below the limit, until HIGH is free. Both are small compared with the 2 % of
# the budget that the charged DRAM may be off by, and LOW is more than is paged in between two looks.
LOW, HIGH = 512 * 1024, 1024 * 1024
# Seconds between two looks: so many that a fleet which takes memory this many times as fast as of late still finds
# some. Each look costs CPU time that the fleet would have on a real host.
_SHORTEST_S, _LONGEST_S = 0.002, 0.05
_FASTER = 3
# Bytes a second that a fleet takes: at least, since it may begin to, and as long as it is not known.
_SLOWEST, _FASTEST = 5e6, 250e6
# A thread that was called so many seconds late does not give way for so long, the first time and at most.
_LATE_S, _FIRST_HURRY_S, _LONGEST_HURRY_S = 0.05, 10.0, 320.0
# Seconds to wait after the kernel could not reclaim, for example because swap is full.
_REFUSED_S = 0.1
# The share of a session as a nice value (sched(7), the autogroup feature). The smaller one is a tenth of a CPU beside
# another session that is busy: enough for reclaim and for the recorder's samples, which are late with less.
_SESSION_SHARE = "/proc/self/autogroup"
_SMALLER_SHARE, _USUAL_SHARE = b"10", b"0"


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
        cpu_s: the CPU time that this thread has taken so far, most of it in the kernel, which writes pages out.
        room: what it keeps free.
        gives_way: whether it lets everybody else have the CPUs first, unless it falls behind or is called too late.
    """

    def __init__(self, group: CgroupFiles, own_session: bool = False) -> None:
        super().__init__(daemon=True)
        self._own_session = own_session
        self.cpu_s = 0.0
        self.room = Room(LOW, HIGH)
        self.gives_way = True
        self._group, self._stopped = group, threading.Event()
        self._behind = self._is_giving_way = False
        self._hurries_until, self._hurry_s = 0.0, _FIRST_HURRY_S
        self._used: int | None = None
        self._looked, self._taken = time.monotonic(), _FASTEST / _FASTER

    def run(self) -> None:
        """Reclaim until stop() is called."""
        while True:
            due = time.monotonic() + self.step()
            self.cpu_s = time.thread_time()
            self._is_giving_way = self.gives_way and not self._behind and time.monotonic() >= self._hurries_until
            _give_way(self._is_giving_way, self._own_session)
            if self._stopped.wait(due - time.monotonic()):
                return
            self._called(time.monotonic() - due)

    def _called(self, late: float) -> None:
        """Take how many seconds late this thread was called."""
        if self._is_giving_way and late > _LATE_S:
            self._hurries_until = time.monotonic() + self._hurry_s
            self._hurry_s = min(_LONGEST_HURRY_S, 2 * self._hurry_s)

    def step(self) -> float:
        """Reclaim if there is too little room, and return the seconds until the next look."""
        with self._group.locked():
            limit = self._group.limit()
            if limit is None:
                return _LONGEST_S
            used, room = self._group.usage(), self.room
            self._learn(used)
            free = limit - used
            self._behind = free < room.low // 2
            if free < room.low:
                if not self._group.reclaim(limit, room.high):
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

    def hurry(self) -> None:
        """Do not give way any more, from now on.

        The thread itself would see that only when it runs. On busy CPUs that may take seconds, in which it may hold the
        lock of the interpreter, for which this process' other threads wait.
        """
        self.gives_way = False
        if self.native_id is not None and self.is_alive():
            with contextlib.suppress(PermissionError, ProcessLookupError):
                os.sched_setscheduler(self.native_id, os.SCHED_OTHER, os.sched_param(0))

    def stop(self) -> None:
        """End the thread."""
        self.hurry()
        self._stopped.set()
        self.join()


def _give_way(willing: bool, with_session: bool) -> None:
    """Let this thread run only while nothing else wants its CPU, or as any other thread.

    Args:
        with_session: whether its session gets a smaller share of the CPUs while nothing hurries this thread.
    """
    policy = os.SCHED_IDLE if willing else os.SCHED_OTHER
    if os.sched_getscheduler(0) == policy:
        return
    with contextlib.suppress(PermissionError):  # leaving SCHED_IDLE needs CAP_SYS_NICE
        os.sched_setscheduler(0, policy, os.sched_param(0))
    if with_session:
        # Sessions have no shares here, or the kernel takes no change so soon after the last one.
        with contextlib.suppress(FileNotFoundError, PermissionError, BlockingIOError):
            share = os.open(_SESSION_SHARE, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(share, _SMALLER_SHARE if willing else _USUAL_SHARE)
            finally:
                os.close(share)
