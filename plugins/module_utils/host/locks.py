# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks between processes, in files that nobody else can hold.

Any user who can open a file can lock it, for reading too, and keep everybody waiting. So a lock is a separate file in a
directory of ours, never the file or directory that it protects. A wait ends, and its error names who holds the lock.
Who holds it removes its file at the end. Who waited for a file that was removed locks the next one.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import stat
import time
import typing as t
from contextlib import contextmanager

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, private_directory

# Long enough for another module of the same play.
TIMEOUT_S = 60.0
_POLL_S = 0.1


class LockError(OSError):
    """The lock could not be had; the text says who has it."""


@contextmanager
def locked(subject: str, timeout: float = TIMEOUT_S) -> t.Iterator[None]:
    """Let only one process of this user at a time change something. Raises LockError if it is not free in time.

    Args:
        subject: names what is protected, such as the path of a file, and is part of the error.
        timeout: in seconds.
    """
    name = f"{hashlib.sha256(subject.encode()).hexdigest()[:16]}.lock"
    path = os.path.join(private_directory(), name)
    deadline = time.monotonic() + timeout
    while True:
        descriptor = open_lock(path)
        try:
            wait_for(descriptor, deadline, subject)
            if not is_named(descriptor, path):
                continue
            try:
                yield
            finally:
                os.unlink(path)
            return
        finally:
            os.close(descriptor)


def is_named(descriptor: int, path: str) -> bool:
    """Decide whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def open_lock(path: str) -> int:
    """Open the file of a lock, and create it if necessary. Nothing is ever written to it.

    Raises:
        OSError: something else has its name: a link, a device, a file of another user or with a second name.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink < 2:
        return descriptor
    os.close(descriptor)
    raise PermissionError(f"{path} is not a file that this collection has made; remove it")


def wait_for(descriptor: int, deadline: float, subject: str) -> None:
    """Lock an open file. Raises LockError if another process has it until the deadline (of the monotonic clock)."""
    started = time.monotonic()
    while not lock_if_free(descriptor):
        if time.monotonic() > deadline:
            raise LockError(
                f"{subject} has been in use for {time.monotonic() - started:.0f} s by {holder(descriptor)}. Wait "
                "until that ends, then run the same command again"
            )
        time.sleep(_POLL_S)


def lock_if_free(descriptor: int) -> bool:
    """Lock an open file if no other process has it; return whether that is so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(descriptor: int) -> str:
    """Return who holds the lock on an open file, as a text."""
    wanted = os.fstat(descriptor)
    users = opened_by({"lock": wanted})["lock"] - {os.getpid()}
    # The kernel lists locks with the number of the file system that the file is on, which is not always that of stat.
    lines = [line.split() for line in (HostFiles().text("/proc/locks") or "").splitlines()]
    locking = {int(words[4]) for words in lines if words[1] == "FLOCK" and words[5].endswith(f":{wanted.st_ino}")}
    found = sorted(users & locking or users)
    if not found:
        return "another process"
    return ", ".join(f"process {pid} ({command_of(pid)})" for pid in found)


def opened_by(wanted: t.Mapping[str, os.stat_result]) -> dict[str, set[int]]:
    """Return the processes that have each of these files open, as far as this user may look.

    Args:
        wanted: what the files are, by the name that the caller gives them.
    """
    names: dict[tuple[int, int], list[str]] = {}
    for name, status in wanted.items():
        names.setdefault((status.st_dev, status.st_ino), []).append(name)
    found: dict[str, set[int]] = {name: set() for name in wanted}
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            status = os.stat(link)
        except OSError:
            continue  # the process has ended, has closed it, or is another user's
        for name in names.get((status.st_dev, status.st_ino), ()):
            found[name].add(int(link.split("/")[2]))
    return found


def command_of(pid: int) -> str:
    """Return the name of the program that a process runs."""
    return HostFiles().text(f"/proc/{pid}/comm") or "has ended"
