# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change several files of a boot loader, all or none of them.

A boot loader reads a file system without replaying its journal. What fsync() has made safe for Linux may be in the
journal only, so after a power cut the boot loader would follow the old directory to the old file, whose blocks may hold
something else by then. So the journal is flushed, and the blocks of a file that is replaced stay its own until then.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import typing as t
from contextlib import ExitStack, contextmanager, suppress

from ansible_collections.memstretch.density.plugins.module_utils.host.files import remove_file, sync_directory

# No boot loader reads a file with this ending.
COPY = ".memstretch-old"
# EXT4_IOC_CHECKPOINT of Linux, fs/ext4/ext4.h, since version 5.14; its argument is flags.
_EXT4_CHECKPOINT, _NO_FLAGS = 0x4004662B, b"\0\0\0\0"
# Another file system, ext4 without a journal, an older kernel, a container.
_NO_CHECKPOINT = (errno.ENOTTY, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL, errno.EPERM)


class BootLoaderError(Exception):
    """The boot loader cannot be changed; the message is for the user."""


class UnfinishedChangeError(BootLoaderError):
    """A change has failed in the middle, and could not be undone either; the message names the files."""


@contextmanager
def all_or_nothing(paths: t.Iterable[str]) -> t.Iterator[None]:
    """Restore the files if the block fails.

    Each file is copied next to itself first. So a file system that is full or read-only is found before the first
    change, and restoring a file needs no space. At the end the journals of the file systems are flushed. Raises
    BootLoaderError if the block cannot write a file, and UnfinishedChangeError if the files cannot be restored either.
    """
    paths = [os.path.realpath(path) for path in paths]  # a copy must not replace a symbolic link
    copies = {path: path + COPY for path in paths if os.path.exists(path)}
    with ExitStack() as stack:
        for copy in copies.values():
            stack.callback(_remove_copy, copy)
        with _as_boot_loader_error():
            for path, copy in copies.items():
                # While a file is open, nothing else gets its blocks, even if another one has its name.
                stack.enter_context(open(path, "rb"))
                _copy(path, copy)
        try:
            with _as_boot_loader_error():
                yield
                _flush_journals(paths)
        except BaseException as error:
            failed = _restore(paths, copies)
            with suppress(OSError):  # a file system that has become read-only
                _flush_journals(paths)
            if failed:
                raise UnfinishedChangeError(
                    f"{error}. What was changed before that cannot be undone either: {'; '.join(failed)}. The host may "
                    "boot with the old or the new kernel command line. The record of the original one is kept: repair "
                    "the file system, then run the same command again, or restore."
                ) from error
            raise


def _remove_copy(copy: str) -> None:
    with suppress(OSError):  # a file system that has become read-only
        remove_file(copy)


@contextmanager
def _as_boot_loader_error() -> t.Iterator[None]:
    """Raise BootLoaderError for an error of the operating system, such as a full disk."""
    try:
        yield
    except OSError as error:
        raise BootLoaderError(f"the boot loader's files cannot be written: {error}") from error


def _copy(path: str, copy: str) -> None:
    """Copy a file with its mode, owner and security label, and write the copy to the disk.

    A menu may hold the hash of a password, so nobody else may read the copy at any moment.
    """
    with suppress(FileNotFoundError):
        os.unlink(copy)  # left by an interrupted change
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(path, "rb") as file, os.fdopen(os.open(copy, flags, 0o600), "wb") as new:
        status = os.fstat(file.fileno())
        shutil.copyfileobj(file, new)
        new.flush()
        os.fchown(new.fileno(), status.st_uid, status.st_gid)
        shutil.copystat(path, copy)  # with the extended attributes
        os.fsync(new.fileno())


def flush_journal(directory: str) -> None:
    """Write what the journal of a file system holds to where a boot loader reads it.

    On ext4, since Linux 5.14. Elsewhere it is sync(2), which suffices for FAT, which has no journal, and for Btrfs.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, _EXT4_CHECKPOINT, _NO_FLAGS)
    except OSError as error:
        if error.errno not in _NO_CHECKPOINT:
            raise
        os.sync()
    finally:
        os.close(descriptor)


def _flush_journals(paths: t.Iterable[str]) -> None:
    for directory in sorted({os.path.dirname(path) for path in paths}):
        if os.path.isdir(directory):
            flush_journal(directory)


def _restore(paths: t.Iterable[str], copies: t.Mapping[str, str]) -> list[str]:
    """Restore changed files, remove new ones, and return the errors."""
    failed = []
    for path in paths:
        try:
            if path not in copies and os.path.exists(path):
                remove_file(path)
            elif path in copies and _differ(path, copies[path]):
                os.replace(copies[path], path)
                sync_directory(os.path.dirname(path))
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
    return failed


def _differ(path: str, copy: str) -> bool:
    """Check whether a file is gone or has another content than its copy."""
    if not os.path.exists(path):
        return True
    with open(path, "rb") as file, open(copy, "rb") as other:
        return file.read() != other.read()
