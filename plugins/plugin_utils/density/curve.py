# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The density of one ramp: the smallest size at which one of its criteria crosses its limit.

Each criterion has a curve of its own: the fleet next to its references shows memory, the references next to idle DRAM
show the CPUs. One curve through the worst of several noisy figures would put the crossing too low.

A machine is faster in some minutes than in others. That cancels out between a fleet and its references, but not
between the references and idle DRAM, which was measured at the start of the ramp. Neighbours only make a machine
slower, most often for a window or two, so a running median takes these from the curve of the references.
"""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.density.isotonic import Crossing, Point, crossing

# What a criterion compares, and by which figure.
FLEET, REFERENCES = "fleet", "references"
FIGURES = ("avg_us", "p99_us")
CAPACITY = "capacity"
_NEIGHBOURS = 2

Criterion = t.Tuple[str, str]


class Excess(t.NamedTuple):
    """A clean window: how far it is from the limit of each criterion, as ln(figure / limit)."""

    size: int
    of: t.Mapping[Criterion, float]


class Curve(t.NamedTuple):
    """Where one ramp crosses its objective.

    Attributes:
        crossing: of the criterion that is the first to cross its limit.
        decided_by: this criterion; CAPACITY if the fleet did not fit before any did; None if the ramp ran out of
            hosts.
        fleet_alone: where the fleet would cross its limit if the CPUs did not matter; None without such a criterion.
    """

    crossing: Crossing
    decided_by: Criterion | str | None
    fleet_alone: Crossing | None


def curve(windows: t.Sequence[Excess], wall: float = math.inf, shift: float = 0.0) -> Curve | None:
    """Return where a ramp crosses its objective; None without clean windows.

    Args:
        windows: the clean ones.
        wall: the size at which the ramp ended because the fleet does not fit; infinite if it fits.
        shift: natural logarithm of the factor by which all limits are moved.
    """
    found: dict[Criterion, Crossing] = {}
    for criterion in dict.fromkeys(name for window in windows for name in window.of):
        own = _points(windows, criterion, shift)
        of_one = crossing(own, wall)
        if of_one and criterion[0] == REFERENCES:
            # The median hides the noise of single windows, which says how sure the crossing is.
            calm = crossing(without_spikes(own), wall)
            of_one = calm and calm._replace(scatter=of_one.scatter)
        if of_one:
            found[criterion] = of_one
    if not found:
        return None
    first = min(found, key=lambda name: (found[name].size, found[name].high))
    alone = [each for (whose, _figure), each in found.items() if whose == FLEET]
    least = found[first]
    decided: Criterion | str | None = first
    if least.is_open:
        decided = None
    elif least.high == wall:
        decided = CAPACITY
    return Curve(least, decided, min(alone, key=lambda each: each.size, default=None))


def _points(windows: t.Iterable[Excess], criterion: Criterion, shift: float) -> list[Point]:
    return [(window.size, window.of[criterion] - shift) for window in windows if criterion in window.of]


def without_spikes(points: t.Iterable[Point]) -> list[Point]:
    """Return the running median of points by size, over up to two neighbours on both sides. It leaves a curve that
    rises all the way as it is, also where it ends at a wall.
    """
    ordered = sorted(points)
    last = len(ordered) - 1
    found = []
    for place, (size, _value) in enumerate(ordered):
        around = min(_NEIGHBOURS, place, last - place)
        values = (value for _size, value in ordered[place - around : place + around + 1])
        found.append((size, statistics.median(values)))
    return found
