# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host was before we changed it, kept on the host itself.

Each module that changes a host owns one record, a JSON file below L(DIRECTORY). It is written to the disk before the first
change, so that a power cut at any moment leaves either a host that was not touched or a record to restore it from. An original
value is entered once and never overwritten.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import typing as t
from contextlib import contextmanager

from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    remove_file,
    sync_directory,
    write_file,
)

DIRECTORY = "/var/lib/memstretch"
SCHEMA = 1
# Long enough for another module of the same play; a play that lasts longer than this is somebody else's.
LOCK_TIMEOUT_S = 60.0


class HostRecordError(Exception):
    """The record cannot be used; the text says what to do."""


class HostRecord:
    """One module's record: C({"schema": 1, ...}), whatever the module puts beside the schema.

    Usage in a module: read it, compute the difference, and only if something has to change (and not in check mode) enter
    L(locked), read it again and L(write) it before the first change.
    """

    def __init__(self, name: str, directory: str = DIRECTORY) -> None:
        self.name, self.directory = name, directory
        self.path = os.path.join(directory, f"{name}.json")

    def read(self) -> dict[str, t.Any] | None:
        """Return the record, or None if there is none. Raises HostRecordError for one that cannot be understood."""
        try:
            with open(self.path, encoding="utf-8") as file:
                data = json.load(file)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise HostRecordError(
                f"{self.path} holds this host's original settings and cannot be read ({error}). Restore the file from a backup, or "
                "set the host right by hand and remove the file."
            ) from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise HostRecordError(
                f"{self.path} was written by another version of this collection (schema {data.get('schema') if isinstance(data, dict) else None}, "
                f"known is {SCHEMA}). Restore the host with that version."
            )
        return data

    def write(self, data: dict[str, t.Any]) -> None:
        """Put the record on the disk."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        write_file(self.path, json.dumps({**data, "schema": SCHEMA}, indent=1) + "\n", 0o600)
        sync_directory(os.path.dirname(self.directory))

    def remove(self) -> None:
        """Forget the originals, once they are all in force again; the directory goes with the last record."""
        remove_file(self.path)
        try:
            if os.listdir(self.directory) == [".lock"]:
                os.unlink(os.path.join(self.directory, ".lock"))
            os.rmdir(self.directory)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return  # a file system is mounted there
            if not os.path.isdir(self.directory) or os.listdir(self.directory):
                return  # another module's record is there
            raise

    @contextmanager
    def locked(self, timeout: float = LOCK_TIMEOUT_S) -> t.Iterator[None]:
        """Let one process at a time change the host. Raises HostRecordError if another one goes on for too long."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        path = os.path.join(self.directory, ".lock")
        deadline = time.monotonic() + timeout
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # It may have been removed, with the directory, between the two.
                if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    raise HostRecordError(
                        f"another process has been changing this host's settings for {timeout:g} s (it holds {path}); wait for it "
                        "to end, then run the same command again"
                    ) from None
                time.sleep(0.1)
            os.close(descriptor)
        try:
            yield
        finally:
            os.close(descriptor)
