# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owner file of a fleet's directory: whose the directory is, and the lock on the fleet.

Its first line is the fleet's name. The salt follows, from which the UUIDs of VMs and networks and the MAC addresses of
VMs are derived. Then come the names of the VMs whose disks the fleet has created, and of the networks that it has made.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import (
    make_directory,
    sync_directory,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import lock_if_free
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import POLL_S, VmHostError

OWNER_FILE = ".memstretch-fleet"
LOCK_S = 600
_SALT = re.compile(r"salt ([0-9a-f]{32})")
_LINE = re.compile(r"disk (?P<disk>.+)|network (?P<network>.+)")


class Ownership(t.NamedTuple):
    """The content of an owner file."""

    fleet: str
    salt: str
    disks: tuple[str, ...] = ()  # names of VMs
    networks: tuple[str, ...] = ()


class OwnerFile:
    """The owner file of one directory. A process that changes the fleet holds it open and locked."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.path = os.path.join(directory, OWNER_FILE)
        self._held: list[int] = []

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def read(self) -> Ownership | None:
        """Return the content, None if there is no file or an empty one, which an interrupted run has left.

        Raises:
            VmHostError: this is not an owner file.
        """
        try:
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        if not text:
            return None
        lines = text.rstrip("\n").split("\n")
        salt = _SALT.fullmatch(lines[1]) if len(lines) > 1 else None
        matches = [_LINE.fullmatch(line) for line in lines[2:]]
        if salt is None or None in matches:
            raise VmHostError(
                f"directory: the owner file {self.path} is damaged. Nothing was changed. Put it back from a backup. "
                "Without one, undefine the fleet's VMs with virsh, remove the directory by hand, and run this again"
            )
        disks = tuple(match["disk"] for match in matches if match and match["disk"])
        networks = tuple(match["network"] for match in matches if match and match["network"])
        return Ownership(lines[0], salt[1], disks, networks)

    @contextlib.contextmanager
    def locked(self, create: bool) -> t.Iterator[None]:
        """Keep other processes from changing the fleet.

        Args:
            create: create the directory and the file if they are missing. They are removed again if nothing was
                written to the file. Otherwise a missing file is not locked: then there is no fleet to change.

        Raises:
            VmHostError: another process has held the lock for C(LOCK_S) seconds.
        """
        made = create and not os.path.isdir(self.directory)
        descriptor = self._open_locked(create)
        self._held = [] if descriptor is None else [descriptor]
        try:
            yield
        finally:
            try:
                if self._held and os.fstat(self._held[-1]).st_size == 0:
                    self._remove_unused(made)
            finally:
                for each in self._held:
                    os.close(each)
                self._held = []

    def write(self, ownership: Ownership) -> None:
        """Replace the content atomically. The lock must be held, and is held on the new file as well."""
        lines = [ownership.fleet, f"salt {ownership.salt}"]
        lines += [f"disk {name}" for name in ownership.disks]
        lines += [f"network {name}" for name in ownership.networks]
        new = f"{self.path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._held.append(descriptor)
        # Before the rename: nobody can open and lock the new file while this process still works.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as file:
            file.write("\n".join(lines) + "\n")
        os.fsync(descriptor)
        os.replace(new, self.path)
        sync_directory(self.directory)

    def _open_locked(self, create: bool) -> int | None:
        deadline = time.monotonic() + LOCK_S
        while True:
            descriptor = self._open(create)
            if descriptor is None:
                return None
            try:
                self._wait_for_lock(descriptor, deadline)
            except BaseException:
                os.close(descriptor)
                raise
            if self._is_current(descriptor):
                return descriptor
            os.close(descriptor)  # the process that held the lock has removed or replaced the file

    def _open(self, create: bool) -> int | None:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        while True:
            if create:
                make_directory(self.directory, 0o711)
            try:
                return os.open(self.path, flags, 0o600)
            except FileNotFoundError:
                if not create:
                    return None  # with create, another process has just removed the directory
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise VmHostError(
                    f"directory: {self.path} is a symbolic link, not the owner file of a fleet"
                ) from error

    def _wait_for_lock(self, descriptor: int, deadline: float) -> None:
        while not lock_if_free(descriptor):
            if time.monotonic() > deadline:
                raise VmHostError(
                    f"another process has been changing the fleet in {self.directory} for {LOCK_S} s; "
                    "wait until it has ended, then run this again"
                )
            time.sleep(POLL_S)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _remove_unused(self, made: bool) -> None:
        if self._is_current(self._held[-1]):
            os.unlink(self.path)
        if made and os.path.isdir(self.directory) and not os.listdir(self.directory):
            os.rmdir(self.directory)
