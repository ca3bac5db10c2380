# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import (
    FAIL,
    INVALID,
    PASS,
    DensitySearch,
)


def search(chance_of, maximum, start=1, repeats=3, rng=None, invalid=lambda size, count: False):
    """Search in a fleet that passes at a size with a known chance; return the search and the sizes in the order in
    which they were probed."""
    rng = rng or random.Random(1)
    found, order = DensitySearch(maximum, start, repeats), []
    while (size := found.next_size()) is not None:
        assert 1 <= size <= maximum
        assert len(order) < 20 * maximum, "it does not end"
        order.append(size)
        if invalid(size, order.count(size)):
            found.add(size, INVALID)
        else:
            found.add(size, PASS if rng.random() < chance_of(size) else FAIL)
    return found, order


@pytest.mark.parametrize("maximum", [1, 2, 3, 7, 8, 108, 1000])
def test_a_sharp_boundary_is_found_exactly(maximum):
    for truth in sorted({0, 1, maximum // 2, maximum - 1, maximum}):
        found, order = search(lambda size, truth=truth: float(size <= truth), maximum)
        finding = found.finding()
        assert finding.decided and finding.density == truth, (maximum, truth, order)
        assert finding.limited_by == ("maximum" if truth == maximum else FAIL)
        assert finding.next_size == (None if truth == maximum else truth + 1)
        assert finding.contradictions == []
        # both sides of the boundary have two votes of three
        assert all(order.count(size) == 2 for size in (truth, truth + 1) if 1 <= size <= maximum)
        assert len(order) <= 2 * math.log2(maximum + 1) + 4


def test_it_grows_by_factors_of_two_then_halves():
    assert search(lambda size: float(size <= 31), 200)[1] == [1, 2, 4, 8, 16, 32, 24, 28, 30, 31, 31, 32]
    assert search(lambda size: float(size <= 31), 200, start=30)[1] == [30, 60, 45, 37, 33, 31, 32, 31, 32]


def test_noise_moves_the_density_by_little():
    """A chance that falls from 0.95 to 0.05 over a tenth of the fleet: found where a single probe passes with one
    half, give or take."""
    errors, contradictions, probes = [], 0, []
    for seed in range(500):
        found, order = search(lambda size: 1 / (1 + math.exp((size - 40) / 0.7)), 200, rng=random.Random(seed))
        errors.append(found.finding().density - 40)
        contradictions += bool(found.finding().contradictions)
        probes.append(len(order))
    errors.sort()
    assert errors[12] >= -3 and errors[-13] <= 2, "19 of 20 searches end within three hosts"
    assert max(probes) <= 40
    assert contradictions < 100


def test_one_probe_that_fails_by_accident_does_not_halve_the_density():
    found = DensitySearch(64)
    for size in (1, 2):
        found.add(size, PASS)
    found.add(4, FAIL)  # the accident
    order = []
    while (size := found.next_size()) is not None:
        order.append(size)
        found.add(size, PASS if size <= 20 else FAIL)
    assert order[:3] == [3, 3, 4] and found.finding().density == 20


def test_a_contradiction_is_probed_again_and_reported_if_it_stays():
    found = DensitySearch(16)
    for size, outcome in ((1, PASS), (2, PASS), (4, PASS), (8, PASS), (16, FAIL), (12, PASS)):
        found.add(size, outcome)
    found.add(8, FAIL)  # one of two: no majority
    finding = found.finding()
    assert finding.contradictions == [(8, 12)] and finding.density == 4
    assert found.next_size() == 8
    found.add(8, FAIL)
    while (size := found.next_size()) is not None:
        found.add(size, PASS if size < 8 else FAIL)
    finding = found.finding()
    assert finding.density == 7 and (8, 12) in finding.contradictions and finding.decided


def test_an_invalid_probe_is_never_a_pass():
    found, order = search(lambda size: 1.0, 8, invalid=lambda size, count: size >= 4)
    finding = found.finding()
    assert finding.density == 3 and finding.limited_by == INVALID and finding.next_size == 4
    assert order.count(4) == 2, "it is tried once more, then given up"
    nothing, dummy = search(lambda size: 1.0, 8, invalid=lambda size, count: True)
    assert nothing.finding().density == 0 and nothing.finding().limited_by == INVALID


def test_an_invalid_probe_is_repeated():
    found, order = search(lambda size: float(size <= 5), 8, invalid=lambda size, count: count == 1)
    assert found.finding().density == 5 and order[:2] == [1, 1]


def test_a_size_that_stays_invalid_later_on_ends_the_search_too():
    found, order = search(lambda size: float(size <= 2), 4, invalid=lambda size, count: count > 1)
    assert found.finding().density == 2 and order.count(2) == order.count(3) == 3


def test_a_search_goes_on_from_the_record_of_its_probes():
    whole, order = search(lambda size: float(size <= 9), 50)
    for cut in range(len(order)):
        again = DensitySearch(50)
        for size in order[:cut]:
            again.add(size, PASS if size <= 9 else FAIL)
        rest = []
        while (size := again.next_size()) is not None:
            rest.append(size)
            again.add(size, PASS if size <= 9 else FAIL)
        assert order[:cut] + rest == order and again.finding() == whole.finding()


def test_more_repeats_need_a_larger_majority():
    found, order = search(lambda size: float(size <= 3), 8, repeats=5)
    assert found.finding().density == 3 and order.count(3) == order.count(4) == 3
    once, order = search(lambda size: float(size <= 3), 8, repeats=1)
    assert once.finding().density == 3 and len(order) == len(set(order))


@pytest.mark.parametrize("arguments", [(0,), (4, 5), (4, 0), (4, 1, 0)])
def test_what_makes_no_search_is_refused(arguments):
    with pytest.raises(ValueError):
        DensitySearch(*arguments)
