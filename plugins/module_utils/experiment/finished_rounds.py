# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The finished rounds of a measurement, in a file from which the next execution goes on after an interruption."""

from __future__ import annotations

import json
import os
import stat
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import remove_file, write_file


class FinishedRounds:
    """What an interrupted execution with the same C(key) has measured.

    Attributes:
        kept: what it gave to save() last, as JSON has it; empty if it kept nothing or its key is another one.
    """

    def __init__(self, path: str, key: t.Mapping[str, t.Any]) -> None:
        self._path, self._key = path, json.loads(json.dumps(key))
        document = _read(path)
        self.kept: dict[str, t.Any] = document["kept"] if document and document["key"] == self._key else {}

    def save(self, kept: t.Mapping[str, t.Any]) -> None:
        """Replace the file by one for the next execution. Atomic."""
        write_file(self._path, json.dumps({"key": self._key, "kept": kept}), 0o600)


def is_kept(path: str) -> bool:
    """Check whether rounds are kept there."""
    return _read(path) is not None


def forget(path: str) -> None:
    """Remove what is kept there, also if it is damaged. A file of somebody else stays."""
    if _content(path) is not None:
        remove_file(path)


def _read(path: str) -> dict[str, t.Any] | None:
    """Read what save() wrote; return None if there is no file of ours, or a damaged one."""
    try:
        document = json.loads(_content(path) or b"")
    except ValueError:
        return None
    whole = isinstance(document, dict) and "key" in document and isinstance(document.get("kept"), dict)
    return document if whole else None


def _content(path: str) -> bytes | None:
    """Return the file's content, or None if there is none of ours: in /var/tmp, anybody may make one of that name."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return None
        return file.read()
