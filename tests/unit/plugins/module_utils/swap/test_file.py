# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file system a swap file would be on, and when a file is made. tests/local/swap makes real ones."""

from __future__ import annotations

import os
import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import unsafe_directory
from ansible_collections.memstretch.density.plugins.module_utils.swap.file import (
    SwapFile,
    file_system_of,
    give_back_file,
    why_foreign,
)
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


OURS = uuid.uuid4()


@pytest.mark.parametrize(
    ("content", "foreign"),
    [
        (header(MIB, OURS) + bytes(MIB - 4096), None),
        (header(MIB, OURS), None),  # too short
        (header(MIB, OURS, "other") + bytes(MIB - 4096), "no swap area with our mark"),
        (header(MIB, uuid.uuid4()) + bytes(MIB - 4096), "record does not list its swap area"),
        (bytes(MIB), "no swap area with our mark"),
    ],
)
def test_a_file_is_made_if_the_record_has_it_and_it_has_the_size(tmp_path, make_guard, make_options, content, foreign):
    path = tmp_path / "swap"
    path.write_bytes(content)
    path.chmod(0o600)
    recorded = {"files": {str(path): [OURS.hex]}}
    swap = SwapFile(make_options(kind="file", file=str(path), file_size="1M"), make_guard(), recorded)
    is_made = foreign is None and len(content) == MIB
    assert swap.is_made() is is_made
    assert swap.pending() == ([] if is_made else [f"make the swap file {path} of 1 MiB"])
    found = why_foreign(str(path), [OURS.hex])
    assert found is None if foreign is None else foreign in found


@pytest.mark.parametrize("what", ["readable by others", "a second name", "a link", "a pipe", "a directory", "nothing"])
def test_what_others_could_read_or_have_made_is_foreign(tmp_path, what):
    path, file = tmp_path / "swap", tmp_path / "file"
    file.write_bytes(header(MIB, OURS) + bytes(MIB - 4096))
    file.chmod(0o644 if what == "readable by others" else 0o600)
    if what == "readable by others":
        file.rename(path)
    elif what == "a second name":
        os.link(file, path)
    elif what == "a link":
        path.symlink_to(file)
    elif what == "a pipe":
        os.mkfifo(path, 0o600)
    elif what == "a directory":
        path.mkdir(0o700)
    assert why_foreign(str(path), [OURS.hex])
    assert give_back_file(str(path), [OURS.hex]) or what == "nothing"
    assert os.path.lexists(path) or what == "nothing"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path, make_guard, make_options, mode):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    swap = SwapFile(make_options(kind="file", file=f"{tmp_path}/open/swap", file_size="1M"), make_guard(), {})
    assert swap.refusals() == [
        f"file: {tmp_path}/open has the mode {mode:04o}, so others than root could replace the swap file"
    ]
    (tmp_path / "open/below").mkdir(0o755)  # whatever the umask is
    unsafe = unsafe_directory(f"{tmp_path}/open/below", "swap file")
    assert unsafe is None if mode == 0o1777 else "could replace the swap file" in unsafe


def test_a_directory_behind_a_symbolic_link_is_refused(tmp_path, make_guard, make_options):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    swap = SwapFile(make_options(kind="file", file=f"{tmp_path}/link/swap", file_size="1M"), make_guard(), {})
    assert swap.refusals() == [
        f"file: {tmp_path}/link is not a directory; a symbolic link must not be part of the path of a swap file"
    ]


def test_what_an_interrupted_run_left_is_removed(tmp_path):
    (tmp_path / "swap.memstretch-new").write_bytes(b"half")
    assert give_back_file(str(tmp_path / "swap"), [OURS.hex]) is None
    assert list(tmp_path.iterdir()) == []
