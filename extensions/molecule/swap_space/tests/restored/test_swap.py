# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""The machine is as it was."""

from __future__ import annotations

import os
import pathlib

import pytest


def without_use(table):
    """Return the areas of a /proc/swaps without how much of them is used."""
    return [
        (name, kind, size, priority) for name, kind, size, _used, priority in map(str.split, table.splitlines()[1:])
    ]


def test_the_swap_is_the_same_as_before(host):
    before = pathlib.Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "swaps").read_text(encoding="utf-8")
    assert without_use(host.file("/proc/swaps").content_string) == without_use(before)


@pytest.mark.parametrize("drive", ["fast0", "fast1"])
def test_the_drives_are_blank(host, drive):
    """At their beginning, and to programs that look for data; pages that were swapped out remain elsewhere."""
    path = f"/dev/disk/by-id/molecule-{drive}"
    assert host.check_output("wipefs %s", path) == ""
    assert host.check_output("cmp --bytes=4194304 /dev/zero %s", path) == ""


def test_the_record_of_the_change_is_gone(host):
    assert not host.file("/var/lib/memstretch/swap_space.json").exists
