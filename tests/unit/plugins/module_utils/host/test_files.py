# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a host: reading, and atomic writing on a real file system."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    HostFiles,
    Mount,
    make_directory,
    meminfo,
    mounts,
    parse_cpu_list,
    private_directory,
    read_file,
    remove_file,
    swap_areas,
    write_file,
)

MB = 1024 * 1024


def test_a_missing_file_reads_as_none_and_is_not_unreadable(tmp_path):
    files = HostFiles(str(tmp_path))

    assert (files.raw("/a"), files.text("/a"), files.number("/a"), files.names("/a")) == (None, None, None, [])
    assert not files.exists("/a") and files.unreadable == []


def test_an_unreadable_file_is_listed_with_the_reason(tmp_path):
    (tmp_path / "a").mkdir()  # root may read every file, but no directory
    files = HostFiles(str(tmp_path))

    assert files.raw("/a") is None
    assert files.unreadable == ["/a: Is a directory"]


def test_a_file_is_read_up_to_the_given_size(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    files = HostFiles(str(tmp_path))

    assert len(files.raw("/a")) == 100_000
    assert len(files.raw("/a", 40_000)) == 40_000


@pytest.mark.parametrize(
    ("text", "number"), [("60\n", 60), ("-2", -2), ("0x0007", None), ("1 2", None), ("", None), ("max\n", None)]
)
def test_only_a_whole_number_reads_as_a_number(tmp_path, text, number):
    (tmp_path / "a").write_text(text, encoding="ascii")

    assert HostFiles(str(tmp_path)).number("/a") == number


def test_names_are_sorted_by_their_numbers(tmp_path):
    for name in ("cpu10", "cpu2", "cpuidle", "cpu0"):
        (tmp_path / name).touch()

    assert HostFiles(str(tmp_path)).names("/") == ["cpu0", "cpu2", "cpu10", "cpuidle"]


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,8\n", [0, 1, 2, 3, 8]), ("5", [5]), ("", []), (None, []), ("0,2-3", [0, 2, 3])]
)
def test_cpu_lists(text, numbers):
    assert parse_cpu_list(text and text.strip()) == numbers


def test_meminfo_is_in_bytes_or_plain_counts(tmp_path, write):
    write(str(tmp_path), "/proc/meminfo", "MemTotal:    2048 kB\nHugePages_Total:       8\n")

    assert meminfo(HostFiles(str(tmp_path))) == {"MemTotal": 2 * MB, "HugePages_Total": 8}


def test_swap_areas_with_a_space_in_the_name_and_a_negative_priority(tmp_path, write):
    write(str(tmp_path), "/proc/swaps", "Filename Type Size Used Priority\n/swap\\040file file 1024 512 -2\n")

    assert swap_areas(HostFiles(str(tmp_path))) == [
        {"name": "/swap file", "type": "file", "size_bytes": MB, "used_bytes": 512 * 1024, "priority": -2},
    ]


def test_a_file_is_replaced_with_content_and_mode(tmp_path):
    path = tmp_path / "file"
    write_file(str(path), "old", 0o644)
    write_file(str(path), "new", 0o600)

    assert path.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    write_file(str(path), "old")

    with pytest.raises(UnicodeEncodeError):
        write_file(str(path), "\ud800")

    assert path.read_text(encoding="utf-8") == "old" and os.listdir(tmp_path) == ["file"]


def test_bytes_that_are_not_utf_8_are_written_as_they_were_read(tmp_path):
    write_file(str(tmp_path / "file"), b"M\xfc".decode("utf-8", "surrogateescape"))

    assert (tmp_path / "file").read_bytes() == b"M\xfc"


def test_removing_a_file_returns_whether_it_existed(tmp_path):
    path = str(tmp_path / "file")
    write_file(path, "x")

    assert remove_file(path) and not pathlib.Path(path).exists()
    assert not remove_file(path)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_at_the_name_of_the_new_file_is_not_followed(tmp_path, link):
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_text("precious", encoding="utf-8")
    link(victim, f"{path}.memstretch-new")

    write_file(str(path), "new", 0o600)

    assert victim.read_text(encoding="utf-8") == "precious"
    assert path.read_text(encoding="utf-8") == "new" and not path.is_symlink()


def test_a_file_is_read_up_to_a_size_and_a_pipe_or_link_not_at_all(tmp_path):
    (tmp_path / "file").write_bytes(b"abcdef")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")

    assert read_file(str(tmp_path / "file"), 4) == b"abcd"
    for name in ("pipe", "link", "absent"):
        with pytest.raises(OSError, match=name):
            read_file(str(tmp_path / name), 4)


def test_the_private_directory_is_the_same_each_time_and_private(tmp_path):
    path = private_directory(str(tmp_path))

    assert private_directory(str(tmp_path)) == path
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


@pytest.mark.parametrize("planted", ["link", "file", "open to all"])
def test_a_private_directory_that_is_not_ours_is_refused(tmp_path, planted):
    path = tmp_path / f"memstretch-{os.geteuid()}"
    (tmp_path / "target").mkdir(mode=0o700)
    if planted == "link":
        path.symlink_to("target")
    elif planted == "file":
        path.write_text("", encoding="utf-8")
    else:
        path.mkdir()
        path.chmod(0o777)

    with pytest.raises(OSError, match=f"{path} is not a directory that belongs to user .*; remove it"):
        private_directory(str(tmp_path))


def test_a_private_directory_of_another_user_is_refused(needs_root, tmp_path):
    path = tmp_path / f"memstretch-{os.geteuid()}"
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)

    with pytest.raises(OSError, match=f"{path} is not a directory that belongs to user .*; remove it"):
        private_directory(str(tmp_path))


def test_a_mount_that_a_user_has_made_hides_no_other_one(tmp_path):
    """With FUSE, any user mounts at a directory of any name, with any source."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    lines = (
        "22 1 259:1 / / rw shared:1 master:2 - ext4 /dev/a rw",
        "23 22 0:50 / /home/u/a\x0b\x1cb\u2028c\u00a0d\\040e rw,nosuid - fuse.x x\u2003y\\040z rw,user_id=1000",
        "24 22 259:2 / /srv/caf\u00e9 rw - xfs /dev/b rw,noquota",
    )
    (tmp_path / "proc" / "self" / "mountinfo").write_text("\n".join((*lines, "")), encoding="utf-8")
    assert mounts(HostFiles(str(tmp_path))) == [
        Mount("259:1", "/", "/", "ext4", "/dev/a", "rw"),
        Mount("0:50", "/", "/home/u/a\x0b\x1cb\u2028c\u00a0d e", "fuse.x", "x\u2003y z", "rw,user_id=1000"),
        Mount("259:2", "/", "/srv/caf\u00e9", "xfs", "/dev/b", "rw,noquota"),
    ]


def test_a_directory_is_made_although_another_process_removes_it_at_that_moment(tmp_path, monkeypatch):
    path, real, calls = tmp_path / "a" / "b", os.path.isdir, []

    def removed_meanwhile(name):
        """Remove the directory just before os.makedirs looks whether it is one."""
        if name == str(path) and not calls:
            calls.append(name)
            path.rmdir()
        return real(name)

    path.mkdir(parents=True)
    monkeypatch.setattr(os.path, "isdir", removed_meanwhile)
    make_directory(str(path), 0o700)
    assert calls and path.is_dir()


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_directory(str(tmp_path / "file"))
