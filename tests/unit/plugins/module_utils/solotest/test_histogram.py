# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import math
import random
import struct
import tracemalloc
import zlib
from fractions import Fraction

import pytest
from hdrh.histogram import HdrHistogram

from ansible_collections.memstretch.density.plugins.module_utils.solotest import histogram
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram, HistogramError

EDGES = [0, 1, 255, 256, 257, 511, 512, 513, 10**9, 2**40 - 1, 2**40, 10**11, 2**63 - 1]


def samples(count: int, seed: int = 1) -> list[int]:
    """Latencies of a bell with a long tail, from 100 ns to 100 s."""
    rng = random.Random(seed)
    return [min(max(int(rng.lognormvariate(10, 1.5)), 100), 100 * 10**9) for _sample in range(count)]


def exact_percentile(values: list[int], percent: float) -> int:
    return sorted(values)[max(math.ceil(Fraction(str(percent)) * len(values) / 100), 1) - 1]


@pytest.mark.parametrize("value", EDGES + samples(200))
def test_a_slot_is_as_narrow_as_documented(value):
    slot = histogram.slot_of(value)
    low, high = histogram.lowest_of(slot), histogram.highest_of(slot)
    assert low <= value <= high
    assert (high - low) <= value / 128
    assert 0 <= slot < histogram.SLOTS


def test_slots_follow_each_other_without_gaps():
    for slot in range(histogram.SLOTS - 1):
        assert histogram.highest_of(slot) + 1 == histogram.lowest_of(slot + 1)
    assert histogram.highest_of(histogram.SLOTS - 1) == 2**63 - 1


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 20_000])
def test_percentiles_are_never_below_and_at_most_one_percent_above_the_truth(count):
    values = samples(count, seed=count)
    wanted = [0.1, 1, 50, 95, 99, 99.9, 99.99, 100]
    for percent, found in zip(wanted, Histogram.from_values(values).percentiles(wanted)):
        truth = exact_percentile(values, percent)
        assert truth <= found <= truth * 1.01


def test_percentiles_of_nothing_are_none():
    assert Histogram().percentiles([50, 99]) == [None, None]
    assert Histogram().figures()["avg_us"] is None


@pytest.mark.parametrize("parts", [2, 3, 17])
def test_merging_any_split_equals_the_whole(parts):
    values = samples(5000) + EDGES
    split = [Histogram.from_values(values[part::parts]).figures() for part in range(parts)]
    merged = Histogram.from_figures(*split, Histogram().figures())
    assert merged.figures() == Histogram.from_values(values).figures()


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 20_000])
def test_the_highest_samples_alone_give_the_same_p99(count):
    """With the slots of several histograms from the lowest of their p99s on, as an evaluation merges iterations."""
    several = [Histogram.from_values(samples(count, seed=seed)).figures() for seed in range(4)]
    lowest = min(map(histogram.p99_slot, several))
    whole, tops = Histogram.from_figures(*several), Histogram()
    for figures in several:
        top = Histogram.top(figures, lowest)
        assert top.counts == {s: n for s, n in histogram.decode(figures["histogram"]).items() if s >= lowest}
        tops.merge(top)
    assert tops.count == whole.count and tops.sum_ns == whole.sum_ns
    assert tops.percentiles([99, 99.9, 100]) == whole.percentiles([99, 99.9, 100])
    assert tops.lower_percentile(99) == whole.lower_percentile(99)
    if count > 100:
        with pytest.raises(ValueError, match="percentile 50 is in slots that were not decoded"):
            tops.percentiles([50])


@pytest.mark.parametrize("value, times", [(2**63 - 1, 1), (0, 3), (10**6, 2**40), (10**6, 2**62)])
def test_the_highest_samples_have_any_value_and_count(value, times):
    whole = Histogram()
    whole.add(value, times)
    whole.add(5, 1)
    assert Histogram.top(whole.figures(), histogram.slot_of(value)).counts[histogram.slot_of(value)] == times
    assert Histogram.top(whole.figures(), 0).counts == whole.counts


def test_all_samples_are_decoded_if_a_hundredth_would_be_missing():
    whole = Histogram.from_values(samples(1000))
    assert Histogram.top(whole.figures(), max(whole.counts)).counts == whole.counts
    assert not Histogram.top(Histogram().figures(), 0).counts


def test_encoding_returns_what_was_encoded():
    for values in ([], EDGES, samples(10_000), [7] * 100_000):
        counts = Histogram.from_values(values).counts
        assert histogram.decode(histogram.encode(counts)) == counts
    assert histogram.decode(histogram.encode({5: 2**62, 7295: 1})) == {5: 2**62, 7295: 1}


def test_the_reference_library_and_this_one_read_each_other():
    values = samples(20_000)
    ours = Histogram.from_values(values)
    theirs = HdrHistogram(1, 2**63 - 1, 2)
    for value in values:
        theirs.record_value(value)
    read = HdrHistogram.decode(histogram.encode(ours.counts))
    assert read.get_total_count() == len(values)
    for percent in (50, 95, 99, 99.9):
        assert (
            read.get_value_at_percentile(percent)
            == ours.percentiles([percent])[0]
            == theirs.get_value_at_percentile(percent)
        )
    assert histogram.decode(theirs.encode().decode()) == ours.counts


@pytest.mark.parametrize("text", ["", "AAAA", "not base64!", "HISTFAAAAA==", histogram.encode({5: 1})[:-8]])
def test_damaged_text_is_refused(text):
    with pytest.raises(HistogramError):
        histogram.decode(text)


def test_another_precision_is_refused():
    with pytest.raises(HistogramError, match="precision"):
        histogram.decode(HdrHistogram(1, 3_600_000_000, 3).encode().decode())


def test_a_damaged_list_of_the_client_is_refused():
    with pytest.raises(HistogramError, match="odd"):
        Histogram.from_slots([1, 2, 3], 1, 1, 1)
    with pytest.raises(HistogramError, match="slot"):
        Histogram.from_slots([histogram.SLOTS, 1], 1, 1, 1)
    assert Histogram.from_slots([3, 2, 300, 1], 1000, 3, 700).count == 3


def test_the_encoding_of_seven_decades_of_latencies_is_small():
    assert len(Histogram.from_values(samples(100_000)).figures()["histogram"]) < 3000


def test_a_compressed_bomb_is_not_unpacked():
    """A few hundred kilobytes of zlib's format can unpack to gigabytes."""
    packed = zlib.compress(b"\0" * 50_000_000, 9)
    text = base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode()
    assert len(text) < histogram.LONGEST_TEXT
    tracemalloc.start()
    with pytest.raises(HistogramError, match="larger than any histogram"):
        histogram.decode(text)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    with pytest.raises(HistogramError, match="longer than"):
        histogram.decode("A" * (histogram.LONGEST_TEXT + 1))


def test_the_largest_histogram_can_be_decoded():
    counts = {slot: 2**55 - slot for slot in range(histogram.SLOTS)}
    assert histogram.decode(histogram.encode(counts)) == counts
    every_other = {slot: 2**55 + slot for slot in range(1, histogram.SLOTS, 2)}
    assert histogram.decode(histogram.encode(every_other)) == every_other
