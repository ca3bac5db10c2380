# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For headroom.yml: by how much the active memory of units differs from their hot sets."""

from __future__ import annotations

import typing as t


def off_by(look: t.Mapping[str, t.Any], shares: t.Mapping[str, float], mib: int) -> list[float]:
    """Return the difference at each age of each unit, as a share of the memory that its load has filled."""
    return [
        age["active_bytes"] / (mib * 2**20) - shares[unit["name"].removeprefix("hot-").removesuffix(".service")]
        for unit in look["units"]
        for age in unit["ages"]
    ]


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"off_by": off_by}
