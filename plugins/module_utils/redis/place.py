# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, replace and remove files with their owners, or predict it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import write_file


class Place:
    """The files that one run of the module touches.

    Args:
        check_mode: whether it only predicts.
    """

    def __init__(self, check_mode: bool) -> None:
        self.check_mode = check_mode
        self.changes: list[str] = []
        self.diff: list[dict[str, t.Any]] = []

    def directory(self, path: str, mode: int, uid: int, gid: int) -> bool:
        """Create a directory or give it its owner and mode; return whether that was or would be a change."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            self._note(path, None, f"directory {mode:04o}\n")
            if not self.check_mode:
                os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
                os.mkdir(path, mode)
                os.chown(path, uid, gid)
                os.chmod(path, mode)  # whatever the umask is
            return True
        if not stat.S_ISDIR(status.st_mode):
            raise OSError(errno.ENOTDIR, f"{path} is not a directory; remove it")
        return self._owned(path, status, mode, uid, gid)

    def file(self, path: str, text: str, mode: int, uid: int, gid: int, secret: bool = False) -> bool:
        """Write a file with its owner and mode; return whether that was or would be a change.

        Args:
            path: of the file.
            text: its content.
            mode: its permissions.
            uid: its owner.
            gid: its group.
            secret: whether the content must not be shown.
        """
        try:
            status = os.lstat(path)
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                before: str | None = file.read()
        except FileNotFoundError:
            before = None
        if before == text and stat.S_ISREG(status.st_mode):
            return self._owned(path, status, mode, uid, gid)
        shown = ("(its content is not shown)\n", "(its new content is not shown)\n") if secret else (before or "", text)
        self._note(path, None if before is None else shown[0], shown[1])
        if not self.check_mode:
            write_file(path, text, mode, lambda _directory: os.chown(f"{path}.memstretch-new", uid, gid))
        return True

    def remove(self, path: str, last: str = "") -> bool:
        """Remove a file or a tree; return whether it existed.

        Args:
            path: of the file or the directory.
            last: the name of the entry of the directory that goes last, by which a later run knows what is left.
        """
        if not os.path.lexists(path):
            return False
        self._note(path, "present\n", None)
        if not self.check_mode:
            if os.path.isdir(path) and not os.path.islink(path):
                for entry in sorted(os.scandir(path), key=lambda entry: entry.name == last):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path)
                    else:
                        os.unlink(entry.path)
                os.rmdir(path)
            else:
                os.unlink(path)
        return True

    def remove_empty(self, path: str) -> bool:
        """Remove a directory if nothing is in it; return whether it was removed. Check mode cannot predict that."""
        if self.check_mode:
            return False
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        self._note(path, "present\n", None)
        return True

    def _owned(self, path: str, status: os.stat_result, mode: int, uid: int, gid: int) -> bool:
        was = _permissions(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))
        wanted = _permissions(uid, gid, mode)
        if was == wanted:
            return False
        self._note(path, was, wanted)
        if not self.check_mode:
            os.chown(path, uid, gid)
            os.chmod(path, mode)
        return True

    def _note(self, path: str, before: str | None, after: str | None) -> None:
        if self.check_mode and path in self.changes:
            return  # predicted for another instance already
        self.changes.append(path)
        texts = {"before": before or "", "after": after or ""}
        self.diff.append({"before_header": path, "after_header": path, **texts})


def _permissions(uid: int, gid: int, mode: int) -> str:
    return f"owner {uid}:{gid}, mode {mode:04o}\n"
