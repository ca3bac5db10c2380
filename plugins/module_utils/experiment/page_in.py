# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a page-in takes on a host: pages of this process are sent to swap and touched again, one at a time.

MADV_PAGEOUT (Linux 5.4) asks the kernel to reclaim pages at once, so no memory has to be short, and nothing else on the
host is pushed out. The pages are touched in random order, and only touches that caused a major fault count: the kernel
may have read a page ahead, or may not have written it yet.

Before a drive carries swap, single pages are read from it instead, past the page cache. Nothing is written to it. Below
a directory, a file without a name is written and read, which is gone however this process ends.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import resource
import stat
import tempfile
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, swap_areas
from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges

PAGE = mmap.PAGESIZE
RANGES: Ranges = {
    "size": Range(int, 2**20, 2**34, "bytes"),
    "samples": Range(int, 100, 1_000_000, "page-ins"),
    "compressibility": Range(float, 0, 1, "share of the contents that LZ4 saves"),
    "max_seconds": Range(float, 0.1, 3600, "seconds"),
}
_PAGEOUT = 21
_NOHUGEPAGE = getattr(mmap, "MADV_NOHUGEPAGE", 15)
# Bytes of a piece of a page, of LZ4's reference to the filler, and the fewest random ones.
_PIECE, _MATCH, _LEAST_FRESH = 16, 3.75, 0.5
_FILLER = b"memstretch.value"
# So many pages are made; the rest of the memory repeats them. zram compresses each page alone.
_DISTINCT = 64
# The share of pages that the kernel may keep, such as those that another processor is just looking at.
_MOST_KEPT = 0.1
_PATIENCE_S = 10.0
# What is written below a directory, and in which steps: more than the caches of most drives would keep.
_WRITTEN, _STEP = 64 * 2**20, 2**20


class PageInError(Exception):
    """The latency of page-ins cannot be measured; the message says why."""


def tier(files: HostFiles) -> str:
    """Return the kind of tier that serves page-ins: zswap, zram, devices or file, as the plan names them.

    Raises:
        PageInError: no swap is active.
    """
    areas = swap_areas(files)
    if not areas:
        raise PageInError("no swap is active on this host; apply a profile with swap first")
    if (files.text("/sys/module/zswap/parameters/enabled") or "").strip() == "Y":
        return "zswap"
    first = max(areas, key=lambda area: area["priority"])
    if first["name"].startswith("/dev/zram"):
        return "zram"
    return "devices" if first["type"] == "partition" else "file"


def contents(chance: random.Random, size: int, compressibility: float) -> bytes:
    """Return random bytes in pieces, each with filler behind, as the client's values have.

    The pieces are those of a typical page of real programs: 16 bytes, of which LZ4 needs 3.75 to name the filler
    (files/solotest/values.c has the sample). There are longer pieces where nearly nothing shall be left.
    """
    if compressibility == 0:
        return chance.getrandbits(8 * size).to_bytes(size, "little")
    share = max(1 - compressibility, 1e-3)
    fresh = max(share * _PIECE - _MATCH, _LEAST_FRESH)
    piece = _PIECE if fresh > _LEAST_FRESH else (_MATCH + fresh) / share
    parts, length = [], 0
    while length < size:
        part = int(piece * (0.75 + chance.random() / 2) + 0.5)
        count = min(int(fresh + chance.random()), part)
        parts.append(chance.getrandbits(8 * count).to_bytes(count, "little"))
        parts.append((_FILLER * (part // len(_FILLER) + 1))[: part - count])
        length += part
    return b"".join(parts)[:size]


def measure(size: int, samples: int, compressibility: float, max_seconds: float) -> list[int]:
    """Return the nanoseconds of page-ins.

    Args:
        size: memory to send to swap, in bytes.
        samples: the most page-ins to time.
        compressibility: share of the contents that LZ4 saves, 0 to 1.
        max_seconds: the longest time of timing.

    Raises:
        PageInError: the kernel cannot or does not page out.
    """
    chance = random.Random(1)
    pages = size // PAGE
    with mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(_NOHUGEPAGE)
        made = [contents(chance, PAGE, compressibility) for _page in range(min(pages, _DISTINCT))]
        for number in range(pages):
            memory[number * PAGE : (number + 1) * PAGE] = made[number % _DISTINCT]
        _page_out(memory, pages)
        return _touch(memory, chance.sample(range(pages), min(samples, pages)), max_seconds)


def _page_out(memory: mmap.mmap, pages: int) -> None:
    """Send memory to swap, and do not return before most of it is gone.

    The kernel keeps a page in its swap cache while a drive writes it, and afterwards until memory is short. Such a page
    is read here, which maps it without a page-in. It is clean then, so the next request frees it.
    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            memory.madvise(_PAGEOUT)
        except OSError as error:
            raise PageInError(f"MADV_PAGEOUT: {error.strerror}; it needs Linux 5.4") from error
        kept = _in_memory(memory, pages)
        if len(kept) <= _MOST_KEPT * pages:
            return
        if time.monotonic() > end:
            raise PageInError(
                f"{len(kept)} of {pages} pages did not go to swap within {_PATIENCE_S:g} s; is there room for them? A "
                f"memory limit without swap also keeps them"
            )
        time.sleep(0.05)
        for number in kept:
            memory[number * PAGE]


def _in_memory(memory: mmap.mmap, pages: int) -> list[int]:
    """Return the numbers of the pages that are in memory, those of the swap cache included."""
    states = (ctypes.c_ubyte * pages)()
    first = ctypes.c_char.from_buffer(memory)
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(pages * PAGE), states)
    del first  # the memory cannot be given back while something refers to it
    if failed:
        raise PageInError(f"mincore: {os.strerror(ctypes.get_errno())}")
    return [number for number in range(pages) if states[number] & 1]


def _touch(memory: mmap.mmap, order: t.Iterable[int], max_seconds: float) -> list[int]:
    """Touch pages and return the times of those touches that caused a major fault."""
    took = []
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    end = time.monotonic() + max_seconds
    for number in order:
        before = time.perf_counter_ns()
        memory[number * PAGE]
        after = time.perf_counter_ns()
        now = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        if now > faults:
            took.append(after - before)
        faults = now
        if time.monotonic() > end:
            break
    return took


def read_drive(path: str, samples: int, max_seconds: float) -> list[int]:
    """Return the nanoseconds of reads of one page each, at random places of a drive, past the page cache.

    A drive answers for blocks that were never written, or were discarded, without reading its medium.

    Args:
        path: of the block device, of a file on one, or of a directory that is on one.
        samples: the most reads.
        max_seconds: the longest time of reading.

    Raises:
        PageInError: it is none of these, or cannot be read past the page cache.
    """
    chance = random.Random(1)
    took: list[int] = []
    try:
        descriptor = _open(path)
        end = time.monotonic() + max_seconds
        try:
            pages = os.lseek(descriptor, 0, os.SEEK_END) // PAGE
            if not pages:
                raise PageInError(f"drive: {path} has no medium, or is smaller than a page")
            with mmap.mmap(-1, PAGE) as buffer:  # direct reads need aligned memory
                while len(took) < samples and time.monotonic() < end:
                    place = chance.randrange(pages) * PAGE
                    before = time.perf_counter_ns()
                    os.preadv(descriptor, [buffer], place)
                    took.append(time.perf_counter_ns() - before)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise PageInError(f"drive: {path} cannot be read: {error.strerror}") from error
    return took


def _open(path: str) -> int:
    """Open what is to be read, past the page cache."""
    kind = os.stat(path).st_mode
    if stat.S_ISDIR(kind):
        return _unnamed_file(path)
    if stat.S_ISBLK(kind) or stat.S_ISREG(kind):
        return os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    raise PageInError(f"drive: {path} is neither a block device nor a file or directory")


def _unnamed_file(directory: str) -> int:
    """Write a file of random bytes that has no name, past the page cache, and return it open."""
    with tempfile.TemporaryFile(dir=directory) as file:
        descriptor = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, _STEP) as buffer:
            for _step in range(_WRITTEN // _STEP):
                buffer[:] = os.urandom(_STEP)
                if os.write(descriptor, buffer) != _STEP:
                    raise PageInError(f"drive: {directory} has no room for {_WRITTEN // 2**20} MiB")
    except OSError as error:
        os.close(descriptor)
        raise PageInError(f"drive: {directory} cannot be written: {error.strerror}") from error
    except PageInError:
        os.close(descriptor)
        raise
    return descriptor


def figures(took: t.Sequence[int]) -> dict[str, t.Any]:
    """Return C(page_ins), and C(avg_us), C(p50_us), C(p99_us) and C(max_us) of nanoseconds."""
    ordered = sorted(took)

    def percentile(percent: int) -> float:
        return ordered[-(-percent * len(ordered) // 100) - 1] / 1000

    return {
        "page_ins": len(ordered),
        "avg_us": round(sum(ordered) / len(ordered) / 1000, 2),
        "p50_us": percentile(50),
        "p99_us": percentile(99),
        "max_us": ordered[-1] / 1000,
    }
