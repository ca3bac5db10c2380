# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import collections
import random

import hot_set
import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import access_model
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.access_model import (
    PAGE_BYTES,
    AccessModel,
    Band,
)

LOAD = {"key_count": 8000, "value_size": 1000, "pattern": "gaussian"}


def exactly(keys, influence):
    """The exact distribution in the form of bands()."""
    return [
        Band(count, weight / (100 * keys))
        for weight, count in collections.Counter(hot_set.weights(keys, influence)).items()
    ]


@pytest.mark.parametrize("keys", [1, 2, 7, 1000, 4001])
@pytest.mark.parametrize("influence", [0, -1, 0.5, 10, 25, 100, 1000])
def test_every_request_is_for_one_of_the_keys(keys, influence):
    assert sum(hot_set.weights(keys, influence)) == 100 * keys
    spread = access_model.bands(keys, influence)
    assert sum(step.keys for step in spread) == keys
    assert sum(step.keys * step.probability for step in spread) == pytest.approx(1)


@pytest.mark.parametrize("influence", [0, -1, 0.5, 10, 25, 100])
def test_the_bands_are_the_exact_distribution_summed_up(influence):
    keys = 10000
    weights, spread = hot_set.weights(keys, influence), access_model.bands(keys, influence)
    for width in (100, 1000, 3000, 7000):
        half, middle = width // 2, keys // 2
        exact = sum(weights[middle - half : middle + half]) / (100 * keys)
        assert hot_set.share_of_hottest(spread, width) == pytest.approx(exact, abs=0.004)


def test_the_briefs_influences_in_figures():
    """x = 50 alone sends one request in a hundred to the middle key; 25 leaves the outer seventh of the keys alone."""
    assert hot_set.weights(1000, 10)[500] > 1000
    spread = access_model.bands(3_300_000, 25)
    assert spread[-1].probability == 0 and spread[-1].keys == pytest.approx(0.135 * 3_300_000, rel=0.01)
    assert hot_set.hottest_for(spread, 0.5) < 0.25 * 3_300_000 < hot_set.hottest_for(spread, 0.9)
    assert hot_set.share_of_hottest(access_model.bands(1000, 0), 250) == pytest.approx(0.25)


@pytest.mark.parametrize("influence", [0, 10, 25, 100])
def test_the_realised_hot_set_is_that_of_drawn_requests(influence):
    keys, requests = 3000, 6000
    weights = hot_set.weights(keys, influence)
    seen = []
    for seed in range(20):
        counts = sorted(
            collections.Counter(random.Random(seed).choices(range(keys), weights, k=requests)).values(), reverse=True
        )
        covered, taken = 0, 0
        while covered < 0.9 * requests:
            covered += counts[taken]
            taken += 1
        seen.append((len(counts), taken))
    expected = hot_set.realised_hot_set(exactly(keys, influence), requests)
    assert expected["distinct_keys"] == pytest.approx(sum(each[0] for each in seen) / 20, rel=0.01)
    assert expected["keys"][1] == pytest.approx(sum(each[1] for each in seen) / 20, rel=0.01)


@pytest.mark.parametrize(
    "size, taken",
    [
        (1, 16),
        (12, 16),
        (13, 32),
        (1000, 1024),
        (1020, 1024),
        (1021, 1280),
        (4092, 4096),
        (5000, 5120),
        (10**5, 114688),
    ],
)
def test_a_value_takes_a_size_class_of_memory(size, taken):
    assert access_model.value_bytes(size) == taken


@pytest.mark.parametrize("size, pages", [(1000, 1), (1024, 1.25), (1500, 1.25), (4000, 1), (5000, 2), (10**5, 25)])
def test_values_that_do_not_divide_a_page_straddle_two(size, pages):
    """Sixteen values of 1,024 bytes fill five pages, and four of them begin in one and end in the next."""
    assert access_model.pages_touched(size) == pytest.approx(pages)
    model = AccessModel({**LOAD, "value_size": size}, 0)
    values = model.areas[0]
    if size > PAGE_BYTES:  # the rest of their last page is never written
        return
    assert values.pages_per_record / values.per_page * PAGE_BYTES == pytest.approx(access_model.value_bytes(size))


def simulated(model, dram, moved, value_size):
    """Page-ins for each request of a cache that gives away what was used longest ago: each request drawn, each page
    looked up."""
    chance = random.Random(1)
    keys, taken = model.keys, access_model.value_bytes(value_size)
    slots = list(range(keys))
    changed = chance.sample(range(keys), int(moved * keys))
    for key, place in zip(changed, chance.sample(changed, len(changed))):
        slots[key] = place
    weights = hot_set.weights(keys, 25)
    cache, capacity, missed = collections.OrderedDict(), int(dram / PAGE_BYTES), 0
    draws = chance.choices(range(keys), weights, k=40000)
    index_slots = [chance.randrange(8192) for dummy in range(keys)]  # two to a key, as the next power of two has it
    for number, key in enumerate(draws):
        for page in (
            *(
                ("v", page)
                for page in range(
                    slots[key] * taken // PAGE_BYTES, (slots[key] * taken + value_size + 4) // PAGE_BYTES + 1
                )
            ),
            ("i", key * access_model.INDEX_BYTES // PAGE_BYTES),
            ("t", index_slots[key] * 8 // PAGE_BYTES),
        ):
            if page in cache:
                cache.move_to_end(page)
                continue
            missed += number >= 20000
            cache[page] = True
            if len(cache) > capacity:
                cache.popitem(last=False)
    return missed / 20000


@pytest.mark.parametrize("moved", [0, 0.5, 1])
@pytest.mark.parametrize("share", [0.3, 0.6])
@pytest.mark.parametrize("value_size", [1000, 1024])
def test_hits_are_those_of_a_simulated_cache(moved, share, value_size):
    load = {**LOAD, "key_count": 4096 + 1, "value_size": value_size}
    model = AccessModel(load, 25, moved)
    dram = share * model.pages * PAGE_BYTES
    assert model.hits(dram).misses == pytest.approx(simulated(model, dram, moved, value_size), rel=0.06)


def test_more_memory_never_makes_more_page_ins():
    for influence in (0, 10, 25):
        model = AccessModel(LOAD, influence)
        hits = [model.hits(share / 20 * model.pages * PAGE_BYTES) for share in range(22)]
        for less, more in zip(hits, hits[1:]):
            assert more.misses <= less.misses + 1e-5 and more.best <= less.best + 1e-9
        assert hits[-1].misses == 0 and hits[-1].rate == 1 and hits[0].rate < 0.01
        assert all(each.best <= each.misses + 1e-5 for each in hits)


def test_moved_keys_and_sequential_requests_need_more():
    tight = 0.5 * AccessModel(LOAD, 25).pages * PAGE_BYTES
    assert AccessModel(LOAD, 25, 1).hits(tight).misses > 1.5 * AccessModel(LOAD, 25).hits(tight).misses
    assert AccessModel({**LOAD, "pattern": "sequential"}, 0).hits(tight).waiting > 0.25
    assert access_model.moved_share(0, 100) == 0 and access_model.moved_share(300, 100) == pytest.approx(
        0.95, abs=0.001
    )
