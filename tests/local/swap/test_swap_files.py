# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap in files: which are made, and which are not ours. The kernel writes to them what programs have in memory."""

from __future__ import annotations

import json
import os
import tempfile
import uuid

import pytest
from runs import RECORD, in_use, read_record, settled, swap
from trial import MIB, call_module, run

from ansible_collections.memstretch.density.plugins.module_utils.swap.format import header

pytestmark = pytest.mark.usefixtures("nothing_remains")


def test_a_file_has_no_holes_and_is_private(tmp_path):
    file = tmp_path / "swap"
    settled(kind="file", file=str(file), file_size="16M")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_blocks * 512 >= 16 * MIB
    settled(kind="file", file=str(file), file_size="24M")
    assert file.stat().st_size == 24 * MIB
    swap(state="restored")
    assert not list(tmp_path.glob("swap*"))


@pytest.mark.parametrize("what", ["data", "directory", "link", "foreign swap"])
def test_a_file_that_is_not_ours_is_refused(tmp_path, what):
    file = tmp_path / "swap"
    if what == "data":
        file.write_bytes(b"precious")
    elif what == "directory":
        file.mkdir()
    elif what == "link":
        (tmp_path / "target").write_bytes(header(MIB, uuid.uuid4()))
        file.symlink_to("target")
    else:
        file.write_bytes(header(MIB, uuid.uuid4(), "other"))
    result = call_module(kind="file", file=str(file), file_size="16M")
    assert "exists and was not created by swap_space" in result["msg"]
    assert not os.path.exists(RECORD)


def test_a_file_of_another_user_with_our_mark_is_refused_and_never_read_by_the_kernel(tmp_path):
    """With its label and its size alone, anybody could make a file that root's memory is swapped out to."""
    file = tmp_path / "swap"
    file.write_bytes(header(16 * MIB, uuid.uuid4()).ljust(16 * MIB, b"\0"))
    os.chown(file, 65534, 65534)
    file.chmod(0o666)
    result = call_module(kind="file", file=str(file), file_size="16M")
    assert "exists and was not created by swap_space: it has the owner 65534, the mode 0666" in result["msg"]
    assert not in_use() and not os.path.exists(RECORD)


@pytest.mark.parametrize("change", ["mode", "owner", "second name", "exchanged"])
def test_our_file_that_others_could_read_now_is_neither_used_nor_removed(tmp_path, change):
    file = tmp_path / "swap"
    swap(kind="file", file=str(file), file_size="16M")
    run("swapoff", str(file))
    if change == "mode":
        file.chmod(0o644)
    elif change == "owner":
        os.chown(file, 65534, 0)
    elif change == "second name":
        os.link(file, tmp_path / "other")
    else:
        file.unlink()
        file.write_bytes(header(16 * MIB, uuid.uuid4()).ljust(16 * MIB, b"\0"))
        file.chmod(0o600)
    result = call_module(kind="file", file=str(file), file_size="16M")
    assert "exists and was not created by swap_space" in result["msg"] and not in_use()
    restored = swap(state="restored")
    assert any("was left alone, because it is no longer our swap file" in text for text in restored["warnings_list"])
    assert file.exists() and not os.path.exists(RECORD)


@pytest.mark.parametrize("directory", ["/tmp", "/var/tmp", "/dev/shm"])
def test_a_file_where_anybody_may_make_files_is_refused(directory):
    result = call_module(kind="file", file=f"{directory}/memstretch-test.swap", file_size="16M")
    assert f"{directory} has the mode 1777, so others than root could replace the swap file" in result["msg"]
    assert not os.path.exists(f"{directory}/memstretch-test.swap")


def test_by_default_a_file_is_beside_its_record_and_goes_with_it():
    settled(kind="file", file_size="16M")
    assert set(os.listdir("/var/lib/memstretch")) == {".lock", "memstretch.swap", "swap_space.json"}
    assert in_use() == {"/var/lib/memstretch/memstretch.swap": 10}


def test_a_record_that_names_a_foreign_unit_is_refused(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="ascii")
    swap(kind="zram", zram_size="16M")
    record = read_record()
    with open(RECORD, "w", encoding="utf-8") as file:
        json.dump({**record, "units": [str(victim)]}, file)
    result = call_module(state="restored")
    assert f"{victim} is not the path of one of our units" in result["msg"]
    assert victim.read_text(encoding="ascii") == "precious"
    with open(RECORD, "w", encoding="utf-8") as file:
        json.dump(record, file)


def test_a_file_that_would_fill_its_file_system_is_refused(tmp_path):
    file_system = os.statvfs(tmp_path)
    size = file_system.f_blocks * file_system.f_frsize
    result = call_module(kind="file", file=str(tmp_path / "swap"), file_size=str(size))
    assert f"no room for {tmp_path}/swap with " in result["msg"]
    assert "at least 1 GiB must remain free. Make room, or choose another size or path" in result["msg"]


def test_a_file_on_tmpfs_is_refused():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        result = call_module(kind="file", file=f"{directory}/swap", file_size="16M")
        assert f"file: {directory}/swap would be on" in result["msg"] and not os.listdir(directory)
        assert "Choose another path (swap_space_file)" in result["msg"]
