# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The forecast: what happens to the page-ins of a host when more units come.

Denning's relation (Communications of the ACM 11, 1968): with so much of a unit resident as it accesses within the age
t, it misses as often as its active memory s(t) grows there, s'(t). Reclaim takes what was not accessed for the longest
time, whatever unit it belongs to, so all units of a host have one age. It is the t for which everything fits:

    sum of s_i(t) + (sum of M_i - s_i(t)) / compression + pinned + the host's own = DRAM less the reserve

where M_i is what reclaim could take of unit i, in DRAM or beyond it. The page-ins of unit i are s_i'(t), in pages. On a
drive the second term is 0; on zram and zswap it is what they take of the DRAM.
"""

from __future__ import annotations

import dataclasses
import math
import random
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.headroom.sizing import Z
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom.curve import BEYOND, Curve, Part, Together

PAGE = 4096
# How many resampled measurements give an interval, and the most units that are added in the search.
RESAMPLED, MOST_MORE = 100, 10_000
# Standard deviation of the logarithm of counted and forecast page-ins, besides the error of the sample: not less than
# the root mean square of all fleets that were held (docs/bench/headroom.md), the errors of their samples included.
MODEL_ERROR = 0.10
# Each step halves the range of ages on a logarithmic scale.
_STEPS = 20


@dataclasses.dataclass(frozen=True)
class Member:
    """A unit in the forecast.

    Attributes:
        name: of the unit.
        curve: its active memory; None if that is not known.
        stretchable: what reclaim could take, in bytes.
        pinned: what it cannot take, or might not.
        given: the memory that the unit may use.
        count: how many there are of it; a share of one in a fleet that is a mix.
    """

    name: str
    curve: Curve | Part | None
    stretchable: float
    pinned: float
    given: float
    count: float = 1


@dataclasses.dataclass(frozen=True)
class Site:
    """What the members share.

    Attributes:
        dram: bytes for the units and the host itself, less the reserve.
        own: what the host itself takes, without its units and tiers.
        compression: 0 if what is evicted takes no DRAM, because it goes to a drive.
        room: bytes that the tiers can hold before compression; None if they are not limited.
        page_in_us: how long a page-in takes.
        waiting: the largest share of the time that a unit may wait for page-ins.
    """

    dram: float
    own: float
    compression: float
    room: float | None
    page_in_us: float
    waiting: float


@dataclasses.dataclass(frozen=True)
class Forecast:
    """A host with some members.

    Attributes:
        age: below it nothing is evicted; None if everything stays resident.
        beyond: whether the age is longer than the longest one measured, so that the curves were continued.
        thrashes: whether not even what is accessed within the shortest age fits.
        page_ins: of one of each member, in pages per second.
        total: of all of them.
        evicted: bytes beyond DRAM.
    """

    age: float | None
    beyond: bool
    thrashes: bool
    page_ins: tuple[float, ...]
    total: float
    evicted: float


def forecast(members: t.Sequence[Member], site: Site) -> Forecast:
    """Return the load that these members cause on a host."""
    free = site.dram - site.own - sum(each.count * each.pinned for each in members)
    curves = [(each.count, each.curve) for each in members if each.curve is not None]
    total = sum(each.count * each.stretchable for each in members)
    if total <= free:
        return Forecast(None, False, False, (0.0,) * len(members), 0.0, 0.0)
    if not curves:
        return Forecast(None, False, True, (0.0,) * len(members), 0.0, 0.0)
    shortest = max(curve.shortest for _count, curve in curves)
    longest = min(curve.longest for _count, curve in curves)

    def active(age: float) -> float:
        return sum(count * curve.active(age) for count, curve in curves)

    def fits_at(age: float) -> bool:
        resident = active(age)
        return resident + _held(total - resident, site) <= free

    def at(age: float, evicted: float, *, beyond: bool = False, thrashes: bool = False) -> Forecast:
        page_ins = tuple(0.0 if each.curve is None else each.curve.growth(age) / PAGE for each in members)
        return Forecast(
            age, beyond, thrashes, page_ins, sum(each.count * one for each, one in zip(members, page_ins)), evicted
        )

    if not fits_at(shortest):
        return at(shortest, total - active(shortest), thrashes=True)
    if fits_at(longest * BEYOND):
        # Curves flatten: the growth there is an upper bound of every later one.
        return at(longest * BEYOND, _least_evicted(total, free, site), beyond=True)
    low, high = shortest, longest * BEYOND
    for _step in range(_STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if fits_at(middle) else (low, middle)
    return at(low, total - active(low), beyond=low > longest)


def fits(members: t.Sequence[Member], site: Site) -> bool:
    """Decide whether no member waits longer for page-ins than it may, and the tiers hold what is evicted."""
    found = forecast(members, site)
    if found.thrashes or (site.room is not None and found.evicted > site.room):
        return False
    return max(found.page_ins, default=0.0) * site.page_in_us / 1e6 <= site.waiting


def most_more(members: t.Sequence[Member], site: Site, like: Member, near: int = 1) -> int:
    """Return how many more copies of a unit fit; -1 if not even the present members do.

    Args:
        members: that are there.
        site: what they share.
        like: the unit that is copied.
        near: where the search begins, 1 or more. The closer it is to the answer, the sooner that is found.
    """

    def fit(count: int) -> bool:
        return fits([*members, dataclasses.replace(like, count=count)], site)

    if not fits(members, site):
        return -1
    low, high = 0, MOST_MORE + 1
    at, step = near, max(1, near // 16)
    while low < at < high:
        fitting = fit(at)
        low, high = (at, high) if fitting else (low, at)
        if low and high <= MOST_MORE:
            break
        at += step if fitting else -step
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low


def misjudged(source: random.Random) -> float:
    """Draw how many times the forecast page-ins a fleet may have, by the error of the model."""
    return math.exp(source.gauss(0, MODEL_ERROR))


def intervals(values: t.Sequence[float]) -> tuple[float, float]:
    """Return the interval at 95 % of values that were found with resampled measurements."""
    ranked = sorted(values)
    return ranked[int(0.025 * len(ranked))], ranked[min(len(ranked) - 1, int(0.975 * len(ranked)))]


def members(documents: t.Sequence[t.Mapping[str, t.Any]], source: random.Random | None = None) -> list[Member]:
    """Return the units of a host in the forecast.

    Args:
        documents: the units in the answer of headroom_info.
        source: to draw each active memory from its interval instead of taking the estimate.
    """
    drawn = [_points(document, source) for document in documents]
    ages = max(drawn, key=len, default={}).keys()
    # A unit that was not seen at each age is no part of the sums.
    whole = [bool(points) and points.keys() == ages for points in drawn]
    own = [([*points.values()], document["stretchable_bytes"]) for points, document in zip(drawn, documents)]
    parts: t.Iterator[Curve | Part] = iter(Together([each for each, seen in zip(own, whole) if seen]).parts)
    curves = [(next(parts) if seen else Curve(*each)) if each[0] else None for each, seen in zip(own, whole)]
    return [_member(document, curve) for document, curve in zip(documents, curves)]


def _points(document: t.Mapping[str, t.Any], source: random.Random | None) -> dict[int, tuple[float, float, float]]:
    """Return, for each age of a unit, how long it was watched, its active bytes and their standard deviation."""
    points: dict[int, tuple[float, float, float]] = {}
    for age in document["ages"] if document["stretchable_bytes"] else ():
        active, deviation = float(age["active_bytes"]), (age["high_bytes"] - age["low_bytes"]) / 2 / Z
        if source is not None:
            active = max(0.0, source.gauss(active, deviation))
        points[age["seconds"]] = age["watched_s"], active, deviation
    return points


def _member(document: t.Mapping[str, t.Any], curve: Curve | Part | None) -> Member:
    stretchable, pinned = document["stretchable_bytes"], document["pinned_bytes"]
    given = document["given_bytes"] or stretchable + pinned
    if curve is None:  # what is not known to be cold stays resident
        return Member(document["name"], None, 0.0, pinned + stretchable, given)
    return Member(document["name"], curve, stretchable, pinned, given)


def _held(evicted: float, site: Site) -> float:
    """Return the DRAM that evicted pages take."""
    return evicted / site.compression if site.compression else 0.0


def _least_evicted(total: float, free: float, site: Site) -> float:
    """Return the bytes to evict so that the rest fits."""
    return (total - free) / (1 - 1 / site.compression) if site.compression > 1 else total - free
