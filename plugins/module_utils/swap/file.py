# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap in a file without holes."""

from __future__ import annotations

import os
import stat

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import Area, areas
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import FILE_SYSTEMS, make_file
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import LABEL, read_label
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

    @property
    def directory(self) -> str:
        return os.path.dirname(self.options.file)

    @property
    def file_system(self) -> str:
        return file_system_of(self.files, self.directory)

    def refusals(self) -> list[str]:
        path, directory = self.options.file, self.directory
        if not os.path.isdir(directory) or os.path.realpath(directory) != directory:
            return [f"file: {directory} is not a directory, or a symbolic link is part of its path"]
        texts = []
        if self.file_system not in FILE_SYSTEMS:
            supported = ", ".join(FILE_SYSTEMS)
            texts.append(f"file: {path} would be on {self.file_system}; swap files are supported on {supported}")
        if os.path.lexists(path) and not self._is_ours():
            texts.append(
                f"file: {path} exists and was not created by swap_space. Choose another path, or remove it yourself"
            )
        elif not self.is_made():
            left = self._free_afterwards()
            if left < _RESERVE:
                texts.append(
                    f"file: {path} with {size_text(self.options.file_size)} would leave {size_text(left)} free on its "
                    f"file system; at least {size_text(_RESERVE)} must remain free"
                )
        return texts

    def _is_ours(self) -> bool:
        return stat.S_ISREG(os.lstat(self.options.file).st_mode) and read_label(self.options.file) == LABEL

    def _free_afterwards(self) -> int:
        """Return the bytes that remain free on the file system once the file has its size."""
        free = os.statvfs(self.directory)
        old = os.lstat(self.options.file).st_blocks * 512 if os.path.lexists(self.options.file) else 0
        return free.f_bavail * free.f_frsize + old - self.options.file_size

    def is_made(self) -> bool:
        path = self.options.file
        return os.path.isfile(path) and os.path.getsize(path) == self.options.file_size and read_label(path) == LABEL

    def claim(self) -> Claim:
        return {"files": [self.options.file]}

    def pending(self) -> list[str]:
        if self.is_made():
            return []
        return [f"make the swap file {self.options.file} of {size_text(self.options.file_size)}"]

    def areas_in_the_way(self) -> list[Area]:
        return [] if self.is_made() else [area for area in areas(self.files) if area.name == self.options.file]

    def make(self, save: SaveClaim) -> None:
        if not self.is_made():
            if os.path.exists(self.options.file):
                os.unlink(self.options.file)
            make_file(self.guard, self.options.file, self.options.file_size, self.file_system)

    def locations(self) -> list[Location]:
        return [self.location(self.options.file, self.options.file)] if self.is_made() else []

    def wanted_areas(self) -> list[WantedArea]:
        return [self.wanted(self.options.file, self.options.file_size)]

    def contents(self) -> list[tuple[str, str, str]]:
        size = os.path.getsize(self.options.file) if os.path.isfile(self.options.file) else None
        before = "no file" if size is None else f"our swap file of {size_text(size)}"
        return [(self.options.file, before, f"our swap file of {size_text(self.options.file_size)}")]


def file_system_of(files: HostFiles, directory: str) -> str:
    """Return the type of the file system that a directory is on."""
    longest, kind = "", "no file system"
    for line in (files.text("/proc/self/mountinfo") or "").splitlines():
        words, _dash, rest = line.partition(" - ")
        mount = words.split()[4].encode().decode("unicode_escape")
        if (directory + "/").startswith(mount.rstrip("/") + "/") and len(mount) >= len(longest):
            longest, kind = mount, rest.split()[0]
    return kind
