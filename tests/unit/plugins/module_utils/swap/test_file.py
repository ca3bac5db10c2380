# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file system a swap file would be on, and when a file is made. tests/local/swap makes real ones."""

from __future__ import annotations

import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.swap.file import SwapFile, file_system_of
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import header

MIB = 1024 * 1024
MOUNTS = r"""22 1 259:1 / / rw shared:1 - ext4 /dev/a rw
23 22 0:5 / /srv rw shared:2 - tmpfs none rw
24 23 259:2 / /srv/my\040vms rw shared:3 - xfs /dev/b rw
25 22 259:3 / /srv2 rw shared:4 - btrfs /dev/c rw
26 22 259:4 / /srv2 rw - ext3 /dev/d rw
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/", "ext4"),
        ("/var", "ext4"),
        ("/srv", "tmpfs"),
        ("/srv/my", "tmpfs"),
        ("/srv/my vms", "xfs"),
        ("/srv/my vms/below", "xfs"),
        ("/srv2", "ext3"),  # the later mount hides the earlier one
    ],
)
def test_file_system_of_a_directory(make_guard, directory, kind):
    assert file_system_of(make_guard({"/proc/self/mountinfo": MOUNTS}).files, directory) == kind


def test_file_system_without_mounts(make_guard):
    assert file_system_of(make_guard().files, "/") == "no file system"


@pytest.mark.parametrize(
    ("content", "is_made"),
    [
        (None, False),
        (header(MIB, uuid.uuid4()) + bytes(MIB - 4096), True),
        (header(MIB, uuid.uuid4()), False),  # too short
        (header(MIB, uuid.uuid4(), "other") + bytes(MIB - 4096), False),
        (bytes(MIB), False),
    ],
)
def test_a_file_is_made_if_it_has_our_label_and_the_size(tmp_path, make_guard, make_options, content, is_made):
    path = tmp_path / "swap"
    if content is not None:
        path.write_bytes(content)
    swap = SwapFile(make_options(kind="file", file=str(path), file_size="1M"), make_guard(), {})
    assert swap.is_made() is is_made
    assert swap.pending() == ([] if is_made else [f"make the swap file {path} of 1 MiB"])


def test_a_directory_behind_a_symbolic_link_is_refused(tmp_path, make_guard, make_options):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    swap = SwapFile(make_options(kind="file", file=f"{tmp_path}/link/swap", file_size="1M"), make_guard(), {})
    assert swap.refusals() == [f"file: {tmp_path}/link is not a directory, or a symbolic link is part of its path"]
