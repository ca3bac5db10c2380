# SPDX-License-Identifier: GPL-3.0-or-later
"""The distribution that tests compare the client and active memory with."""

from __future__ import annotations

import collections
import random

import hot_set
import pytest


@pytest.mark.parametrize("keys", [1, 2, 7, 1000, 4001])
@pytest.mark.parametrize("influence", [0, -1, 0.5, 10, 25, 100, 1000])
def test_every_request_is_for_one_of_the_keys(keys, influence):
    assert sum(hot_set.weights(keys, influence)) == 100 * keys
    spread = hot_set.bands(keys, influence)
    assert sum(band.keys for band in spread) == keys
    assert sum(band.keys * band.probability for band in spread) == pytest.approx(1)


def test_the_briefs_influences_in_figures():
    """x = 50 alone sends one request in a hundred to the middle key; 25 leaves the outer seventh of the keys alone."""
    assert hot_set.weights(1000, 10)[500] > 1000
    keys = 33_000
    spread = hot_set.bands(keys, 25)
    assert sum(band.keys for band in spread if not band.probability) == pytest.approx(0.135 * keys, rel=0.01)
    assert hot_set.hottest_for(spread, 0.5) < 0.25 * keys < hot_set.hottest_for(spread, 0.9)


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
    expected = hot_set.realised_hot_set(hot_set.bands(keys, influence), requests)
    assert expected["distinct_keys"] == pytest.approx(sum(each[0] for each in seen) / 20, rel=0.01)
    assert expected["keys"][1] == pytest.approx(sum(each[1] for each in seen) / 20, rel=0.01)
