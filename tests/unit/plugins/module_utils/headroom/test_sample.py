# SPDX-License-Identifier: GPL-3.0-or-later
"""What is drawn from the memory of this process, whose pages are known."""

from __future__ import annotations

import ctypes
import mmap
import os
import pathlib
import random
import re
import tempfile

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom.sample import PageFiles, Sampled
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit

pytestmark = pytest.mark.usefixtures("needs_root")
PAGE = os.sysconf("SC_PAGE_SIZE")
MAP_NORESERVE = 0x4000  # Python has no name for it
HERE = Unit("here", "process", (os.getpid(),))


@pytest.fixture
def page_files():
    files = PageFiles()
    yield files
    files.close()


@pytest.fixture
def memory():
    """Memory of 64 MiB, every page of it in DRAM."""
    with mmap.mmap(-1, 64 * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        for place in range(0, len(area), PAGE):
            area[place] = 1
        yield area


def place_of(memory):
    """Return the addresses of a memory area."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return range(start, start + len(memory))


def test_root_sees_page_frames(page_files):
    assert page_files.sees_frames()


def test_pages_are_drawn_once_each(page_files, memory):
    drawn = page_files.draw(HERE, 1000, random.Random(1))
    places = [(page.pid, page.number) for page in drawn.pages]

    assert len(drawn.pages) + drawn.pinned + drawn.hidden == 1000
    assert len(set(places)) == len(places) > 800
    # This process itself allocates and frees memory at the same time.
    assert sum(page_files.frame_of(page) == (True, page.frame) for page in drawn.pages) > 0.95 * len(places)


def test_the_name_of_a_mapped_file_does_not_end_the_look(page_files, memory, tmp_path):
    """Any user may map a file with any name; Python takes more characters for the end of a line than the kernel."""
    path = tmp_path / "a\x0bb\x1cc d\u2028e"
    path.write_bytes(b"x" * PAGE)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), PAGE):
        assert path.name in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")
        assert len(page_files.draw(HERE, 100, random.Random(1)).pages) > 50


def test_what_a_process_has_changed_of_a_file_is_its_own_memory(page_files):
    """Like the data of its program. The pages that it has only read are the file's."""
    changed = set(range(0, 512 * PAGE, 2 * PAGE))
    with tempfile.TemporaryFile(dir="/var/tmp") as file:  # on a drive: a file in tmpfs is memory
        file.truncate(512 * PAGE)
        with mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as area:
            for place in range(0, len(area), PAGE):
                assert area[place] == 0
                if place in changed:
                    area[place] = 1
            everything = page_files.draw(HERE, 2**20, random.Random(1))
            here = place_of(area)
    found = {page.number * PAGE - here.start for page in everything.pages if page.number * PAGE in here}
    assert found <= changed and len(found) > 100  # the kernel's lists do not have the newest ones yet
    status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    own = int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024 // PAGE
    assert len(everything.pages) + everything.hidden == pytest.approx(own, rel=0.05)


def test_a_unit_with_less_memory_gives_all_that_it_has(page_files, memory):
    resident = 64 * 2**20 // PAGE
    drawn = page_files.draw(HERE, 100 * resident, random.Random(1))

    assert resident < len(drawn.pages) < 100 * resident


def test_freed_pages_no_longer_exist(page_files, memory):
    drawn = page_files.draw(HERE, 2000, random.Random(1))
    first = [page for page in drawn.pages if page.number * PAGE in place_of(memory)]
    before = sum(page_files.frame_of(page)[0] for page in first)
    memory.madvise(mmap.MADV_DONTNEED)
    after = sum(page_files.frame_of(page)[0] for page in first)

    assert before == len(first) > 100 and after == 0


def test_memory_without_pages_is_not_drawn(page_files):
    with mmap.mmap(-1, 2**34, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE):
        drawn = page_files.draw(HERE, 500, random.Random(1))

    assert len(drawn.pages) < 500  # nearly all of the addresses that are tried are empty


def test_a_process_that_does_not_exist_has_no_pages(page_files):
    drawn = page_files.draw(Unit("gone", "process", (2**22 + 1,)), 10, random.Random(1))
    assert drawn == ([], 0, 0)


def test_a_process_that_has_just_ended_has_no_pages(page_files):
    """Until its parent has read its status it is a zombie, whose files in /proc the kernel refuses to open."""
    started = os.fork()
    if not started:
        os._exit(0)
    try:
        os.waitid(os.P_PID, started, os.WEXITED | os.WNOWAIT)
        assert page_files.frame_of(Sampled(started, 1, 1, 1)) == (False, None)
        assert page_files.draw(Unit("gone", "process", (started,)), 10, random.Random(1)) == ([], 0, 0)
    finally:
        os.waitpid(started, 0)
