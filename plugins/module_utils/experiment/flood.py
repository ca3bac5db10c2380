# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flood of dirty pages: how large it must be, its process, and the proof that the kernel writes it back."""

from __future__ import annotations

import os
import re
import threading
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.background import BackgroundProgram
from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo, vmstat
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text

# The flood is this many times the dirty limit, so that its writer reaches the limit.
_BEYOND = 1.25
# Write-back of less than this, in bytes per second, is not a flood.
MIN_WRITEBACK = 2**20
# How long that may take.
_LEAD_SECONDS = 60
# Dirty pages have piled up once they grow by less than this factor in this time.
_STEADY = 1.02
_PILE_SECONDS = 0.5
_SAMPLE_SECONDS = 0.2
_MAX_SAMPLES = 60
_BLOCK = 2**20
_SECTOR = 512
# The kernel ends a child with its parent, so that a killed measurement leaves no writer.
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


def thresholds(files: HostFiles) -> tuple[int, int]:
    """Return the dirty limit and the limit of background write-back that are in force, in bytes."""
    found = vmstat(files)
    page = os.sysconf("SC_PAGE_SIZE")
    return found["nr_dirty_threshold"] * page, found["nr_dirty_background_threshold"] * page


def size_for(limits: t.Iterable[int], free: int) -> int:
    """Return the size of a flood that exceeds each of the limits, but at most half of the free space."""
    return int(min(_BEYOND * max(limits), free / 2))


class Counters(t.NamedTuple):
    """The state of write-back at one moment: seconds, and bytes."""

    at: float
    dirty: int
    writeback: int
    written_back: int  # pages of all files since the boot
    dirtied: int  # pages that the flood made dirty, each time they were clean before
    device: int  # written by the disk since the boot


def counters(files: HostFiles, disk: str, pid: int) -> Counters:
    """Read the counters of the kernel, of a disk, and of the flood's process."""
    memory, statistics = meminfo(files), (files.text(f"/sys/block/{disk}/stat") or "").split()
    dirtied = re.search(r"^write_bytes: (\d+)$", files.text(f"/proc/{pid}/io") or "", re.MULTILINE)
    return Counters(
        time.monotonic(),
        memory["Dirty"],
        memory["Writeback"],
        vmstat(files)["nr_written"] * os.sysconf("SC_PAGE_SIZE"),
        int(dirtied.group(1)) if dirtied else 0,  # it has ended
        int(statistics[6]) * _SECTOR,
    )


class Watch:
    """Reads the counters again and again until it is stopped."""

    def __init__(self, files: HostFiles, disk: str, pid: int) -> None:
        self._of = (files, disk, pid)
        self.samples = [counters(*self._of)]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_exception: t.Any) -> None:
        self._stopped.set()
        self._thread.join()
        self.samples.append(counters(*self._of))

    def _run(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            self.samples.append(counters(*self._of))


def evidence(samples: t.Sequence[Counters], synchronous: int, start: float) -> dict[str, t.Any]:
    """Read from the counters what happened in a measurement under the flood.

    Other files may be written back too, so that alone proves nothing. What the flood made dirty and is not dirty any
    more was written back. The smaller of the two rates is the flood's.

    Args:
        samples: in order.
        synchronous: bytes of the synchronous writes, which are written back too and do not count as the flood's.
        start: when the flood began.
    """
    first, last = samples[0], samples[-1]
    seconds = last.at - first.at
    written_back = last.written_back - first.written_back - synchronous
    rate = max(0, min(written_back, _cleaned(last) - _cleaned(first))) / seconds
    return {
        "valid": rate >= MIN_WRITEBACK,
        "reason": ""
        if rate >= MIN_WRITEBACK
        else f"no write-back ran: {size_text(rate)} of the flood per second were written back, "
        f"{size_text(MIN_WRITEBACK)} are needed",
        "writeback_per_second": round(rate),
        "device_per_second": round((last.device - first.device) / seconds),
        "dirty_max": max(each.dirty for each in samples),
        "writeback_max": max(each.writeback for each in samples),
        "samples": _series(samples, start),
    }


def _cleaned(sample: Counters) -> int:
    """Count how many bytes of the flood were written back so far, at least: all that is dirty may be the flood's."""
    return max(0, sample.dirtied - sample.dirty - sample.writeback)


def _series(samples: t.Sequence[Counters], start: float) -> list[list[float]]:
    """Return seconds since the start, Dirty, Writeback, and the bytes per second that the disk wrote until then."""
    thinned = samples[:: -(-len(samples) // _MAX_SAMPLES)]
    return [
        [
            round(each.at - start, 2),
            each.dirty,
            each.writeback,
            round((each.device - before.device) / (each.at - before.at)),
        ]
        for before, each in zip(thinned, thinned[1:])
        if each.at - before.at >= _SAMPLE_SECONDS / 4
    ]


class Flood:
    """A sequential writer that fills the page cache with dirty pages until it is stopped.

    It rewrites one file, which lay_out() makes. Otherwise the first pass would allocate the file's blocks, which is
    many times slower than to rewrite them on some disks, so that what is measured first would meet another flood than
    what is measured last.
    """

    def __init__(self, fio: str, path: str, size: int, run_command: RunCommand) -> None:
        self.path, self.size, self.started, self._run = path, size, 0.0, run_command
        self._command = [
            "env",
            f"--chdir={os.path.dirname(path)}",  # fio leaves files in its working directory
            *WITH_PARENT,
            fio,
            "--name=flood",
            "--ioengine=psync",
            "--thread",
            f"--filename={path}",
            "--rw=write",
            "--fallocate=none",
            "--overwrite=1",  # fio would remove a file that it takes for too short
            "--invalidate=0",  # fio would ask the kernel to write the file back whenever it starts over
            f"--bs={_BLOCK}",
            f"--size={size}",
            "--time_based",
            "--runtime=1d",
        ]
        self._program: BackgroundProgram | None = None

    def lay_out(self) -> None:
        """Write the file once, to its end and to the disk."""
        block, left = os.urandom(_BLOCK), self.size
        with open(self.path, "xb", buffering=0) as stream:
            while left > 0:
                left -= stream.write(block[:left])
            os.fsync(stream.fileno())

    def start(self) -> None:
        """Start the writer. Wait until the kernel writes its pages back and no more of them pile up.

        If the flood is too small for that, the measurement shows that nothing is written back.
        """
        files = HostFiles()
        before, self.started = vmstat(files)["nr_written"], time.monotonic()
        self._program = BackgroundProgram(self._run, self._command)
        wanted = _BLOCK if self.size > thresholds(files)[1] else 0
        piled = 0
        while time.monotonic() < self.started + _LEAD_SECONDS and self.runs():
            time.sleep(_PILE_SECONDS)
            memory = meminfo(files)
            piled, last = memory["Dirty"] + memory["Writeback"], piled
            written = (vmstat(files)["nr_written"] - before) * os.sysconf("SC_PAGE_SIZE")
            if written >= wanted and piled <= _STEADY * last:
                return

    @property
    def pid(self) -> int:
        """Return the process of the writer; 0 if there is none."""
        return self._program.pid if self._program else 0

    def runs(self) -> bool:
        """Check whether the writer still runs. It ends by itself if the file system is full, for example."""
        return self._program is not None and self._program.runs()

    def stop(self) -> None:
        """End the writer. Its file stays, for the next one."""
        if self._program is not None:
            self._program.stop()
            self._program = None
