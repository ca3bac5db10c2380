# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A random sample of the memory pages of a unit: where each is, and whether it is still there later.

Pages are drawn uniformly from the anonymous and shared memory that a unit's processes have mapped, which is where the
memory of a guest is. /proc/PID/pagemap says for each whether it is in DRAM, and in which page frame, or swapped.
/proc/kpageflags says what kind of page a frame holds. The content of a page is never read.

What a process has changed of a file that it has mapped for itself, such as the data of its program and libraries, is
its own memory, too: about 1 MiB of each Redis, hardly any of which is accessed again.

Not in the sample: other pages of files that are mapped or only cached (the kernel drops these without swap), huge pages
of hugetlbfs, and locked pages, which are counted.
"""

from __future__ import annotations

import bisect
import os
import random
import struct
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, mounts

# Documentation/admin-guide/mm/pagemap.rst: the bits of an entry of pagemap, and of kpageflags.
_FRAME = (1 << 55) - 1
_OF_FILE, _SWAPPED, _PRESENT = 1 << 61, 1 << 62, 1 << 63
_LRU, _HEAD, _TAIL, _HUGETLB, _UNEVICTABLE, _ZERO_PAGE = 1 << 5, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 24
# The largest order of a folio: 2 MiB of 4 KiB pages are order 9; other page sizes have more.
_MAX_ORDER = 18
# How many addresses are tried for each page that is wanted: a process may have mapped far more than it uses.
_TRIES = 40
_MEMORY_FILE_SYSTEMS = ("tmpfs", "devtmpfs", "ramfs")
# Shared memory that no mounted file system has.
_MEMORY_PATHS = ("/memfd:", "/dev/zero", "/SYSV", "/dev/shm/")
# A private mapping of a file with more pages is no data of a program, and its changed pages are hard to find by chance.
_MOST_DATA = 4096
_NOT_MEMORY = ("[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]")


class Sampled(t.NamedTuple):
    """A page of a unit.

    Attributes:
        pid: one of the processes that have mapped it.
        number: of the page in that process's addresses.
        frame: the page frame that it was in; None if it was swapped.
        folio: the first frame of its folio, the unit in which the kernel keeps whether it was accessed.
    """

    pid: int
    number: int
    frame: int | None
    folio: int | None


class _Area(t.NamedTuple):
    """An area of addresses: the process, the number of its first page, how many it has, and whether they are a file's.

    Pages of a file are memory of the process only where it has changed them.
    """

    pid: int
    first: int
    size: int
    of_file: bool


class Drawn(t.NamedTuple):
    """What was drawn from the memory of a unit.

    Attributes:
        pages: those that reclaim could take, in random order.
        pinned: how many more are locked.
        hidden: how many more the kernel had just allocated, so that its lists do not have them yet.
    """

    pages: list[Sampled]
    pinned: int
    hidden: int


class PageFiles:
    """The open files that tell where pages are. It reads no memory."""

    def __init__(self, root: str = "/") -> None:
        self._files = HostFiles(root)
        self._flags = os.open(self._files.path("/proc/kpageflags"), os.O_RDONLY | os.O_CLOEXEC)
        self._maps: dict[int, int] = {}
        self._mounted = self._memory_devices()

    def close(self) -> None:
        for descriptor in (self._flags, *self._maps.values()):
            os.close(descriptor)
        self._maps, self._flags = {}, -1

    def draw(self, unit: Unit, count: int, random_source: random.Random) -> Drawn:
        """Draw pages from the memory of a unit.

        Args:
            count: how many; fewer are drawn from a unit that has fewer.
        """
        areas = [area for pid in unit.pids for area in self._areas(pid)]
        total = sum(area.size for area in areas)
        starts = _starts(areas)
        drawn = Drawn([], 0, 0)
        pinned = hidden = 0
        for place in _in_random_order(total, count * _TRIES, random_source):
            pid, number, of_file = _locate(areas, starts, place)
            entry = self._entry(pid, number)
            if entry & _PRESENT:
                if of_file and entry & _OF_FILE:
                    continue
                frame = entry & _FRAME
                flags = self._page_flags(frame)
                if flags & (_ZERO_PAGE | _HUGETLB):
                    continue
                folio = self._folio(frame, flags)
                if folio != frame:  # before Linux 6.9, only the first page of a folio had its flags
                    flags |= self._page_flags(folio)
                if flags & _UNEVICTABLE:
                    pinned += 1
                elif not flags & _LRU:
                    hidden += 1
                else:
                    drawn.pages.append(Sampled(pid, number, frame, folio))
            elif entry & _SWAPPED:
                drawn.pages.append(Sampled(pid, number, None, None))
            if len(drawn.pages) + pinned + hidden >= count:
                break
        return drawn._replace(pinned=pinned, hidden=hidden)

    def frame_of(self, page: Sampled) -> tuple[bool, int | None]:
        """Decide whether a page still exists, and find its frame; None if it is swapped."""
        entry = self._entry(page.pid, page.number)
        if entry & _PRESENT:
            return True, entry & _FRAME
        return bool(entry & _SWAPPED), None

    def sees_frames(self) -> bool:
        """Check that the kernel tells this process where pages are: without CAP_SYS_ADMIN each frame reads as 0."""
        here = self._entry(os.getpid(), id(self) // os.sysconf("SC_PAGE_SIZE"))
        return bool(here & _PRESENT and here & _FRAME)

    def _entry(self, pid: int, number: int) -> int:
        """Return the entry of a page; 0 if it does not exist, or if the process has ended."""
        if pid not in self._maps:
            try:
                self._maps[pid] = os.open(self._files.path(f"/proc/{pid}/pagemap"), os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, ProcessLookupError):  # it has ended; as a zombie it still has a directory
                return 0
        return _read(self._maps[pid], number)

    def _page_flags(self, frame: int) -> int:
        return _read(self._flags, frame)

    def _folio(self, frame: int, flags: int) -> int:
        """Return the first frame of the folio that a frame belongs to."""
        if not flags & _TAIL:
            return frame
        for order in range(1, _MAX_ORDER + 1):
            first = frame & ~((1 << order) - 1)
            if self._page_flags(first) & _HEAD:
                return first
        return frame

    def _areas(self, pid: int) -> list[_Area]:
        """Return the areas of a process that may have memory of its own."""
        size = os.sysconf("SC_PAGE_SIZE")
        found = []
        for line in (self._files.text(f"/proc/{pid}/maps") or "").split("\n"):
            words = line.split(" ", 5)  # the name of a file may have any character but the end of a line
            if len(words) < 5:
                continue
            addresses, rights, _offset, device, inode = words[:5]
            path = words[5].lstrip(" ") if len(words) > 5 else ""
            if rights.startswith("---") or path in _NOT_MEMORY:
                continue
            first, end = (int(address, 16) // size for address in addresses.split("-"))
            of_file = inode != "0" and not path.startswith(_MEMORY_PATHS) and device not in self._mounted
            if not of_file or (rights[2:4] == "-p" and end - first <= _MOST_DATA):
                found.append(_Area(pid, first, end - first, of_file))
        return found

    def _memory_devices(self) -> set[str]:
        """Return the devices of mounted file systems whose files are in memory, as /proc/PID/maps writes them."""
        found = set()
        for mount in mounts(self._files):
            if mount.kind in _MEMORY_FILE_SYSTEMS:
                major, minor = mount.number.split(":")
                found.add(f"{int(major):02x}:{int(minor):02x}")
        return found


def _in_random_order(total: int, most: int, source: random.Random) -> t.Iterator[int]:
    """Yield numbers below a total, each at most once and in random order, without a list of all of them.

    Args:
        total: the numbers that there are.
        most: how many of them are yielded.
        source: of the order.
    """
    moved: dict[int, int] = {}
    for left in range(total, max(0, total - most), -1):
        place = int(source.random() * left)
        yield moved.get(place, place)
        moved[place] = moved.pop(left - 1, left - 1)


def _starts(areas: t.Sequence[_Area]) -> list[int]:
    starts, total = [], 0
    for area in areas:
        starts.append(total)
        total += area.size
    return starts


def _locate(areas: t.Sequence[_Area], starts: t.Sequence[int], place: int) -> tuple[int, int, bool]:
    """Return the process and the number of the page at a place in all areas, and whether it may be a file's."""
    position = bisect.bisect_right(starts, place) - 1
    area = areas[position]
    return area.pid, area.first + place - starts[position], area.of_file


def _read(descriptor: int, number: int) -> int:
    content = os.pread(descriptor, 8, number * 8)
    return struct.unpack("=Q", content)[0] if len(content) == 8 else 0
