# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import stat

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.redis.place import Place


@pytest.fixture(params=[False, True])
def place(request):
    return Place(check_mode=request.param)


def me():
    return os.geteuid(), os.getegid()


def test_a_directory_and_a_file(place, tmp_path):
    home = tmp_path / "a" / "home"
    assert place.directory(str(home), 0o750, *me()) and place.file(str(home / "f"), "new\n", 0o640, *me())
    assert [(each["before_header"], each["after"]) for each in place.diff] == [
        (str(home), "directory 0750\n"),
        (str(home / "f"), "new\n"),
    ]
    if place.check_mode:
        assert not home.parent.exists()
        return
    assert stat.S_IMODE(home.stat().st_mode) == 0o750 and stat.S_IMODE((home / "f").stat().st_mode) == 0o640
    again = Place(False)
    assert not again.directory(str(home), 0o750, *me()) and not again.file(str(home / "f"), "new\n", 0o640, *me())
    assert again.file(str(home / "f"), "new\n", 0o600, *me()) and "mode 0600" in again.diff[0]["after"]
    assert stat.S_IMODE((home / "f").stat().st_mode) == 0o600


def test_a_secret_is_not_in_the_diff(place, tmp_path):
    path = tmp_path / "acl"
    path.write_text("old hash", encoding="utf-8")
    assert place.file(str(path), "new hash", 0o600, *me(), secret=True)
    assert "hash" not in str(place.diff)
    assert path.read_text(encoding="utf-8") == ("old hash" if place.check_mode else "new hash")


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "f"
    victim.write_text("text", encoding="utf-8")
    path.symlink_to(victim)
    assert Place(False).file(str(path), "text", 0o600, *me())
    assert not path.is_symlink() and stat.S_IMODE(victim.stat().st_mode) != 0o600


def test_a_tree_is_removed_and_a_link_in_it_is_not_followed(place, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    assert place.remove(str(tmp_path / "tree")) and not place.remove(str(tmp_path / "nothing"))
    assert (tmp_path / "tree").exists() is place.check_mode and (tmp_path / "kept").exists()


def test_what_tells_a_later_run_what_is_left_goes_last(tmp_path, monkeypatch):
    """A run that is killed while it removes the data leaves the configuration, so the next one goes on."""
    home = tmp_path / "home"
    (home / "appendonlydir").mkdir(parents=True)
    for name in ("dump.rdb", "redis.conf", "users.acl", "appendonlydir/1.aof"):
        (home / name).write_text("x", encoding="utf-8")
    unlink = os.unlink

    def killed(path, **options):
        if os.path.basename(path) == "users.acl":
            raise KeyboardInterrupt
        unlink(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            Place(False).remove(str(home), last="redis.conf")
    assert (home / "redis.conf").exists()
    assert Place(False).remove(str(home), last="redis.conf") and not home.exists()
