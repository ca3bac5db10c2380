# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all kinds of swap have in common, and the kind for a host that gets none.

A kind looks at the host when it is constructed. Until C(make) nothing is changed: C(refusals) lists what forbids the
swap, C(pending) what has still to be made, C(claim) what goes into the host's record before that. C(make) may be
repeated after an interruption. Then C(locations) lists the areas, and C(units) the systemd units that turn them on at
boot.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import Area
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import Options
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import swap_unit

Claim = t.Dict[str, t.Any]
SaveClaim = t.Callable[[Claim], None]


class Location(t.NamedTuple):
    """Where a swap area is, and how it is turned on.

    Attributes:
        key: names the area in the record, and stays the same over reboots.
        path: its path now.
        priority: the higher, the sooner the kernel uses it.
        discard: its discard mode.
    """

    key: str
    path: str
    priority: int
    discard: str


class WantedArea(t.NamedTuple):
    """An area that the options ask for, whether it exists or not; the size is in bytes."""

    key: str
    size: int
    priority: int


class SwapKind:
    """Base class of all kinds.

    Args:
        recorded: the host's record of what earlier runs have taken.
    """

    # Whether swap.target starts it at boot.
    of_target = False

    def __init__(self, options: Options, guard: Guard, recorded: dict[str, t.Any]) -> None:
        self.options, self.guard, self.files, self.recorded = options, guard, guard.files, recorded

    @property
    def discard(self) -> str:
        """The discard mode in which the areas are turned on."""
        return self.options.discard

    @property
    def manner(self) -> str:
        """How the areas are turned on, for the user."""
        return f"priority {self.options.priority}, discard {self.discard}"

    def location(self, key: str, path: str) -> Location:
        """Return the location of an area that is turned on as the options ask for."""
        return Location(key, path, self.options.priority, self.discard)

    def wanted(self, key: str, size: int) -> WantedArea:
        """Return an area that the options ask for."""
        return WantedArea(key, size, self.options.priority)

    def refusals(self) -> list[str]:
        """Return everything that forbids this swap on this host."""
        return []

    def warnings(self) -> list[str]:
        """List what the user should know about this swap."""
        return []

    def claim(self) -> Claim:
        """List what C(make) takes, as entries for the record."""
        return {}

    def pending(self) -> list[str]:
        """List what has to be made, as texts; empty if every area exists, whether it is turned on or not."""
        return []

    def areas_in_the_way(self) -> list[Area]:
        """Return our own areas that have to be turned off before C(make)."""
        return []

    def make(self, save: SaveClaim) -> None:
        """Make what is pending.

        Args:
            save: adds to the claim in the record, before anything of that is taken.
        """

    def locations(self) -> list[Location]:
        """Find where the areas are that already exist as the options ask for, whether they are turned on or not."""
        return []

    def wanted_areas(self) -> list[WantedArea]:
        """Return the areas that the options ask for, whether they exist or not."""
        return []

    def contents(self) -> list[tuple[str, str, str]]:
        """List what C(make) writes to: path, content before, content after."""
        return []

    def unit(self, location: Location) -> dict[str, str]:
        """Return the systemd units of one area, as texts by path."""
        return swap_unit(location.path, self.options.priority, self.discard)

    def units(self) -> dict[str, str]:
        """Return the systemd units of all areas, as texts by path."""
        return {path: text for location in self.locations() for path, text in self.unit(location).items()}


class NoSwap(SwapKind):
    """No swap of ours."""
