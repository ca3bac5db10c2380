# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fcntl
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.owner import OWNER_FILE, OwnerFile, Ownership

OWNERSHIP = Ownership("redis", "0123456789abcdef" * 2, ("redis-001", "two words"), ("redis",))


def lockable(path):
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_what_is_written_is_read_and_only_the_owner_can_read_it(tmp_path):
    owner = OwnerFile(str(tmp_path / "fleet"))
    assert owner.read() is None and not owner.exists()
    with owner.locked(create=True):
        owner.write(OWNERSHIP)
    assert owner.read() == OWNERSHIP
    assert os.stat(owner.path).st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "fleet") == [OWNER_FILE]


def test_the_lock_holds_on_the_replaced_file_too(tmp_path):
    owner = OwnerFile(str(tmp_path))
    with owner.locked(create=True):
        assert not lockable(owner.path)
        owner.write(OWNERSHIP)
        assert not lockable(owner.path)
        owner.write(OWNERSHIP._replace(disks=()))
        assert not lockable(owner.path)
    assert lockable(owner.path)


def test_a_run_that_writes_nothing_leaves_nothing(tmp_path):
    with OwnerFile(str(tmp_path / "fleet")).locked(create=True):
        pass
    assert os.listdir(tmp_path) == []
    with OwnerFile(str(tmp_path)).locked(create=True):
        pass
    assert os.listdir(tmp_path) == []  # an existing directory stays


def test_a_missing_file_is_not_created_to_lock_it(tmp_path):
    with OwnerFile(str(tmp_path / "fleet")).locked(create=False):
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "text, ownership",
    [
        ("", None),  # an interrupted run
        (f"redis\nsalt {OWNERSHIP.salt}\n", Ownership("redis", OWNERSHIP.salt)),
        (f"redis\nsalt {OWNERSHIP.salt}\ndisk redis-001\ndisk two words\nnetwork redis\n", OWNERSHIP),
    ],
)
def test_files_that_other_runs_have_left(tmp_path, text, ownership):
    (tmp_path / OWNER_FILE).write_text(text, encoding="utf-8")
    assert OwnerFile(str(tmp_path)).read() == ownership


@pytest.mark.parametrize(
    "lines",
    [
        *("", "salt 12\n", "salt\n", "other\n", f"disk redis-001\nsalt {OWNERSHIP.salt}\n"),
        *(f"salt {OWNERSHIP.salt}\n{line}\n" for line in ("disk ", "network ", "other", f"salt {OWNERSHIP.salt}")),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, lines):
    (tmp_path / OWNER_FILE).write_text(f"redis\n{lines}", encoding="utf-8")
    with pytest.raises(VmHostError, match="is damaged"):
        OwnerFile(str(tmp_path)).read()


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / OWNER_FILE).symlink_to(tmp_path / "target")
    with pytest.raises(VmHostError, match="symbolic link"), OwnerFile(str(tmp_path)).locked(create=True):
        pass
    assert not (tmp_path / "target").exists()
