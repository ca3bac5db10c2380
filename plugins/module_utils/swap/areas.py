# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The swap areas of a host: which are in use, which of them are ours, and how they are turned on and off.

An area is ours if it has our label (guard.LABEL), whatever it is on and whatever turned it on.
"""

from __future__ import annotations

import glob
import os
import typing as t
import uuid

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import run_checked
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo, swap_areas
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import device_number
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import LABEL, Guard, read_header

# MAX_SWAPFILES of a kernel with all the options that lower it, as distributions build it, see swapon(2).
MOST_AREAS = 23
_STABLE_NAMES = ("/dev/mapper/*", "/dev/disk/by-partuuid/*", "/dev/disk/by-id/*")


class SwapError(Exception):
    """The host's swap cannot be changed as requested; the text gives the reason."""


class Area(t.NamedTuple):
    """A swap area that is in use."""

    name: str
    size: int
    used: int
    priority: int
    uuid: str
    ours: bool
    is_file: bool

    @property
    def source(self) -> str:
        """A path that still names the area after a reboot, if it has one."""
        by_uuid = f"/dev/disk/by-uuid/{uuid_text(self.uuid)}"
        if self.is_file or not self.uuid or os.path.basename(self.name).startswith("zram"):
            return self.name
        return by_uuid if device_number(by_uuid) == device_number(self.name) else self.name

    @property
    def other_names(self) -> list[str]:
        """Other paths that stay the same over reboots. Swap with a random key gets a new UUID at each boot."""
        number = None if self.is_file else device_number(self.name)
        paths = [path for pattern in _STABLE_NAMES for path in sorted(glob.glob(pattern))] if number else []
        return [path for path in paths if path != self.source and device_number(path) == number]

    def __str__(self) -> str:
        return f"{self.name} ({size_text(self.size)}, {size_text(self.used)} used, priority {self.priority})"


def areas(files: HostFiles) -> list[Area]:
    """Return the swap areas in use."""
    found = []
    for entry in swap_areas(files):
        # A deleted file stays in use, and its name ends in "(deleted)"; its header can no longer be read.
        identifier, label = read_header(entry["name"]) or ("", "")
        found.append(
            Area(
                entry["name"],
                entry["size_bytes"],
                entry["used_bytes"],
                entry["priority"],
                identifier,
                label == LABEL,
                entry["type"] == "file",
            )
        )
    return found


def uuid_text(identifier: str) -> str:
    """Return 32 hexadecimal digits as a UUID is written; an empty text stays empty."""
    return str(uuid.UUID(identifier)) if identifier else ""


def head_room(files: HostFiles, leaving: list[Area], reserve: int) -> str | None:
    """Explain why the areas cannot be turned off, or None.

    What is swapped out to them must fit into the available memory, and the reserve must remain free.
    """
    used = sum(area.used for area in leaving)
    available = meminfo(files).get("MemAvailable", 0)
    if not used or used < available - reserve:
        return None
    names = ", ".join(area.name for area in leaving if area.used)
    return (
        f"{size_text(used)} are swapped out to {names} and must go back to memory, but only {size_text(available)} are "
        f"available, of which the option reserve keeps {size_text(reserve)}. Stop programs that need memory, or lower "
        "reserve"
    )


def too_many(wanted: int, others: int) -> str | None:
    """Explain why a host cannot use all these areas, or None.

    Args:
        wanted: the number of areas that the options ask for.
        others: the number of other areas that stay in use.
    """
    if wanted + others <= MOST_AREAS:
        return None
    in_use = f", and {others} others are in use" if others else ""
    return (
        f"the options ask for {wanted} swap areas{in_use}, but the kernel allows {MOST_AREAS}. Lower partitions "
        "or zram_devices, or name fewer devices"
    )


def turn_on(guard: Guard, name: str, priority: int, discard: str) -> None:
    """Turn an area on. With a negative priority, the kernel chooses one; negative ones cannot be requested."""
    command = ["swapon", *(["--priority", str(priority)] if priority >= 0 else [])]
    command += {"none": [], "both": ["--discard"]}.get(discard, [f"--discard={discard}"])
    run(guard, [*command, name])


def turn_off(guard: Guard, name: str) -> None:
    """Turn an area off; what is swapped out to it goes back to memory."""
    run(guard, ["swapoff", name])


def run(guard: Guard, command: list[str]) -> str:
    """Run a command and return its output. Raises SwapError if it fails."""
    return run_checked(guard.run_command, command, SwapError)
