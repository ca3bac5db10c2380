# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency histograms in HdrHistogram's layout and encoding.

The client counts nanoseconds in the slots of an HdrHistogram with the lowest discernible value 1, the
highest trackable value 2**63 - 1 and two significant digits. That gives 256 slots of one nanosecond, then
128 slots for each doubling: the width of a slot is at most 1/128 = 0.78 % of the values in it, and every
value of 63 bits has a slot. The encoded form is HdrHistogram's own text (V2, compressed, base64), which the
HdrHistogram libraries of every language read.

The exact sum, minimum and maximum are kept in addition to the encoded counts, because slots would round them.
"""

from __future__ import annotations

import base64
import collections
import struct
import typing as t
import zlib

SIGNIFICANT_DIGITS = 2
LOWEST = 1
HIGHEST = 2**63 - 1
HALF_BITS = 7
HALF = 1 << HALF_BITS
SLOTS = (63 - HALF_BITS + 1) * HALF

# https://github.com/HdrHistogram/HdrHistogram: cookie bases of V2 plus the word size 1 << 4
_COOKIE = 0x1C849303 | 0x10
_COMPRESSED_COOKIE = 0x1C849304 | 0x10
_HEADER = struct.Struct(">iiiiqqd")
_COMPRESSED_HEADER = struct.Struct(">ii")

# The longest encoding: a number of at most nine bytes for each slot, and one for the empty slots before it.
_LONGEST_BODY = _HEADER.size + 2 * 9 * SLOTS
# In base64, with room for the header of zlib's format and for bytes that cannot be compressed.
LONGEST_TEXT = 2 * _LONGEST_BODY

# The percentiles in every summary, by the name of their figure.
PERCENTILES = {"p50_us": 50.0, "p95_us": 95.0, "p99_us": 99.0, "p999_us": 99.9}


class HistogramError(ValueError):
    """The encoded counts are damaged or have another layout."""


def lowest_of(slot: int) -> int:
    """Return the lowest value that belongs to slot."""
    shift = (slot >> HALF_BITS) - 1
    return slot if shift < 0 else ((slot & (HALF - 1)) | HALF) << shift


def highest_of(slot: int) -> int:
    """Return the highest value that belongs to slot."""
    shift = (slot >> HALF_BITS) - 1
    return slot if shift < 0 else lowest_of(slot) + (1 << shift) - 1


def slot_of(value: int) -> int:
    """Return the slot that value belongs to. It must not be negative."""
    shift = max(value.bit_length() - HALF_BITS - 1, 0)
    return (value >> shift) + (shift << HALF_BITS)


class Histogram:
    """Counts of nanosecond values, sparse, with their exact sum, minimum and maximum.

    Attributes:
        counts: by slot, without those of the samples that below counts.
        below: the number of samples below all slots in counts, if these were not decoded; see top().
        sum_ns, min_ns, max_ns: of all samples.
    """

    __slots__ = ("counts", "below", "sum_ns", "min_ns", "max_ns")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.below = 0
        self.sum_ns = 0
        self.min_ns: int | None = None
        self.max_ns: int | None = None

    @classmethod
    def from_slots(cls, flat: t.Sequence[int], sum_ns: int, min_ns: int | None, max_ns: int | None) -> Histogram:
        """Build from the client's flat list [slot, count, slot, count, ...]."""
        if len(flat) % 2:
            raise HistogramError("the list of slots and counts has an odd length")
        self = cls()
        self.counts = dict(zip(flat[::2], flat[1::2]))
        if any(not 0 <= slot < SLOTS or count < 0 for slot, count in self.counts.items()):
            raise HistogramError(f"a slot is not in 0..{SLOTS - 1} or a count is negative")
        if self.counts:
            self.sum_ns, self.min_ns, self.max_ns = sum_ns, min_ns, max_ns
        return self

    @classmethod
    def from_values(cls, values: t.Iterable[int]) -> Histogram:
        """Build from raw samples."""
        self = cls()
        known = list(values)
        self.counts = dict(collections.Counter(map(slot_of, known)))
        if known:
            self.sum_ns, self.min_ns, self.max_ns = sum(known), min(known), max(known)
        return self

    @classmethod
    def from_figures(cls, *figures: t.Mapping[str, t.Any], counts: dict[int, int] | None = None) -> Histogram:
        """Build one histogram of all the samples in what figures() returned for several, such as those of a fleet.

        Args:
            figures: of each of them.
            counts: the sum of their counts, if it is known, so that they need not be decoded.
        """
        self = cls()
        full = [each for each in figures if each["count"]]
        self.counts = _decoded([each["histogram"] for each in full]) if counts is None else counts
        if full:
            self.sum_ns = sum(each["sum_ns"] for each in full)
            self.min_ns = min(each["min_ns"] for each in full)
            self.max_ns = max(each["max_ns"] for each in full)
        return self

    @classmethod
    def top(cls, figures: t.Mapping[str, t.Any], lowest: int) -> Histogram:
        """Build from what figures() returned, for percentiles from the 99th on: decode few of its slots.

        Args:
            figures: of one histogram.
            lowest: decode the slots from this one on. If these hold less than a hundredth of the samples, all are
                decoded.
        """
        counts = _tail(figures, lowest) if figures["count"] else {}
        known = sum(counts.values())
        if 100 * known <= figures["count"]:
            return cls.from_figures(figures)
        self = cls.from_figures(figures, counts=counts)
        self.below = figures["count"] - known
        return self

    def add(self, value: int, times: int = 1) -> None:
        """Count a value once or several times."""
        if times < 1:
            return
        slot = slot_of(value)
        self.counts[slot] = self.counts.get(slot, 0) + times
        self.sum_ns += value * times
        self.min_ns = value if self.min_ns is None else min(self.min_ns, value)
        self.max_ns = value if self.max_ns is None else max(self.max_ns, value)

    def merge(self, other: Histogram) -> None:
        """Add the samples of another histogram."""
        for slot, count in other.counts.items():
            self.counts[slot] = self.counts.get(slot, 0) + count
        self.below += other.below
        self.sum_ns += other.sum_ns
        if other.min_ns is not None and other.max_ns is not None:
            self.min_ns = other.min_ns if self.min_ns is None else min(self.min_ns, other.min_ns)
            self.max_ns = other.max_ns if self.max_ns is None else max(self.max_ns, other.max_ns)

    @property
    def count(self) -> int:
        """The number of samples."""
        return self.below + sum(self.counts.values())

    def percentiles(self, wanted: t.Sequence[float]) -> list[int | None]:
        """Return percentiles in nanoseconds.

        As in HdrHistogram, a percentile is the highest value of the slot that holds the sample of its rank. So it is
        never below the true one and at most 0.78 % above it, and never above the exact maximum.

        Args:
            wanted: percents in ascending order, each above 0 and at most 100.
        """
        highest = self.max_ns
        return [
            None if slot is None or highest is None else min(highest_of(slot), highest)
            for slot in self._slots_at(wanted)
        ]

    def lower_percentile(self, percent: float) -> int | None:
        """Return a percentile in nanoseconds that is never above the true one: the lowest value of its slot."""
        (slot,) = self._slots_at([percent])
        return None if slot is None or self.min_ns is None else max(lowest_of(slot), self.min_ns)

    def _slots_at(self, wanted: t.Sequence[float]) -> list[int | None]:
        """Return the slots that hold the samples of some percentiles, given in ascending order."""
        total = self.count
        if not total:
            return [None] * len(wanted)
        # ceil(percent * total / 100) without rounding errors; percents have at most 6 decimals
        ranks = [max(1, -(-round(percent * 1_000_000) * total // 100_000_000)) for percent in wanted]
        result: list[int | None] = []
        seen = self.below
        if ranks[0] <= seen:
            raise ValueError(f"the percentile {wanted[0]:g} is in slots that were not decoded")
        for slot in sorted(self.counts):
            seen += self.counts[slot]
            while len(result) < len(ranks) and ranks[len(result)] <= seen:
                result.append(slot)
            if len(result) == len(ranks):
                break
        return result

    def figures(self) -> dict[str, t.Any]:
        """Return the summary for results: microseconds, exact nanoseconds, and the encoded counts."""
        total = self.count
        values = self.percentiles(list(PERCENTILES.values()))
        return {
            "count": total,
            "avg_us": microseconds(self.sum_ns / total) if total else None,
            "min_us": microseconds(self.min_ns),
            **{name: microseconds(value) for name, value in zip(PERCENTILES, values)},
            "max_us": microseconds(self.max_ns),
            "sum_ns": self.sum_ns,
            "min_ns": self.min_ns,
            "max_ns": self.max_ns,
            "histogram": encode(self.counts),
        }


def microseconds(nanoseconds: float | None) -> float | None:
    """Return nanoseconds in microseconds with three decimals."""
    return None if nanoseconds is None else round(nanoseconds / 1000, 3)


def encode(counts: t.Mapping[int, int]) -> str:
    """Return counts as HdrHistogram's text (V2, compressed)."""
    payload = bytearray()
    expected = 0
    for slot in sorted(slot for slot, count in counts.items() if count):
        if slot > expected:
            _put_zigzag(payload, expected - slot)
        _put_zigzag(payload, counts[slot])
        expected = slot + 1
    header = _HEADER.pack(_COOKIE, len(payload), 0, SIGNIFICANT_DIGITS, LOWEST, HIGHEST, 1.0)
    packed = zlib.compress(header + bytes(payload), 9)
    return base64.b64encode(_COMPRESSED_HEADER.pack(_COMPRESSED_COOKIE, len(packed)) + packed).decode("ascii")


def decode(text: str) -> dict[int, int]:
    """Return the counts that are encoded in text.

    Raises:
        HistogramError: the text is damaged or has another layout.
    """
    return _decoded([text])


def p99_slot(figures: t.Mapping[str, t.Any]) -> int:
    """Return the slot that holds the p99 of what figures() returned; one above all slots if it has no samples."""
    return slot_of(round(1000 * figures["p99_us"])) if figures["count"] else SLOTS


def wrong_figure(figures: t.Mapping[str, t.Any], counts: dict[int, int]) -> str | None:
    """Return the name of a figure that is not that of the decoded counts, of those by which top() finds its slots."""
    if slot_of(figures["max_ns"]) != max(counts):
        return "max_ns"
    exact = Histogram.from_figures(figures, counts=counts).percentiles(list(PERCENTILES.values()))
    return next((name for name, value in zip(PERCENTILES, exact) if figures[name] != microseconds(value)), None)


# The last byte of a number of nine bytes looks like any other; a count below this one has fewer.
_READ_BACKWARDS = 2**55


def _tail(figures: t.Mapping[str, t.Any], lowest: int) -> dict[int, int]:
    """Return the counts of the slots from lowest on, decoded from their end."""
    if figures["count"] >= _READ_BACKWARDS:
        return {slot: count for slot, count in decode(figures["histogram"]).items() if slot >= lowest}
    payload, slot = _payload(figures["histogram"]), slot_of(figures["max_ns"]) + 1
    counts: dict[int, int] = {}
    last = len(payload) - 1
    while last >= 0 and slot > lowest:
        raw = payload[last]
        last -= 1
        while last >= 0 and payload[last] >= 0x80:
            raw = raw << 7 | payload[last] & 0x7F
            last -= 1
        if raw & 1:
            slot -= (raw + 1) >> 1
        else:
            slot -= 1
            if raw:
                counts[slot] = raw >> 1
    return counts


# From this many histograms on, a list of all slots is faster than a mapping of those in use.
_MANY = 8


def _decoded(texts: t.Sequence[str]) -> dict[int, int]:
    """Return the sum of several encoded counts."""
    if len(texts) < _MANY:
        few: dict[int, int] = collections.defaultdict(int)
        for text in texts:
            _add_counts(_payload(text), few)
        return {slot: count for slot, count in few.items() if count}
    counts = [0] * SLOTS
    for text in texts:
        _add_counts(_payload(text), counts)
    return {slot: count for slot, count in enumerate(counts) if count}


def _payload(text: str) -> bytes:
    """Unpack the encoded counts."""
    if len(text) > LONGEST_TEXT:
        raise HistogramError(f"the encoded histogram is longer than {LONGEST_TEXT:,} characters")
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = _COMPRESSED_HEADER.unpack_from(packed)
        # A few bytes can unpack to gigabytes, so unpack no more than a histogram can have.
        unpacking = zlib.decompressobj()
        body = unpacking.decompress(packed[_COMPRESSED_HEADER.size :], _LONGEST_BODY + 1)
        if not unpacking.eof:
            raise HistogramError("the encoded histogram is cut off or larger than any histogram")
        inner, size, offset, digits, lowest, highest, _ratio = _HEADER.unpack_from(body)
    except HistogramError:
        raise
    except (ValueError, struct.error, zlib.error) as error:
        raise HistogramError(f"not an encoded histogram: {error}") from None
    if (cookie, inner, length) != (_COMPRESSED_COOKIE, _COOKIE, len(packed) - _COMPRESSED_HEADER.size):
        raise HistogramError("not a histogram in HdrHistogram's compressed V2 encoding")
    if (offset, digits, lowest, highest) != (0, SIGNIFICANT_DIGITS, LOWEST, HIGHEST):
        raise HistogramError("the histogram has another range or precision")
    payload = body[_HEADER.size :]
    if len(payload) != size:
        raise HistogramError("the encoded counts are cut off")
    return payload


def _add_counts(payload: bytes, counts: t.Any) -> None:
    """Add ZigZag LEB128 numbers to counts: a positive number is a count, a negative one is a number of empty slots.

    Merging a large fleet spends its time here, which is why this is a plain loop.

    Args:
        payload: the numbers.
        counts: a list of all slots, or a mapping that has a 0 for each slot.
    """
    slot = 0
    rest = iter(payload)
    try:
        for raw in rest:
            if raw >= 0x80:
                byte, raw, shift = raw, raw & 0x7F, 7
                while byte >= 0x80:
                    byte = next(rest)
                    if shift == 56:  # the ninth byte carries all its eight bits
                        raw |= byte << 56
                        break
                    raw |= (byte & 0x7F) << shift
                    shift += 7
            if raw & 1:
                slot += (raw + 1) >> 1
            else:
                counts[slot] += raw >> 1
                slot += 1
    except StopIteration:
        raise HistogramError("the encoded counts are cut off") from None
    except IndexError:
        slot = SLOTS + 1
    if slot > SLOTS:
        raise HistogramError("there are more encoded counts than slots")


def _put_zigzag(payload: bytearray, value: int) -> None:
    """Append value in ZigZag LEB128, at most nine bytes."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    for _byte in range(8):
        if raw < 0x80:
            payload.append(raw)
            return
        payload.append(raw & 0x7F | 0x80)
        raw >>= 7
    payload.append(raw)
