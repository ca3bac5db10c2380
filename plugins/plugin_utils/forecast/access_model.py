# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of memory access: which pages a Redis needs under the client's load, and how often they are in DRAM.

Three parts, each compared with measurements in docs/plan.md:

1. How often each key is used. The client's formula (docs/measurement.md) is a sum of 100 equally likely pulls towards
   the middle key; each of them spreads its requests evenly over the part of the keys that it pulls into. L(bands) has
   at most 51 bands of keys; the tests compare it with the exact distribution, key by key (tests/hot_set.py).
2. Which keys share a page. jemalloc places values of one size class next to each other in the order of the fill, so a
   page of 4 KiB holds neighbours. A SET writes a new value into the place that the previous SET freed, so its key
   moves to another page. L(moved_share) is the share of keys that moved.
3. Which pages are in DRAM. The kernel keeps the most recently used pages. Che's approximation of such a cache (H. Che,
   Y. Tung, Z. Wang, IEEE Journal on Selected Areas in Communications 20, 2002): a page is in DRAM if it was used
   within the last T requests, where T is such that the DRAM is full. The upper bound, in which the most used pages
   stay forever, is C(best).
"""

from __future__ import annotations

import collections
import math
import typing as t

PAGE_BYTES = 4096
# floor(100 V) for V in [0, 1]; 100 itself has no probability.
PULLS = 100
# On top of its value, a record has a table entry (24 bytes), an object (16), a key (16) and its share of the table's
# slots.
INDEX_BYTES = 56
SLOT_BYTES = 8
# What the kernel and the services of a small guest need in addition to Redis.
GUEST_SYSTEM_BYTES = 128 * 2**20
# jemalloc's size classes: four per power of two, at least this many bytes apart (http://jemalloc.net/jemalloc.3.html).
_QUANTUM = 16
# Redis' string header and final zero (its sds.h): 4 bytes, for strings of 64 KiB and more 10 bytes.
_STRING_BYTES, _LONG_STRING_BYTES = 4, 10


class Band(t.NamedTuple):
    """A number of keys with the same probability of access each."""

    keys: float
    probability: float


def pulls(influence: float) -> dict[float, int]:
    """Return the fractions by which a key is pulled to the middle, each with its number among 100 equally likely pulls.

    Args:
        influence: BIAS of the client, the width of the bell; 0 does not pull.
    """
    if influence == 0:
        return {0.0: PULLS}
    return collections.Counter(math.exp(-((x - 50) ** 2) / (2 * influence**2)) for x in range(PULLS))


def bands(keys: int, influence: float, pattern: str = "gaussian") -> list[Band]:
    """Return the distribution of requests over the keys, from the middle outwards, which is from hot to cold.

    A pull by the fraction g moves a key at distance d from the middle to distance ceil((1 - g) d): it spreads evenly
    over that part of the keys, up to rounding to whole keys.

    Args:
        keys: number of keys.
        influence: as in L(pulls); only the pattern gaussian has one.
        pattern: of the client; uniform and sequential use each key equally often.
    """
    width: dict[int, float] = collections.defaultdict(float)
    for fraction, count in pulls(influence if pattern == "gaussian" else 0).items():
        width[1 if fraction == 1 else min(keys, max(1, math.ceil((1 - fraction) * keys)))] += count / PULLS
    found, inner = [], 0
    for edge in sorted(width):
        found.append(Band(edge - inner, sum(share / reach for reach, share in width.items() if reach >= edge)))
        inner = edge
    return found + ([Band(keys - inner, 0.0)] if inner < keys else [])


def size_class(size: int) -> int:
    """Return the bytes that jemalloc allocates for this size."""
    step = max(_QUANTUM, 2 ** max(0, (max(size, 1) - 1).bit_length() - 3))
    return -(-size // step) * step


def value_bytes(value_size: int) -> int:
    """Return the bytes of memory of a value of this size in Redis."""
    return size_class(value_size + (_STRING_BYTES if value_size < 2**16 else _LONG_STRING_BYTES))


def pages_touched(value_size: int) -> float:
    """Return in how many pages a value of this size is, on average: those that do not divide a page evenly straddle.

    Values of a size class are next to each other, so they begin at all multiples of the class's common divisor with a
    page.
    """
    used = value_size + (_STRING_BYTES if value_size < 2**16 else _LONG_STRING_BYTES) + 1
    step = math.gcd(value_bytes(value_size), PAGE_BYTES)
    offsets = range(0, PAGE_BYTES, step)
    return sum(-(-(offset + used) // PAGE_BYTES) for offset in offsets) / len(offsets)


def data_bytes(keys: int, value_size: int) -> int:
    """Return the bytes of memory of these records in Redis, without Redis itself."""
    return keys * (value_bytes(value_size) + INDEX_BYTES) + _slots(keys) * SLOT_BYTES


def _slots(keys: int) -> int:
    """Return the slots of Redis' hash table: the next power of two."""
    return 2 ** max(2, (keys - 1).bit_length())


def moved_share(sets_before: float, keys: int) -> float:
    """Return the share of the keys that this many SETs have moved to another page."""
    return 1 - math.exp(-sets_before / keys)


class _Area(t.NamedTuple):
    """Pages of one kind.

    Attributes:
        per_page: number of records with a part in one page.
        pages_per_record: pages per record's part.
        mixed: share of the records whose page holds unrelated records instead of neighbours.
        scattered: whether records were never next to their neighbours.
    """

    per_page: float
    pages_per_record: float
    mixed: float
    scattered: bool = False


class Hits(t.NamedTuple):
    """How often a request finds its pages in DRAM.

    Attributes:
        misses: page-ins per request.
        waiting: share of requests that wait for at least one page-in.
        best: page-ins per request if the most used pages stayed in DRAM forever.
    """

    misses: float
    waiting: float
    best: float

    @property
    def rate(self) -> float:
        """The share of requests that wait for no page-in."""
        return 1 - self.waiting


class AccessModel:
    """One Redis under the client's load.

    Args:
        load: key_count, value_size and pattern of a run's configuration.
        influence: of the cell.
        moved: share of keys that SETs have moved, see L(moved_share).
    """

    def __init__(self, load: t.Mapping[str, t.Any], influence: float, moved: float = 0.0) -> None:
        self.keys, self.pattern = load["key_count"], load["pattern"]
        self.bands = bands(self.keys, influence, self.pattern)
        value, touched = value_bytes(load["value_size"]), pages_touched(load["value_size"])
        slots = _slots(self.keys) / self.keys * SLOT_BYTES
        self.areas = [
            _Area(max(1.0, touched * PAGE_BYTES / value), touched, moved),
            _Area(PAGE_BYTES / INDEX_BYTES, 1, 0),
            _Area(PAGE_BYTES / slots, 1, 1, scattered=True),  # the hash function scatters them
        ]

    @property
    def pages(self) -> float:
        """All pages of the data."""
        return sum(self._pages(area) for area in self.areas)

    def _pages(self, area: _Area) -> float:
        return self.keys / area.per_page * area.pages_per_record

    def hits(self, bytes_of_dram: float) -> Hits:
        """Return the hits with this much DRAM, in the steady state."""
        pages = max(0.0, bytes_of_dram / PAGE_BYTES)
        if pages >= self.pages:
            return Hits(0.0, 0.0, 0.0)
        best = self._best(pages)
        if self.pattern == "sequential":
            # A cyclic scan always needs the page that was evicted longest ago; only neighbours in the same page are
            # hits.
            misses = [area.pages_per_record / area.per_page for area in self.areas]
            return Hits(
                sum(misses), min(1.0, sum(each / area.pages_per_record for each, area in zip(misses, self.areas))), best
            )
        low, high = 0.0, 1.0
        while self._resident(self._unused(high)) < pages and high < 1e18:
            low, high = high, 2 * high
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self._resident(self._unused(middle)) < pages else (low, middle)
        unused = self._unused(high)
        absent = [self._missed(area, unused) for area in self.areas]
        return Hits(
            sum(share * area.pages_per_record for share, area in zip(absent, self.areas)),
            1 - math.prod(1 - self._waiting(share, area) for share, area in zip(absent, self.areas)),
            best,
        )

    @staticmethod
    def _waiting(absent: float, area: _Area) -> float:
        """Return the share of requests with a page missing; the pages of a value above a page come and go together."""
        return 1 - (1 - absent) ** area.pages_per_record if area.per_page > 1 else absent

    def _unused(self, last: float) -> list[float]:
        """Return for each band the probability that one of its keys was not used in the last requests."""
        return [math.exp(-band.probability * last) for band in self.bands]

    def _anywhere(self, values: t.Iterable[float]) -> float:
        """Return the mean over the keys of a value per band."""
        return sum(band.keys * value for band, value in zip(self.bands, values)) / self.keys

    def _resident(self, unused: t.Sequence[float]) -> float:
        """Return the number of pages that were used in the last requests."""
        stranger = self._anywhere(unused)
        return sum(
            self._pages(area)
            * (1 - self._anywhere(((1 - area.mixed) * own + area.mixed * stranger) ** area.per_page for own in unused))
            for area in self.areas
        )

    def _missed(self, area: _Area, unused: t.Sequence[float]) -> float:
        """Return the share of requests whose page in this area was not used in the last requests."""
        stranger = self._anywhere(unused)
        others = [((1 - area.mixed) * own + area.mixed * stranger) ** (area.per_page - 1) for own in unused]
        anywhere = self._anywhere(others)
        return sum(
            band.keys * band.probability * own * ((1 - area.mixed) * neighbours + area.mixed * anywhere)
            for band, own, neighbours in zip(self.bands, unused, others)
        )

    def _best(self, pages: float) -> float:
        """Return the page-ins per request if the most used pages stayed in DRAM and no SET had mixed hot and cold
        values."""
        groups = []  # pages of equal heat: their number, and the requests per page
        for area in self.areas:
            for band in self.bands:
                heat = 1 / self.keys if area.scattered else band.probability
                groups.append((band.keys / area.per_page * area.pages_per_record, heat * area.per_page))
        saved = 0.0
        for count, heat in sorted(groups, key=lambda group: group[1], reverse=True):
            kept = min(count, pages)
            pages -= kept
            saved += kept * heat
        return max(0.0, sum(area.pages_per_record for area in self.areas) - saved)
