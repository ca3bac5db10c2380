# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change several files of a boot loader, all or none of them."""

from __future__ import annotations

import os
import shutil
import typing as t
from contextlib import contextmanager, suppress

from ansible_collections.memstretch.density.plugins.module_utils.host.files import remove_file, sync_directory

# No boot loader reads a file with this ending.
COPY = ".memstretch-old"


class BootLoaderError(Exception):
    """The boot loader cannot be changed; the message is for the user."""


class UnfinishedChangeError(BootLoaderError):
    """A change has failed in the middle, and could not be undone either; the message names the files."""


@contextmanager
def all_or_nothing(paths: t.Iterable[str]) -> t.Iterator[None]:
    """Restore the files if the block fails.

    Each file is copied next to itself first. So a file system that is full or read-only is found before the first
    change, and restoring a file needs no space. Raises BootLoaderError if the block cannot write a file, and
    UnfinishedChangeError if the files cannot be restored either.
    """
    paths = [os.path.realpath(path) for path in paths]  # a copy must not replace a symbolic link
    copies = {path: path + COPY for path in paths if os.path.exists(path)}
    try:
        with _as_boot_loader_error():
            for path, copy in copies.items():
                _copy(path, copy)
        try:
            with _as_boot_loader_error():
                yield
        except BaseException as error:
            failed = _restore(paths, copies)
            if failed:
                raise UnfinishedChangeError(
                    f"{error}. What was changed before that cannot be undone either: {'; '.join(failed)}. The host may "
                    "boot with the old or the new kernel command line. The record of the original one is kept: repair "
                    "the file system, then run the same command again, or restore."
                ) from error
            raise
    finally:
        for copy in copies.values():
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
    """Copy a file with its mode and its security label, and write the copy to the disk."""
    shutil.copy2(path, copy)
    descriptor = os.open(copy, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    """Return whether a file is gone or has another content than its copy."""
    if not os.path.exists(path):
        return True
    with open(path, "rb") as file, open(copy, "rb") as other:
        return file.read() != other.read()
