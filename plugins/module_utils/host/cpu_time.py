# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU time of a host that its hypervisor gave to others, and what a result names of the host it comes from."""

from __future__ import annotations

import datetime
import os
import re
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

_IDLE, _IOWAIT, _STEAL, _COLUMNS = 3, 4, 7, 8


class Ticks(t.NamedTuple):
    """Ticks of a CPU since the boot, or between two readings: idle (waiting for I/O included), stolen and all."""

    idle: int
    stolen: int
    total: int


def each_cpu(files: HostFiles | None = None) -> list[Ticks]:
    """Return the ticks of each CPU; an empty list where the kernel does not count stolen time."""
    found = []
    for line in ((files or HostFiles()).text("/proc/stat") or "").splitlines():
        words = line.split()
        if re.match(r"cpu\d", line) and len(words) > _COLUMNS:
            ticks = [int(word) for word in words[1 : 1 + _COLUMNS]]
            found.append(Ticks(ticks[_IDLE] + ticks[_IOWAIT], ticks[_STEAL], sum(ticks)))
    return found


def process_ticks(stat: str) -> int:
    """Return the ticks that a process has used, in user and kernel mode, from the text of its /proc/PID/stat."""
    words = stat.rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def thread_seconds(files: HostFiles, pid: int | str) -> float | None:
    """Return the CPU seconds that a thread has used, in nanoseconds where the kernel tells them, else in whole ticks.

    Args:
        pid: its id, or that of a process of one thread.
    """
    schedstat = (files.text(f"/proc/{pid}/schedstat") or "").split()
    if schedstat:
        return int(schedstat[0]) / 1e9
    stat = files.text(f"/proc/{pid}/stat")
    return process_ticks(stat) / os.sysconf("SC_CLK_TCK") if stat else None


def kswapd_pids(files: HostFiles) -> list[str]:
    """Return the threads of the kernel that reclaim memory in the background, one for each NUMA node."""
    pids = (name for name in files.names("/proc") if name.isdigit())
    return [pid for pid in pids if (files.text(f"/proc/{pid}/comm") or "").startswith("kswapd")]


def cpu_ticks(files: HostFiles | None = None) -> list[int]:
    """Return the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal (guest is in user)."""
    line, _newline, _rest = ((files or HostFiles()).text("/proc/stat") or "").partition("\n")
    return [int(word) for word in line.split()[1:9]]


def stolen_share(before: t.Sequence[int], after: t.Sequence[int]) -> float | None:
    """Return the share of CPU time that was stolen between two readings of cpu_ticks(); None if it is unknown."""
    total = sum(after) - sum(before)
    return round((after[_STEAL] - before[_STEAL]) / total, 5) if total and len(after) > _STEAL else None


class Origin:
    """Where and when something is measured, from the creation of this object on.

    Args:
        earlier: facts() of an execution that was interrupted and goes on now.
    """

    def __init__(self, files: HostFiles, earlier: t.Mapping[str, t.Any] | None = None) -> None:
        self._files, self._ticks, self._earlier = files, cpu_ticks(files), earlier
        self._started, self._clock = datetime.datetime.now(datetime.timezone.utc), time.monotonic()

    def facts(self) -> dict[str, t.Any]:
        """Return C(date), C(seconds), C(cpu_model), C(kernel) and C(stolen), the share of CPU time stolen since."""
        found = {
            "date": f"{self._started:%Y-%m-%d}",
            "seconds": round(time.monotonic() - self._clock, 1),
            "cpu_model": host_memory.cpu(self._files)["model"],
            "kernel": host_memory.kernel(self._files)["release"],
            "stolen": stolen_share(self._ticks, cpu_ticks(self._files)),
        }
        return found if not self._earlier else {**found, **_together(self._earlier, found)}


def _together(earlier: t.Mapping[str, t.Any], later: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the date of the earlier part, the seconds of both, and the share that was stolen in them."""
    seconds, stolen = earlier["seconds"] + later["seconds"], None
    if seconds and earlier["stolen"] is not None and later["stolen"] is not None:
        stolen = round(sum(part["seconds"] * part["stolen"] for part in (earlier, later)) / seconds, 5)
    return {"date": earlier["date"], "seconds": round(seconds, 1), "stolen": stolen}
