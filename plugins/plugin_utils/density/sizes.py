# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sizes of a ramp.

The first round goes in coarse steps from half of what fits into DRAM; the next ones look closely at where it ended. The
grid of each ramp is offset by a random part of a step, so that rounds which agree do not agree because of their grid.
"""

from __future__ import annotations

import random

COARSE, FINE = 0.10, 0.04
# Later rounds go from and to these multiples of what the first one found.
FROM, TO = 0.7, 1.2
# Joining stops at this multiple of the tier's capacity.
MOST = 1.2


def first_round(fits: float, maximum: int, seed: str) -> list[int]:
    """Return the sizes of an arm's first ramp.

    Args:
        fits: how many hosts fit into DRAM.
        maximum: the most hosts.
        seed: of the offset of the grid; one for each ramp.
    """
    return grid(0.5 * fits, maximum, COARSE, seed)


def next_round(found: float, maximum: int, seed: str) -> list[int]:
    """Return the sizes of a later ramp, from the density that the first one found."""
    return grid(FROM * found, min(maximum, round(TO * found) + 1), FINE, seed)


def grid(start: float, maximum: int, step: float, seed: str) -> list[int]:
    """Return ascending sizes that grow by a share, at least by one host, up to the maximum."""
    size = max(1.0, start * (1 + step) ** (random.Random(seed).random() - 0.5))
    found: list[int] = []
    while round(size) < maximum:
        found.append(round(size))
        size = max(round(size) + 1, size * (1 + step))
    return [*found, maximum]
