# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The swap areas of a host: which are in use and ours, turned on and off, and the zram devices some of them are on.

An area is ours when its label says so (block_guard.LABEL), whatever it is on and whoever has turned it on.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo, swap_areas
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import (
    LABEL,
    Guard,
    device_number,
    find_tool,
    read_header,
)

ZRAM_CONTROL = "/sys/class/zram-control"


class SwapError(Exception):
    """The host cannot be brought to what is asked for; the text says why."""


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
        """What names the area after the next boot, too."""
        by_uuid = f"/dev/disk/by-uuid/{uuid_text(self.uuid)}"
        if self.is_file or not self.uuid or os.path.basename(self.name).startswith("zram"):
            return self.name
        return by_uuid if device_number(by_uuid) == device_number(self.name) else self.name

    def __str__(self) -> str:
        return f"{self.name} ({size_text(self.size)}, {size_text(self.used)} used, priority {self.priority})"


def areas(files: HostFiles) -> list[Area]:
    """Return the swap areas in use."""
    found = []
    for entry in swap_areas(files):
        # A deleted file stays in use under a name that tells so; nobody can read its header, or turn it on again.
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
    """Return 32 hexadecimal digits as UUIDs are written."""
    return "-".join(re.match(r"(.{8})(.{4})(.{4})(.{4})(.{12})$", identifier).groups()) if identifier else ""


def head_room(files: HostFiles, leaving: list[Area], reserve: int) -> str | None:
    """Say why the areas cannot be turned off, or None: what is in them has to fit into the memory, and leave a reserve."""
    used = sum(area.used for area in leaving)
    available = meminfo(files).get("MemAvailable", 0)
    if not used or used < available - reserve:
        return None
    names = ", ".join(area.name for area in leaving if area.used)
    return (
        f"{size_text(used)} are swapped out to {names}, and would have to fit into memory: {size_text(available)} are available, of which "
        f"reserve keeps {size_text(reserve)}. Stop what needs the memory, or lower reserve"
    )


def turn_on(guard: Guard, name: str, priority: int, discard: str) -> None:
    """Use an area. A negative priority is the kernel's own choice and cannot be asked for."""
    command = ["swapon", *(["--priority", str(priority)] if priority >= 0 else [])]
    command += {"none": [], "both": ["--discard"]}.get(discard, [f"--discard={discard}"])
    run(guard, [*command, name])


def turn_off(guard: Guard, name: str) -> None:
    """Stop using an area; what is in it goes back to memory."""
    run(guard, ["swapoff", name])


class Zram:
    """The compressed block devices in memory."""

    def __init__(self, guard: Guard) -> None:
        self.guard, self.files = guard, guard.files

    def available(self) -> bool:
        """Return whether the kernel has zram, loaded or not."""
        if self.files.exists(ZRAM_CONTROL):
            return True
        modprobe = find_tool("modprobe")
        return bool(modprobe) and self.guard.run_command([modprobe, "--dry-run", "--quiet", "zram"])[0] == 0

    def loaded(self) -> bool:
        return self.files.exists(ZRAM_CONTROL)

    def load(self) -> None:
        run(self.guard, ["modprobe", "zram"])

    def numbers(self) -> list[int]:
        return [int(name[4:]) for name in self.files.names("/sys/block") if re.match(r"^zram\d+$", name)]

    def size(self, number: int) -> int:
        return self.files.number(f"/sys/block/zram{number}/disksize") or 0

    def algorithm(self, number: int) -> str | None:
        match = re.search(r"\[([^]]+)\]", self.files.text(f"/sys/block/zram{number}/comp_algorithm") or "")
        return match.group(1) if match else None

    def algorithms(self, number: int) -> list[str]:
        return (
            (self.files.text(f"/sys/block/zram{number}/comp_algorithm") or "").replace("[", "").replace("]", "").split()
        )

    def free(self) -> list[int]:
        """Return the devices that nobody has given a size."""
        return [number for number in self.numbers() if not self.size(number)]

    def add(self) -> int:
        """Add a device and return its number: reading the file is what adds it."""
        with open(f"{ZRAM_CONTROL}/hot_add", encoding="ascii") as file:
            return int(file.read())

    def set_up(self, number: int, size: int, algorithm: str) -> None:
        self.write(number, "comp_algorithm", algorithm)
        self.write(number, "disksize", str(size))

    def reset(self, number: int) -> None:
        self.write(number, "reset", "1")

    def remove(self, number: int) -> None:
        with open(f"{ZRAM_CONTROL}/hot_remove", "w", encoding="ascii") as file:
            file.write(str(number))

    def write(self, number: int, knob: str, value: str) -> None:
        path = f"/sys/block/zram{number}/{knob}"
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(value)
        except OSError as error:
            raise SwapError(f"the kernel does not take {value!r} for {path}: {error.strerror}") from error


def run(guard: Guard, command: list[str]) -> str:
    """Run a program that has to succeed, and return its output."""
    status, output, errors = guard.run_command(command)
    if status:
        raise SwapError(f"{' '.join(command)} ended with status {status}: {errors.strip() or output.strip()}")
    return output
