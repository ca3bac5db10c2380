# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small process that reclaims: it writes to a control group's files, and the kernel works in it meanwhile.

On a host with many CPUs, kswapd keeps no VM from running. Here a few CPUs may have to do for all. So this process has
the policy SCHED_IDLE: a Redis or a client that wakes up takes its CPU at once and does not wait for the end of its
slice. Where others keep all CPUs busy, it would run so rarely that the fleet reclaims by itself. So once it has been
late, it does not give way for a while, each time for longer.

It is not a thread of its caller. A thread that gives way would still take the interpreter's lock, and on busy CPUs it
would hold it for seconds while all other threads wait.

Linux compares policies within a session only, since it shares the CPUs between sessions first (autogroup). So this
process is in the session of its caller if the servers are there, too. Otherwise it has a session of its own, with a
smaller share.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.host.files import set_kernel_file

# Each line of input is a value and the file for it. A shell takes a tenth of the memory of an interpreter of Python.
_PROGRAM = 'while read -r value path; do if echo "$value" >"$path"; then echo +; else echo -; fi; done 2>/dev/null'
_DONE = b"+\n"
# A process that needed so many seconds does not give way for so long, the first time and at most.
_LATE_S, _FIRST_HURRY_S, _LONGEST_HURRY_S = 0.05, 10.0, 320.0
# The share of a session as a nice value (sched(7), the autogroup feature).
_SESSION_SHARE = "/proc/{}/autogroup"
_SMALLER_SHARE, _USUAL_SHARE = 19, 0


class ReclaimProcess:
    """Writes to files of the kernel. The process starts with the first write, and again if something has killed it.

    Args:
        own_session: whether the servers of the group are in other sessions than the caller.

    Attributes:
        gives_way: whether it lets everybody else have the CPUs first, unless it was late a while ago.
    """

    def __init__(self, own_session: bool) -> None:
        self.gives_way = True
        self._own_session = own_session
        self._process: subprocess.Popen[bytes] | None = None
        self._is_giving_way = False
        self._hurries_until, self._hurry_s = 0.0, _FIRST_HURRY_S
        self._cpu_s = 0.0  # of processes that were killed

    @property
    def cpu_s(self) -> float:
        """The CPU time in seconds that it has taken so far, most of it in the kernel, which writes pages out."""
        return self._cpu_s + (_cpu_seconds(self._process.pid) if self._process else 0.0)

    def write(self, path: str, value: str) -> None:
        """Write a value to a file, and return when the kernel has done what that means.

        Raises:
            BudgetError: the kernel refuses it, or something has killed the process meanwhile.
        """
        process = self._running()
        self._give_way(self.gives_way and time.monotonic() >= self._hurries_until)
        requests, replies = _pipes(process)
        with contextlib.suppress(BrokenPipeError):  # it has ended: so do its replies
            requests.write(f"{value} {path}\n".encode())
        if self._is_giving_way and not select.select([replies], [], [], _LATE_S)[0]:
            self._hurries_until = time.monotonic() + self._hurry_s
            self._hurry_s = min(_LONGEST_HURRY_S, 2 * self._hurry_s)
            self._give_way(False)
        if replies.read(len(_DONE)) != _DONE:
            raise BudgetError(f"the kernel refuses {value} for {path}")

    def stop(self) -> None:
        """End the process."""
        if self._process:
            self._give_way(False)
            self._end(self._process)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process and self._has_ended(self._process):
            self._end(self._process)
        if not self._process:
            self._is_giving_way = False
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=self._own_session,
            )
        return self._process

    @staticmethod
    def _has_ended(process: subprocess.Popen[bytes]) -> bool:
        """Return whether it is a zombie; it stays one, since its CPU time is still wanted."""
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        requests, replies = _pipes(process)
        requests.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self._cpu_s += _cpu_seconds(process.pid)
        replies.close()
        process.wait()
        self._process = None

    def _give_way(self, willing: bool) -> None:
        """Let it run only while nothing else wants its CPU, or as any other process."""
        if not self._process or willing == self._is_giving_way:
            return
        self._is_giving_way = willing
        policy = os.SCHED_IDLE if willing else os.SCHED_OTHER
        with contextlib.suppress(PermissionError):  # to leave SCHED_IDLE needs CAP_SYS_NICE
            os.sched_setscheduler(self._process.pid, policy, os.sched_param(0))
        if self._own_session:
            # Sessions have no shares here, the kernel takes no change so soon after the last one, or it was killed.
            with contextlib.suppress(FileNotFoundError, PermissionError, BlockingIOError, ProcessLookupError):
                share = _SMALLER_SHARE if willing else _USUAL_SHARE
                set_kernel_file(_SESSION_SHARE.format(self._process.pid), share)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[t.IO[bytes], t.IO[bytes]]:
    """Return where requests are written to, and where replies come from."""
    return t.cast("tuple[t.IO[bytes], t.IO[bytes]]", (process.stdin, process.stdout))


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, by its clock: clock_getcpuclockid(3).

    It is wanted after each reclaim. That takes less of a CPU than the files of cpu_time.thread_seconds().
    """
    return time.clock_gettime(~pid << 3 | 2)
