# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which part of its memory a Redis under the client's load needs, and how often it finds a page in DRAM: a model, to plan with.

Three steps, each of which docs/plan.md compares with measurements:

1. How often each key is asked for. The client's formula (docs/measurement.md) is a sum of 100 equally likely pulls towards the middle key;
   each of them spreads its requests evenly over the part of the keys that it pulls into. L(weights) is exact, key by key; L(steps) says
   the same in at most 51 steps, for any number of keys.
2. Which keys share a page. jemalloc puts values of one size class side by side in the order of the fill, so a page of 4 KiB holds neighbours. A SET
   writes a new value into the place that the SET before it gave free: its key moves to a page of others. L(moved_share) says how many did.
3. Which pages are in DRAM. The kernel keeps what was used last. Che's approximation of such a cache (H. Che, Y. Tung, Z. Wang, IEEE
   Journal on Selected Areas in Communications 20, 2002): a page is in DRAM if it was used within the last T requests, and T is such that the DRAM is full.
   The upper bound, pages that are asked for most stay forever, is C(best).
"""

from __future__ import annotations

import collections
import math
import typing as t

PAGE_BYTES = 4096
# floor(100 V) for V in [0, 1]; 100 itself has no probability.
PULLS = 100
# Beside its value a record has an entry in the table (24 bytes), an object (16) and a key (16), and its share of the table's slots.
INDEX_BYTES = 56
SLOT_BYTES = 8
# Size classes of jemalloc: four to each power of two, no finer than so many bytes (http://jemalloc.net/jemalloc.3.html, size classes).
_QUANTUM = 16
# What Redis puts before and behind a string of up to 64 KiB: a header of three bytes and a zero (its sds.h); five bytes more beyond.
_STRING_BYTES, _LONG_STRING_BYTES = 4, 10


class Step(t.NamedTuple):
    """So many keys that are all asked for with the same probability."""

    keys: float
    probability: float


def pulls(influence: float) -> dict[float, int]:
    """Return the fractions by which the middle attracts a key, with how many of the 100 equally likely pulls have each.

    Args:
        influence: BIAS of the client, the width of the bell; 0 pulls nothing.
    """
    if influence == 0:
        return {0.0: PULLS}
    return collections.Counter(math.exp(-((x - 50) ** 2) / (2 * influence**2)) for x in range(PULLS))


def weights(keys: int, influence: float) -> list[int]:
    """Return for each key how many of its keys * 100 equally likely draws choose it. Exact, and slow above some 10^5 keys."""
    found, half = [0] * keys, keys // 2
    for fraction, count in pulls(influence).items():
        for key in range(keys):
            found[key + int(fraction * (half - key))] += count
    return found


def steps(keys: int, influence: float, pattern: str = "gaussian") -> list[Step]:
    """Return how requests spread over the keys, from the middle outwards, which is from hot to cold.

    A pull by the fraction g moves a key at distance d from the middle to distance ceil((1 - g) d): it spreads evenly over that part
    of the keys, as far as the rounding to whole keys goes.

    Args:
        keys: number of keys.
        influence: as of L(pulls); only the pattern gaussian knows one.
        pattern: of the client; uniform and sequential ask for each key equally often.
    """
    width = collections.Counter()
    for fraction, count in pulls(influence if pattern == "gaussian" else 0).items():
        width[1 if fraction == 1 else min(keys, max(1, math.ceil((1 - fraction) * keys)))] += count / PULLS
    found, inner = [], 0
    for edge in sorted(width):
        found.append(Step(edge - inner, sum(share / reach for reach, share in width.items() if reach >= edge)))
        inner = edge
    return found + ([Step(keys - inner, 0.0)] if inner < keys else [])


def share_of_hottest(spread: t.Sequence[Step], keys: float) -> float:
    """Return the share of the requests that the hottest keys take, so many of them."""
    found = 0.0
    for step in sorted(spread, key=lambda each: each.probability, reverse=True):
        taken = min(step.keys, keys)
        found += taken * step.probability
        keys -= taken
    return min(1.0, found)


def hottest_for(spread: t.Sequence[Step], share: float) -> float:
    """Return how many of the hottest keys take that share of the requests."""
    found = 0.0
    for step in sorted(spread, key=lambda each: each.probability, reverse=True):
        mass = step.keys * step.probability
        if mass >= share:
            return found + (share / step.probability if step.probability else 0)
        share -= mass
        found += step.keys
    return found


def realised_hot_set(
    spread: t.Sequence[Step], requests: int, shares: t.Sequence[float] = (0.5, 0.9, 0.99)
) -> dict[str, t.Any]:
    """Return what the client will report as the hot set of so many requests, which is sharper than L(hottest_for) since chance picks some keys twice.

    The number of requests for a key is as good as Poisson's.

    Returns:
        C(distinct_keys) and C(keys): how many of the keys that were asked for most took each of the shares.
    """
    tally: dict[int, float] = collections.defaultdict(float)
    for step in spread:
        expected = requests * step.probability
        reach = int(10 * math.sqrt(expected) + 20)
        for count in range(max(1, int(expected) - reach), int(expected) + reach):
            tally[count] += (
                step.keys * math.exp(count * math.log(expected) - expected - math.lgamma(count + 1)) if expected else 0
            )
    realised = [Step(keys, count / requests) for count, keys in tally.items()]
    return {"distinct_keys": sum(tally.values()), "keys": [hottest_for(realised, share) for share in shares]}


def size_class(size: int) -> int:
    """Return the bytes that jemalloc hands out for so many."""
    step = max(_QUANTUM, 2 ** max(0, (max(size, 1) - 1).bit_length() - 3))
    return -(-size // step) * step


def value_bytes(value_size: int) -> int:
    """Return the bytes of memory that a value of that size takes in Redis."""
    return size_class(value_size + (_STRING_BYTES if value_size < 2**16 else _LONG_STRING_BYTES))


def data_bytes(keys: int, value_size: int) -> int:
    """Return the bytes of memory that so many records take in Redis, without Redis itself."""
    return keys * (value_bytes(value_size) + INDEX_BYTES) + _slots(keys) * SLOT_BYTES


def _slots(keys: int) -> int:
    """Return the slots of Redis' table: the next power of two."""
    return 2 ** max(2, (keys - 1).bit_length())


def moved_share(sets_before: float, keys: int) -> float:
    """Return the share of the keys that so many SETs have moved to another page."""
    return 1 - math.exp(-sets_before / keys)


class _Area(t.NamedTuple):
    """Pages of one kind.

    Attributes:
        per_page: how many records have a piece in one.
        pages_per_record: how many pages a piece takes.
        mixed: the share of the records that have strangers beside them, not neighbours.
        scattered: whether that was so from the first.
    """

    per_page: float
    pages_per_record: float
    mixed: float
    scattered: bool = False


class Hits(t.NamedTuple):
    """How often a request finds its pages in DRAM.

    Attributes:
        misses: page-ins for each request.
        waiting: share of the requests that wait for at least one.
        best: page-ins for each request if the pages that are asked for most stayed in DRAM forever.
    """

    misses: float
    waiting: float
    best: float

    @property
    def rate(self) -> float:
        """The share of requests that wait for no page."""
        return 1 - self.waiting


class AccessModel:
    """One Redis under the client's load.

    Args:
        load: key_count, value_size and pattern of a run's configuration.
        influence: of the cell.
        moved: share of the keys that SETs have moved, see L(moved_share).
    """

    def __init__(self, load: t.Mapping[str, t.Any], influence: float, moved: float = 0.0) -> None:
        self.keys, self.pattern = load["key_count"], load["pattern"]
        self.steps = steps(self.keys, influence, self.pattern)
        value = value_bytes(load["value_size"])
        slots = _slots(self.keys) / self.keys * SLOT_BYTES
        self.areas = [
            _Area(max(1.0, PAGE_BYTES // value), max(1.0, value / PAGE_BYTES), moved),
            _Area(PAGE_BYTES / INDEX_BYTES, 1, 0),
            _Area(PAGE_BYTES / slots, 1, 1, scattered=True),  # a hash scatters them
        ]

    @property
    def pages(self) -> float:
        """All pages of the data."""
        return sum(self._pages(area) for area in self.areas)

    def _pages(self, area: _Area) -> float:
        return self.keys / area.per_page * area.pages_per_record

    def hits(self, bytes_of_dram: float) -> Hits:
        """Return how often pages are found in so many bytes of DRAM, in the long run."""
        pages = max(0.0, bytes_of_dram / PAGE_BYTES)
        if pages >= self.pages:
            return Hits(0.0, 0.0, 0.0)
        best = self._best(pages)
        if self.pattern == "sequential":
            # Whoever goes round and round finds that what comes next was given away last; only the neighbours in the page are there.
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
            1 - math.prod(1 - share for share in absent),
            best,
        )

    def _unused(self, last: float) -> list[float]:
        """Return for each step the probability that a key of it was not asked for within so many last requests."""
        return [math.exp(-step.probability * last) for step in self.steps]

    def _anywhere(self, values: t.Iterable[float]) -> float:
        """Return the mean over the keys of a value for each step."""
        return sum(step.keys * value for step, value in zip(self.steps, values)) / self.keys

    def _resident(self, unused: t.Sequence[float]) -> float:
        """Return how many pages were used within the last requests."""
        stranger = self._anywhere(unused)
        return sum(
            self._pages(area)
            * (1 - self._anywhere(((1 - area.mixed) * own + area.mixed * stranger) ** area.per_page for own in unused))
            for area in self.areas
        )

    def _missed(self, area: _Area, unused: t.Sequence[float]) -> float:
        """Return the share of the requests whose page in this area was not used within the last requests."""
        stranger = self._anywhere(unused)
        others = [((1 - area.mixed) * own + area.mixed * stranger) ** (area.per_page - 1) for own in unused]
        anywhere = self._anywhere(others)
        return sum(
            step.keys * step.probability * own * ((1 - area.mixed) * neighbours + area.mixed * anywhere)
            for step, own, neighbours in zip(self.steps, unused, others)
        )

    def _best(self, pages: float) -> float:
        """Return the page-ins for each request if the pages that are asked for most stayed, and no SET had mixed hot values with cold ones."""
        groups = []  # of pages with the same heat: how many, and the requests that one of them saves
        for area in self.areas:
            for step in self.steps:
                heat = 1 / self.keys if area.scattered else step.probability
                groups.append((step.keys / area.per_page * area.pages_per_record, heat * area.per_page))
        saved = 0.0
        for count, heat in sorted(groups, key=lambda group: group[1], reverse=True):
            kept = min(count, pages)
            pages -= kept
            saved += kept * heat
        return max(0.0, sum(area.pages_per_record for area in self.areas) - saved)
