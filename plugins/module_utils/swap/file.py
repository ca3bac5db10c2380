# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap in a file without holes.

What the kernel swaps out to a file is what programs had in their memory, root's too. So nobody else may be able to
read the file, or to put another one in its place. A file is ours only if our record has its UUID, and it is a regular
file of root's with the mode 0600 and one name, below directories that only root can change.
"""

from __future__ import annotations

import os
import stat
import uuid

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, mounts, unsafe_directory
from ansible_collections.memstretch.density.plugins.module_utils.host.record import DIRECTORY
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import Area, areas
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import (
    FILE_SYSTEMS,
    FormatError,
    make_file,
    new_name,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import LABEL, header_in
from ansible_collections.memstretch.density.plugins.module_utils.swap.kind import (
    Claim,
    Location,
    SaveClaim,
    SwapKind,
    WantedArea,
)

# A swap file leaves at least this much free on its file system.
_RESERVE = 2**30


class SwapFile(SwapKind):
    """Swap in one file."""

    of_target = True

    @property
    def directory(self) -> str:
        return os.path.dirname(self.options.file)

    @property
    def file_system(self) -> str:
        return file_system_of(self.files, self._existing_directory)

    @property
    def _existing_directory(self) -> str:
        """The directory of the file, or the one in which the record's own will be made with the record."""
        own = self.directory == DIRECTORY and not os.path.lexists(DIRECTORY)
        return os.path.dirname(DIRECTORY) if own else self.directory

    @property
    def _identifiers(self) -> list[str]:
        """The UUIDs of our files of that name, which the record lists."""
        return self.recorded.get("files", {}).get(self.options.file, [])

    def refusals(self) -> list[str]:
        path, directory = self.options.file, self._existing_directory
        unsafe = unsafe_directory(directory, "swap file")
        if unsafe:
            return [f"file: {unsafe}"]
        texts = []
        if self.file_system not in FILE_SYSTEMS:
            supported = ", ".join(FILE_SYSTEMS)
            texts.append(
                f"file: {path} would be on {self.file_system}; swap files are supported on {supported}. Choose another "
                "path (swap_space_file)"
            )
        foreign = why_foreign(path, self._identifiers) if os.path.lexists(path) else None
        if foreign:
            texts.append(
                f"file: {path} exists and was not created by swap_space: {foreign}. Choose another path, or remove it "
                "yourself"
            )
        elif not self.is_made():
            room = self._room()
            if room - self.options.file_size < _RESERVE:
                texts.append(
                    f"file: there is no room for {path} with {size_text(self.options.file_size)}: its file system has "
                    f"{size_text(room)} free, and at least {size_text(_RESERVE)} must remain free. Make room, or "
                    "choose another size or path (swap_space_file_size, swap_space_file)"
                )
        return texts

    def _room(self) -> int:
        """Return the bytes that the file may take on its file system, with those that it has already."""
        free = os.statvfs(self._existing_directory)
        old = os.lstat(self.options.file).st_blocks * 512 if os.path.lexists(self.options.file) else 0
        return free.f_bavail * free.f_frsize + old

    def is_made(self) -> bool:
        path = self.options.file
        return why_foreign(path, self._identifiers) is None and os.path.getsize(path) == self.options.file_size

    def claim(self) -> Claim:
        return {"files": {self.options.file: self._identifiers}}

    def pending(self) -> list[str]:
        if self.is_made():
            return []
        return [f"make the swap file {self.options.file} of {size_text(self.options.file_size)}"]

    def areas_in_the_way(self) -> list[Area]:
        return [] if self.is_made() else [area for area in areas(self.files) if area.name == self.options.file]

    def make(self, save: SaveClaim) -> None:
        path, old = self.options.file, self._identifiers
        if self.is_made():
            return
        if os.path.lexists(path):
            foreign = why_foreign(path, old)
            if foreign:
                raise FormatError(f"{path} was not created by swap_space: {foreign}. It was not touched")
            os.unlink(path)
        identifier = uuid.uuid4()
        # Until the file is complete, an interruption leaves either of them.
        save({"files": {path: [*old, identifier.hex]}})
        make_file(self.guard, path, self.options.file_size, self.file_system, identifier)
        save({"files": {path: [identifier.hex]}})

    def locations(self) -> list[Location]:
        return [self.location(self.options.file, self.options.file)] if self.is_made() else []

    def wanted_areas(self) -> list[WantedArea]:
        return [self.wanted(self.options.file, self.options.file_size)]

    def contents(self) -> list[tuple[str, str, str]]:
        size = os.path.getsize(self.options.file) if os.path.isfile(self.options.file) else None
        before = "no file" if size is None else f"our swap file of {size_text(size)}"
        return [(self.options.file, before, f"our swap file of {size_text(self.options.file_size)}")]


def give_back_file(path: str, identifiers: list[str]) -> str | None:
    """Remove a swap file of ours, and what an interrupted run has left of it. Return why it was left alone, or None."""
    unsafe = unsafe_directory(os.path.dirname(path), "swap file")
    if unsafe:
        return unsafe
    if os.path.lexists(new_name(path)):
        os.unlink(new_name(path))
    if not os.path.lexists(path):
        return None
    foreign = why_foreign(path, identifiers)
    if foreign is None:
        os.unlink(path)
    return foreign


def why_foreign(path: str, identifiers: list[str]) -> str | None:
    """Explain why a file is not a swap file of ours, or None if it is.

    Args:
        identifiers: the UUIDs that our record lists for this path.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"it cannot be opened ({error.strerror})"
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != 0o600 or status.st_nlink != 1:
            mode, links = stat.S_IMODE(status.st_mode), status.st_nlink
            return f"it has the owner {status.st_uid}, the mode {mode:04o} and {links} names, not root, 0600 and one"
        found = header_in(descriptor)
        if found is None or found[1] != LABEL:
            return "it has no swap area with our mark"
        return None if found[0] in identifiers else "this host's record does not list its swap area"
    finally:
        os.close(descriptor)


def file_system_of(files: HostFiles, directory: str) -> str:
    """Return the type of the file system that a directory is on."""
    longest, kind = "", "no file system"
    for mount in mounts(files):
        if (directory + "/").startswith(mount.place.rstrip("/") + "/") and len(mount.place) >= len(longest):
            longest, kind = mount.place, mount.kind
    return kind
