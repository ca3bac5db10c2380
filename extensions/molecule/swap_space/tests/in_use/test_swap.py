# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""The swap as the kernel has it, and what is on the drives."""

from __future__ import annotations

import os
import pathlib

import pytest

BEFORE = pathlib.Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "swaps")
MIB = 1024  # /proc/swaps counts KiB
# Write 16 MiB that do not compress, put them out of memory (MADV_PAGEOUT, 21), and print the areas while they are out.
PAGE_OUT = (
    "import mmap, os; area = mmap.mmap(-1, 16 << 20); area.write(os.urandom(16 << 20)); area.madvise(21); "
    "print(open('/proc/swaps').read())"
)


def areas(table):
    """Return type, size, used KiB and priority of each area of a /proc/swaps by its name."""
    return {line.split()[0]: line.split()[1:] for line in table.splitlines()[1:]}


@pytest.fixture(name="drives")
def _drives(host):
    return [host.file(f"/dev/disk/by-id/molecule-{name}").linked_to for name in ("fast0", "fast1")]


def test_both_drives_are_in_use_with_the_same_priority(host, drives):
    present = areas(host.file("/proc/swaps").content_string)
    for drive in drives:
        _kind, size, _used, priority = present[drive]
        assert priority == "7" and 63 * MIB < int(size) <= 64 * MIB


def test_other_swap_stays_in_use(host):
    present = areas(host.file("/proc/swaps").content_string)
    assert {name: present[name][3] for name in areas(BEFORE.read_text())} == {
        name: priority for name, (*_figures, priority) in areas(BEFORE.read_text()).items()
    }


def test_the_kernel_uses_them_in_turn(host, drives):
    """Unless other swap has a higher priority, and takes the pages."""
    if any(int(figures[3]) > 7 for figures in areas(BEFORE.read_text()).values()):
        pytest.skip("this machine has other swap with a higher priority")
    used = areas(host.check_output("python3 -c %s", PAGE_OUT))
    assert all(int(used[drive][2]) > 2 * MIB for drive in drives), used


def test_each_drive_says_whose_it_is(host, drives):
    for drive in drives:
        assert host.check_output("blkid --probe --match-tag LABEL --output value %s", drive) == "memstretch"


def test_the_drive_that_was_refused_still_has_its_data(host):
    assert host.run("e2fsck -fn /dev/disk/by-id/molecule-full").rc == 0
