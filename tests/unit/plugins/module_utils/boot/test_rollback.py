# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several files that are changed together or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import rollback
from ansible_collections.memstretch.density.plugins.module_utils.boot.rollback import (
    COPY,
    BootLoaderError,
    UnfinishedChangeError,
    all_or_nothing,
)


class Stop(Exception):
    pass


@pytest.fixture
def files(tmp_path):
    """Two files that exist and one that does not."""
    paths = [str(tmp_path / name) for name in ("menu", "defaults", "drop-in")]
    for path in paths[:2]:
        with open(path, "w", encoding="ascii") as file:
            file.write("old\n")
    os.chmod(paths[0], 0o600)
    return paths


def change(paths):
    for path in paths:
        with open(path, "w", encoding="ascii") as file:
            file.write("new\n")


def contents(paths):
    return [open(path, encoding="ascii").read() if os.path.exists(path) else None for path in paths]


def test_a_change_that_succeeds_stays_and_leaves_no_copy(files, tmp_path):
    with all_or_nothing(files):
        assert os.path.exists(files[0] + COPY)
        change(files)
    assert contents(files) == ["new\n"] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["defaults", "drop-in", "menu"]


@pytest.mark.parametrize("error, raised", [(Stop(), Stop), (OSError(errno.ENOSPC, "full"), BootLoaderError)])
def test_a_change_that_fails_is_undone(files, tmp_path, error, raised):
    with pytest.raises(raised), all_or_nothing(files):
        change(files)
        os.remove(files[1])
        raise error
    assert contents(files) == ["old\n", "old\n", None]
    assert os.stat(files[0]).st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["defaults", "menu"]


def test_nobody_else_can_read_a_copy_while_it_is_made(files, monkeypatch):
    """A boot menu may hold the hash of a password."""
    seen = []
    write = shutil.copyfileobj

    def look(source, target):
        seen.append(stat.S_IMODE(os.fstat(target.fileno()).st_mode))
        write(source, target)

    monkeypatch.setattr(shutil, "copyfileobj", look)
    old = os.umask(0)
    try:
        with all_or_nothing(files):
            assert [stat.S_IMODE(os.stat(path + COPY).st_mode) for path in files[:2]] == [
                stat.S_IMODE(os.stat(path).st_mode) for path in files[:2]
            ]
    finally:
        os.umask(old)
    assert seen == [0o600, 0o600]


def test_a_copy_never_follows_a_link(files, tmp_path):
    (tmp_path / "victim").write_text("precious", encoding="ascii")
    os.symlink(tmp_path / "victim", files[0] + COPY)
    with all_or_nothing(files):
        pass
    assert (tmp_path / "victim").read_text(encoding="ascii") == "precious"


def test_a_symbolic_link_stays_one(files, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(files[0])
    with pytest.raises(Stop), all_or_nothing([str(link)]):
        change([str(link)])
        raise Stop
    assert link.is_symlink() and link.read_text(encoding="ascii") == "old\n"


def test_nothing_is_changed_where_no_copy_can_be_made(files, monkeypatch):
    def fail(path, copy):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(rollback, "_copy", fail)
    begun = []
    with pytest.raises(BootLoaderError, match="Read-only file system"), all_or_nothing(files):
        begun.append(1)
    assert not begun and contents(files) == ["old\n", "old\n", None]


def test_files_that_cannot_be_restored_are_named(files, monkeypatch):
    def fail(source, target):
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(UnfinishedChangeError) as caught, all_or_nothing(files):
        change(files[:1])
        monkeypatch.setattr(os, "replace", fail)
        raise BootLoaderError("the generator failed")
    assert "the generator failed" in str(caught.value) and f"{files[0]}: Input/output error" in str(caught.value)
    assert files[1] not in str(caught.value), "it was not changed"
