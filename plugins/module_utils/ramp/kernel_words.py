# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's own words on the end of a process."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.kernel_log import (
    KernelLogUnknown,
    read_kernel_log,
)

# include/linux/proc_ns.h, PROC_PID_INIT_INO: the kernel's log has the numbers of processes as this namespace has them.
_FIRST_NAMESPACE = f"pid:[{0xEFFFFFFC}]"


class KernelWords:
    """What the kernel says from the construction of this object on.

    Args:
        group: a part of the path of the servers' control group that no other one has.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        # In a container a process has another number than in the kernel's log, but its control group is the same.
        self._by_group = os.readlink("/proc/self/ns/pid") != _FIRST_NAMESPACE
        try:
            self._position: int | None = read_kernel_log().position
        except KernelLogUnknown:
            self._position = None

    def on(self, pid: int, was_killed: bool) -> str:
        """Return its last words on a process; empty if there are none, or nobody may read them.

        What the process held in each kind of memory is left to the kernel's log.

        Args:
            pid: of the process, as this program sees it.
            was_killed: whether it ended by SIGKILL.
        """
        if self._position is None:
            return ""
        try:
            lines = read_kernel_log(self._position).lines
        except KernelLogUnknown:
            return ""
        if self._by_group:
            pid = _killed(lines, self._group) if was_killed else 0
        own = [line for line in lines if f"process {pid} " in line.lower()]
        return own[-1].partition("] ")[2].partition(" total-vm:")[0] if own else ""


def killed_in(group: str) -> int:
    """Return the number of the last process that the kernel has killed for lack of memory in a control group.

    Args:
        group: a part of its path that no other one has.

    Returns:
        0 if there was none, or nobody may read that.
    """
    try:
        lines = read_kernel_log(0).lines
    except KernelLogUnknown:
        return 0
    return _killed(lines, group)


def _killed(lines: t.Iterable[str], group: str) -> int:
    found = [match for match in map(_KILL.search, lines) if match and group in match[1]]
    return int(found[-1][2]) if found else 0


# mm/oom_kill.c, dump_oom_summary()
_KILL = re.compile(r"\boom-kill:.*,task_memcg=([^,]*),.*,pid=(\d+),")
