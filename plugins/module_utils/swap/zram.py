# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap in zram, and the zram devices of a host."""

from __future__ import annotations

import os
import re
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import Area, SwapError, areas, run
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import write_area
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import (
    LABEL,
    Guard,
    find_tool,
    lacks,
    read_label,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.kind import (
    Claim,
    Location,
    SaveClaim,
    SwapKind,
    WantedArea,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import Options
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import swap_unit, zram_service

_CONTROL = "/sys/class/zram-control"
# In /etc/os-release of Ubuntu, and of distributions that take its kernels.
_OF_UBUNTU = re.compile(r"^ID(_LIKE)?=.*\bubuntu\b", re.MULTILINE)
# MemTotal differs a little between boots. A device whose size is a share of it is kept if it differs by at most this.
_SHARE_TOLERANCE = 0.01
# What modprobe lists for a module that hardened hosts must not load.
_BLOCKED = re.compile(r"^install (?:exec )?(\S*\b(?:true|false))\b", re.MULTILINE)
# udev opens a device that has just been released.
_BUSY_S = 5.0


class Zram:
    """The zram devices of a host: compressed block devices in memory."""

    def __init__(self, guard: Guard) -> None:
        self.guard, self.files = guard, guard.files

    def missing(self) -> str:
        """Explain why this host has no zram; an empty string if it has, loaded or not."""
        if self.loaded():
            return ""
        modprobe = find_tool("modprobe")
        if modprobe is None:
            return f"zram is not loaded, and {lacks('modprobe')}"
        # modprobe's status is also 0 if a command such as /bin/true stands for the module.
        status, steps, _errors = run_to_end(self.guard.run_command, [modprobe, "--show-depends", "--quiet", "zram"])
        blocked = _BLOCKED.search(steps)
        if blocked and not status:
            return (
                "zram is not loaded, and a line in /etc/modprobe.d blocks it, or a module that it needs: "
                f"modprobe would run {blocked.group(1)} in its place. Remove that line"
            )
        if not status:
            return ""
        text = "this kernel has no zram (CONFIG_ZRAM)"
        if _OF_UBUNTU.search(self.files.text("/etc/os-release") or ""):
            release = (self.files.text("/proc/sys/kernel/osrelease") or "").strip()
            text += f"; Ubuntu has the module of its kernels in the package linux-modules-extra-{release}"
        return text

    def loaded(self) -> bool:
        return self.files.exists(_CONTROL)

    def load(self) -> None:
        run(self.guard, ["modprobe", "zram"])
        if not self.loaded():
            raise SwapError(
                "modprobe zram ended without an error, but zram is not loaded; see the lines about it in "
                "/etc/modprobe.d"
            )

    def unload(self) -> None:
        """Remove the module. Raises SwapError if it stays in use: udev opens a device that was reset for a moment."""
        _retry_while_busy(lambda: run(self.guard, ["modprobe", "--remove", "zram"]))

    def numbers(self) -> list[int]:
        return [int(name[4:]) for name in self.files.names("/sys/block") if re.match(r"^zram\d+$", name)]

    def unused(self) -> list[int]:
        """Return the devices that have no size yet."""
        return [number for number in self.numbers() if not self.size(number)]

    def size(self, number: int) -> int:
        return self.files.number(f"/sys/block/zram{number}/disksize") or 0

    def algorithm(self, number: int) -> str | None:
        match = re.search(r"\[([^]]+)\]", self._algorithm_text(number))
        return match.group(1) if match else None

    def algorithms(self, number: int) -> list[str]:
        """Return the algorithms that the kernel offers for a device."""
        return self._algorithm_text(number).replace("[", "").replace("]", "").split()

    def _algorithm_text(self, number: int) -> str:
        return self.files.text(f"/sys/block/zram{number}/comp_algorithm") or ""

    def add(self) -> int:
        """Add a device and return its number: reading the file is what adds it."""
        with open(f"{_CONTROL}/hot_add", encoding="ascii") as file:
            return int(file.read())

    def set_up(self, number: int, size: int, algorithm: str) -> None:
        self._write(number, "comp_algorithm", algorithm)
        self._write(number, "disksize", str(size))

    def reset(self, number: int) -> None:
        """Free a device's memory and its size. Raises SwapError if it stays busy."""
        _retry_while_busy(lambda: self._write(number, "reset", "1"))

    def remove(self, number: int) -> None:
        """Remove a device. Raises OSError if it stays busy."""

        def remove_now() -> None:
            with open(f"{_CONTROL}/hot_remove", "w", encoding="ascii") as file:
                file.write(str(number))

        _retry_while_busy(remove_now)

    def _write(self, number: int, knob: str, value: str) -> None:
        path = f"/sys/block/zram{number}/{knob}"
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(value)
        except OSError as error:
            raise SwapError(f"the kernel rejects {value!r} for {path}: {error.strerror}") from error


class ZramSwap(SwapKind):
    """Swap on zram devices."""

    of_target = True

    def __init__(self, options: Options, guard: Guard, recorded: dict[str, t.Any]) -> None:
        super().__init__(options, guard, recorded)
        self.zram = Zram(guard)
        self.each = options.zram_size // max(1, options.zram_devices) // 4096 * 4096
        # What exists before our first run; later runs find that in the record.
        self._found: Claim = {"existing": self.zram.numbers(), "loaded": self.zram.loaded(), "boot": {}}

    @property
    def discard(self) -> str:
        """zram needs no discard: it frees the memory of a page as soon as the kernel drops the page."""
        return "none"

    def refusals(self) -> list[str]:
        missing = self.zram.missing()
        if missing:
            return [missing]
        offered = next((self.zram.algorithms(number) for number in self.zram.numbers()), None)
        if offered is not None and not set(offered) & set(self.options.zram_algorithm):
            wanted = ", ".join(self.options.zram_algorithm)
            return [f"zram_algorithm: this kernel has none of {wanted}; it has {', '.join(offered)}"]
        return []

    def warnings(self) -> list[str]:
        if self.files.text("/sys/module/zswap/parameters/enabled") == "Y":
            return ["zswap is on and takes pages before they reach zram; use only one of the two"]
        return []

    def claim(self) -> Claim:
        return {"zram": self.recorded.get("zram") or self._found}

    def algorithm(self, number: int) -> str:
        """Return the first algorithm of the options that the kernel offers for a device, or an empty text."""
        offered = self.zram.algorithms(number)
        return next((name for name in self.options.zram_algorithm if name in offered), "")

    def our_numbers(self) -> list[int]:
        """Return the devices with an area of ours, turned on or not."""
        return [
            number
            for number in self.zram.numbers()
            if self.zram.size(number) and read_label(f"/dev/zram{number}") == LABEL
        ]

    def fits(self) -> bool:
        """Check whether the devices already match the options."""
        numbers = self.our_numbers()
        tolerance = self.each * _SHARE_TOLERANCE if self.options.zram_is_share else 0
        return len(numbers) == self.options.zram_devices and all(
            abs(self.zram.size(number) - self.each) <= tolerance
            and self.zram.algorithm(number) == self.algorithm(number)
            for number in numbers
        )

    def pending(self) -> list[str]:
        if self.fits():
            return []
        return [f"set up {self.options.zram_devices} zram device(s) of {size_text(self.each)}"]

    def areas_in_the_way(self) -> list[Area]:
        if self.fits():
            return []
        names = {f"/dev/zram{number}" for number in self.our_numbers()}
        return [area for area in areas(self.files) if area.name in names]

    def make(self, save: SaveClaim) -> None:
        if self.fits():
            return
        if not self.zram.loaded():
            self.zram.load()
        claim = self.claim()["zram"]
        remove_our_devices(self.zram, claim)
        numbers = self.zram.unused()[: self.options.zram_devices]
        while len(numbers) < self.options.zram_devices:
            numbers.append(self.zram.add())
        # If this run is interrupted before the labels are written, the next one finds in the record that these are
        # ours.
        save({"zram": {**claim, "boot": {"id": _boot_id(self.zram), "numbers": numbers}}})
        for number in numbers:
            algorithm = self.algorithm(number)
            if not algorithm:
                raise SwapError(f"zram_algorithm: this kernel has only {', '.join(self.zram.algorithms(number))}")
            self.zram.set_up(number, self.each, algorithm)
            write_area(f"/dev/zram{number}")

    def locations(self) -> list[Location]:
        if not self.fits():
            return []
        return [self.location(f"/dev/zram{number}", f"/dev/zram{number}") for number in self.our_numbers()]

    def wanted_areas(self) -> list[WantedArea]:
        if self.fits():
            return [self.wanted(f"/dev/zram{number}", self.zram.size(number)) for number in self.our_numbers()]
        return [
            self.wanted(f"our zram device {number}", self.each) for number in range(1, self.options.zram_devices + 1)
        ]

    def unit(self, location: Location) -> dict[str, str]:
        number = int(location.path[len("/dev/zram") :])
        service = zram_service(number, self.zram.size(number), self.zram.algorithm(number) or "")
        name = os.path.basename(next(iter(service)))
        return {**service, **swap_unit(location.path, self.options.priority, self.discard, name)}


def remove_our_devices(zram: Zram, claim: dict[str, t.Any]) -> None:
    """Reset our zram devices, and remove those that did not exist before our first run.

    Args:
        claim: the entry C(zram) of the record.
    """
    boot = claim.get("boot", {})
    claimed = set(boot.get("numbers", [])) if boot.get("id") == _boot_id(zram) else set()
    for number in zram.numbers():
        if zram.size(number):
            is_ours = number in claimed or read_label(f"/dev/zram{number}") == LABEL
            if is_ours:
                zram.reset(number)
        else:
            is_ours = number in claimed
        if is_ours and number not in claim["existing"] and claim["loaded"]:
            zram.remove(number)


def _boot_id(zram: Zram) -> str:
    return zram.files.text("/proc/sys/kernel/random/boot_id") or ""


def _retry_while_busy(act: t.Callable[[], object]) -> None:
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            act()
            return
        except (OSError, SwapError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
