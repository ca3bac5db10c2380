# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The golden image of a fleet, and the linked clones on top of it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.image_names import (
    can_hold_image,
    paths_of_image_name,
)
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHostError

# A block device has no size and no time that mean anything: the kernel makes its node again at each boot. Its beginning
# holds the partition table and, behind 1 MiB, the start of a first file system, which changes when that is mounted.
_HEAD_BYTES = 4 * 2**20
_TAIL_BYTES = 2**20


def file_state(path: str) -> str:
    """Return a value that changes whenever somebody writes to a golden image.

    For a file: its size and modification time. For a block device: its size and a digest of its beginning and end.

    Raises:
        VmHostError: it cannot be read.
    """
    try:
        status = os.stat(path)
        if stat.S_ISBLK(status.st_mode):
            return _device_state(path)
    except OSError as error:
        raise VmHostError(f"golden image: cannot read {path}: {error.strerror}") from error
    return f"{status.st_size}-{status.st_mtime_ns}"


def _device_state(path: str) -> str:
    with open(path, "rb") as device:
        size = device.seek(0, os.SEEK_END)
        digest = hashlib.sha256()
        for place, length in ((0, _HEAD_BYTES), (max(0, size - _TAIL_BYTES), _TAIL_BYTES)):
            device.seek(place)
            digest.update(device.read(length))
    return f"{size}-{digest.hexdigest()[:32]}"


class GoldenImage:
    """The disk that clones are made from, handled with qemu-img."""

    def __init__(self, run_command: RunCommand, qemu_img: str, path: str) -> None:
        self._run_command, self._qemu_img, self.path = run_command, qemu_img, path

    def _info(self) -> dict[str, t.Any]:
        command = [self._qemu_img, "info", "--force-share", "--output=json", self.path]
        return json.loads(run_checked(self._run_command, command, VmHostError))

    def size(self) -> int:
        """Return the size of the disk as a guest sees it."""
        return self._info()["virtual-size"]

    def clone(self, path: str) -> None:
        """Create an empty clone."""
        command = [self._qemu_img, "create", "-q", "-f", "qcow2", "-F", self._info()["format"], "-b", self.path, path]
        run_checked(self._run_command, command, VmHostError)


class ImageChains:
    """What images stand on, read with qemu-img one image at a time.

    So no image is opened that only the header of another one names on another machine.
    """

    def __init__(self, run_command: RunCommand, qemu_img: str) -> None:
        self._run_command, self._qemu_img = run_command, qemu_img
        self._next: dict[str, set[str]] = {}

    def below(self, image: str) -> set[str]:
        """Return the real paths of all images below this one.

        Raises:
            VmHostError: one of them exists and cannot be read.
        """
        found: set[str] = set()
        waiting = [os.path.realpath(image)]
        while waiting:
            new = self._named_by(waiting.pop()) - found
            found |= new
            waiting += new
        return found

    def _named_by(self, image: str) -> set[str]:
        if image not in self._next:
            self._next[image] = self._read(image) if is_image(image) else set()
        return self._next[image]

    def _read(self, image: str) -> set[str]:
        command = [self._qemu_img, "info", "--force-share", "--output=json", image]
        try:
            info = json.loads(run_checked(self._run_command, command, VmHostError))
        except VmHostError as error:
            raise VmHostError(
                f"nothing shows what the image {image} stands on: {error}. Nothing was changed. Repair or remove it, "
                "and run this again"
            ) from error
        names = [info.get("full-backing-filename") or info.get("backing-filename")]
        names.append(info.get("format-specific", {}).get("data", {}).get("data-file"))
        return {
            os.path.realpath(os.path.join(os.path.dirname(image), path))
            for name in names
            if name
            for path in paths_of_image_name(name)
        }


def is_image(path: str) -> bool:
    """Decide whether a path leads to something that can be an image."""
    try:
        return can_hold_image(os.stat(path))
    except OSError:
        return False
