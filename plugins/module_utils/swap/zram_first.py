# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap in zram, and on disks or in a file for the pages that zram has no room for.

zram has a priority that is higher by one. The kernel writes pages to the areas with the highest priority as long as
they have room (swapon(2)). It does not move pages from zram to the others later.
"""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import Area
from ansible_collections.memstretch.density.plugins.module_utils.swap.kind import (
    Claim,
    Location,
    SaveClaim,
    SwapKind,
    WantedArea,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.zram import ZramSwap


class ZramFirst(SwapKind):
    """Swap in zram before swap of another kind.

    Args:
        then: the swap of the other kind.
    """

    of_target = True

    def __init__(self, then: SwapKind) -> None:
        super().__init__(then.options, then.guard, then.recorded)
        zram = ZramSwap(then.options._replace(priority=then.options.priority + 1), then.guard, then.recorded)
        self.kinds: tuple[SwapKind, ...] = (zram, then)

    @property
    def manner(self) -> str:
        zram, then = self.kinds
        return f"{zram.manner} (zram) and {then.manner} (the others)"

    def refusals(self) -> list[str]:
        return [text for kind in self.kinds for text in kind.refusals()]

    def warnings(self) -> list[str]:
        return [text for kind in self.kinds for text in kind.warnings()]

    def claim(self) -> Claim:
        return {name: entry for kind in self.kinds for name, entry in kind.claim().items()}

    def pending(self) -> list[str]:
        return [text for kind in self.kinds for text in kind.pending()]

    def areas_in_the_way(self) -> list[Area]:
        return [area for kind in self.kinds for area in kind.areas_in_the_way()]

    def make(self, save: SaveClaim) -> None:
        for kind in self.kinds:
            kind.make(save)

    def locations(self) -> list[Location]:
        return [location for kind in self.kinds for location in kind.locations()]

    def wanted_areas(self) -> list[WantedArea]:
        return [area for kind in self.kinds for area in kind.wanted_areas()]

    def contents(self) -> list[tuple[str, str, str]]:
        return [content for kind in self.kinds for content in kind.contents()]

    def units(self) -> dict[str, str]:
        return {path: text for kind in self.kinds for path, text in kind.units().items()}
