# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guard reads and reports; tests/local/swap tries it on real disks."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import (
    Guard,
    describe,
    read_header,
)


def test_no_header_without_a_swap_area(tmp_path):
    path = tmp_path / "file"
    assert read_header(str(path)) is None
    path.write_bytes(b"short")
    assert read_header(str(path)) is None
    path.write_bytes(bytes(8192))
    assert read_header(str(path)) is None


def test_each_kind_of_signature_is_named_once():
    found = [{"type": "gpt"}, {"type": "gpt"}, {"type": "PMBR"}, {"type": "ext4", "label": "data"}, {"type": "dos"}]
    assert describe(found) == "gpt, ext4 (label data), MBR"


def host(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Guard(lambda command, **_options: pytest.fail(f"runs {command}"), HostFiles(str(tmp_path)))


def test_mounts_of_this_process_and_of_the_first(tmp_path):
    line = "22 1 259:{} / /mnt/with\\040space rw shared:1 - ext4 /dev/none rw\n"
    guard = host(tmp_path, proc__self__mountinfo=line.format(1), proc__1__mountinfo=line.format(2))
    assert guard.mounts() == [("259:1", "/mnt/with space"), ("259:2", "/mnt/with space")]


@pytest.mark.parametrize(
    ("name", "made_by", "ours"),
    [
        ("memstretch-01234567", "CRYPT-PLAIN-memstretch-01234567", True),
        # The logical volume 01234567 of the group memstretch, and one with another name.
        ("memstretch-01234567", "LVM-FqSy5wkYnpdQ8uzbkTRTRuVVm3xo4cZkE3cI", False),
        ("memstretch-root", "LVM-FqSy5wkYnpdQ8uzbkTRTRuVVm3xo4cZkE3cI", False),
        ("memstretch-data", "CRYPT-PLAIN-memstretch-data", False),
        ("memstretch-01234567", "CRYPT-LUKS2-0123-memstretch-01234567", False),
    ],
)
def test_only_a_plain_encrypted_mapping_with_our_name_is_ours(make_guard, name, made_by, ours):
    guard = make_guard({"/sys/class/block/dm-0/dm/name": f"{name}\n", "/sys/class/block/dm-0/dm/uuid": f"{made_by}\n"})
    assert guard.is_our_mapping("dm-0") is ours
