# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of a host's original settings, kept on the host itself.

Each module that changes a host has one record, a JSON file below C(DIRECTORY). The record is written to the disk before
the first change: after a power cut at any moment, either the host is unchanged or there is a record to restore it from.
An original value is recorded once and never overwritten.

A record carries the identity of its host, so that a clone of the host's disk does not restore the values of another
host.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
import typing as t
from contextlib import contextmanager

from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    make_directory,
    remove_file,
    sync_directory,
    write_file,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import (
    TIMEOUT_S,
    LockError,
    open_lock,
    wait_for,
)

DIRECTORY = "/var/lib/memstretch"
SCHEMA = 1
MACHINE_ID = "/etc/machine-id"
LOCK = ".lock"


class HostRecordError(Exception):
    """The record cannot be used; the message says what to do."""


def host_identity(path: str = MACHINE_ID) -> str | None:
    """Return a hash of the host's machine ID, or None if the host has none.

    machine-id(5) asks programs to keep the ID itself confidential and to hash it together with a fixed text.
    """
    try:
        with open(path, encoding="ascii") as file:
            machine_id = file.read().strip()
    except FileNotFoundError:
        return None
    if machine_id in ("", "uninitialized"):
        return None
    return hashlib.sha256(f"memstretch.density:{machine_id}".encode()).hexdigest()[:32]


class HostRecord:
    """The record of one module: C({"schema": 1, "host": ...}) with the module's own keys.

    How a module uses it: C(read) and compute the difference. If something has to change, and not in check mode, take
    the lock with C(locked) and start again: C(read), compute the difference from the host as it is now, and C(write)
    before the first change. What was computed without the lock only shows whether anything has to change.
    """

    def __init__(self, name: str, directory: str = DIRECTORY, machine_id: str = MACHINE_ID) -> None:
        self.name, self.directory, self._identity = name, directory, host_identity(machine_id)
        self.path = os.path.join(directory, f"{name}.json")
        self._is_locked = False

    def read(self) -> dict[str, t.Any] | None:
        """Return the record, or None if it does not exist.

        Raises HostRecordError if it cannot be understood, or is the record of another host.
        """
        data = self._load()
        if data is None:
            return None
        host = data.pop("host", None)
        # A host without a machine ID writes none, and reads only such a record.
        if host != self._identity:
            raise HostRecordError(
                f"{self.path} has the original settings of another host: its identity is {host}, and this host's is "
                f"{self._identity or 'unknown (it has no machine ID)'}. If this host was cloned from that one, remove "
                "the file: its values are not this host's. If it is the same host with a new machine ID, correct "
                '"host" in the file.'
            )
        return data

    def _load(self) -> dict[str, t.Any] | None:
        """Return the content of the file, or None if it does not exist."""
        try:
            with open(self.path, encoding="utf-8") as file:
                data = json.load(file)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise HostRecordError(
                f"{self.path} has this host's original settings and cannot be read ({error}). Restore the file from a "
                "backup, or restore the host's settings by hand and remove the file."
            ) from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            schema = data.get("schema") if isinstance(data, dict) else None
            raise HostRecordError(
                f"{self.path} was written by another version of this collection (its schema is {schema}, this version "
                f"reads {SCHEMA}). Restore the host with that version."
            )
        return data

    def write(self, data: dict[str, t.Any]) -> None:
        """Write the record to the disk."""
        self._make_directory()
        identity = {"host": self._identity} if self._identity else {}
        write_file(self.path, json.dumps({**data, "schema": SCHEMA, **identity}, indent=1) + "\n", 0o600)
        sync_directory(os.path.dirname(self.directory))

    def remove(self) -> None:
        """Remove the record, once all originals are restored, and the directory with the last record.

        If this process holds the lock, the directory is removed when the lock is released.
        """
        remove_file(self.path)
        if not self._is_locked:
            self._remove_empty_directory()

    def _remove_empty_directory(self) -> None:
        """Remove the directory if it holds no record."""
        try:
            if os.listdir(self.directory) == [LOCK]:
                os.unlink(os.path.join(self.directory, LOCK))
            os.rmdir(self.directory)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return  # a file system is mounted on it
            if not os.path.isdir(self.directory) or os.listdir(self.directory):
                return  # it has the record of another module
            raise

    @contextmanager
    def locked(self, timeout: float = TIMEOUT_S) -> t.Iterator[None]:
        """Let only one process at a time change the host. Raises HostRecordError if the lock is not free in time.

        Afterwards, the directory exists only if it has a record.
        """
        path = os.path.join(self.directory, LOCK)
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._make_directory()
                descriptor = open_lock(path)
            except FileNotFoundError:
                continue  # another process has removed the directory with its last record
            try:
                wait_for(descriptor, deadline, f"the record of this host's settings ({path})")
                # Another process may have removed the file, with the directory, before we locked it.
                if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    break
            except LockError as error:
                os.close(descriptor)
                raise HostRecordError(str(error)) from None
            os.close(descriptor)
        self._is_locked = True
        try:
            yield
        finally:
            self._is_locked = False
            self._remove_empty_directory()
            os.close(descriptor)

    def _make_directory(self) -> None:
        """Make the directory. Anybody else who could write to it could replace originals and lock us out."""
        make_directory(self.directory, 0o700)
        status = os.lstat(self.directory)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise HostRecordError(
                f"{self.directory} must be a directory that only user {os.geteuid()} can write to. Find out who made "
                "it and what is in it before you correct that"
            )
