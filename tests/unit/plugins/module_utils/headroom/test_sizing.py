# SPDX-License-Identifier: GPL-3.0-or-later
"""How large samples are: the error of a proportion against what its pages cost."""

from __future__ import annotations

import random

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import look, sizing

# The ages of a look are watched as often as this; it takes a little longer than the longest.
PASSES, SECONDS = [3, 3, 3, 3, 3, 1, 1], 310.0
COST = sizing.Cost(unit_s=300e-6, page_s=45e-6, check_s=12e-6)


def plan(units, cpu_percent, most=look.PAGES, spent=0.0, seconds=SECONDS, cost=COST):
    return sizing.plan(cost, units, PASSES, seconds, cpu_percent, 10, most, spent)


@pytest.mark.parametrize(("error", "pages"), [(0.05, 385), (0.1, 97), (0.01, 9604)])
def test_an_error_needs_so_many_pages(error, pages):
    """The figures of Cochran's formula for p = 1/2, which are in any table."""
    assert sizing.needed(error) == pages
    assert sizing.error_of(pages) <= error < sizing.error_of(0.9 * pages)


def test_the_default_is_enough():
    assert sizing.needed(sizing.ERROR) <= look.PAGES


def test_an_interval_holds_as_often_as_it_says():
    """Of samples with a known share, the interval at 95 % misses it in about 5 %, also near 0."""
    source = random.Random(1)
    for share in (0.02, 0.5, 0.97):
        missed = 0
        for _sample in range(1000):
            found = sum(source.random() < share for _page in range(500)) / 500
            low, high = sizing.interval(found, 500)
            missed += not low <= share <= high
        assert missed < 85


@pytest.mark.parametrize(("share", "ends"), [(0, (0.0, 0.01)), (1, (0.99, 1.0))])
def test_nothing_and_everything_have_an_interval(share, ends):
    low, high = sizing.interval(share, 500)
    assert (round(low, 2), round(high, 2)) == ends


@pytest.mark.parametrize("units", [10, 50])
def test_error_falls_as_the_cost_grows(units):
    """Each plan costs what it may, and no more; four times the pages halve the error."""
    plans = {percent: plan(units, percent, most=10**6) for percent in (0.5, 1, 2, 4, 8)}
    for percent, found in plans.items():
        allowed = percent / 100 * SECONDS
        assert COST.seconds(units, found.pages, PASSES) <= allowed < COST.seconds(units, found.pages + 1, PASSES)
    errors = [found.error for found in plans.values()]
    assert errors == sorted(errors, reverse=True) and errors[0] / errors[2] == pytest.approx(2, rel=0.05)


def test_more_units_share_the_same_cpu():
    few, many = plan(10, 1, most=10**6), plan(50, 1, most=10**6)
    assert few.pages == pytest.approx(5 * many.pages, rel=0.05) and few.error < many.error


def test_what_is_allowed_is_said_to_be_too_little():
    """With the share of a CPU that it then names, the error is what was aimed at."""
    found = plan(50, 0.5, spent=0.1)
    assert found.error > sizing.ERROR and found.pages < sizing.needed(sizing.ERROR)
    assert plan(50, found.wanted_cpu_percent * 1.001, spent=0.1).error <= sizing.ERROR


@pytest.mark.parametrize(
    ("given", "pages"),
    [
        ({"cpu_percent": 100}, look.PAGES),
        ({"cpu_percent": 1e-9}, 10),
        ({"cpu_percent": 5, "spent": 1e3}, 10),
        ({"cpu_percent": 5, "most": 50}, 50),
        ({"cpu_percent": 5, "cost": sizing.Cost(1.0, 1.0, 1.0)}, 10),
    ],
)
def test_limits_of_a_sample(given, pages):
    found = plan(10, **given)
    assert found.pages == pages
    # No share of a CPU makes it more exact where the user or the number of units does not allow more pages.
    assert found.wanted_cpu_percent is None or (given.get("most") is None and found.wanted_cpu_percent <= 100)


def test_units_without_pages_cost_nothing():
    assert sizing.Cost(0.0, 0.0, 0.0).pages(10, PASSES, 1.0) == 0


def test_a_long_look_may_take_less_of_a_cpu():
    """5 % while it looks, 1 % averaged over half an hour or the whole look: as much for six minutes as for thirty."""
    pages = [plan(10, 5, most=10**6, seconds=seconds).pages for seconds in (360, 1800, 3600)]
    assert pages[0] == pages[1] and pages[2] == pytest.approx(2 * pages[1], rel=0.01)
    assert COST.seconds(10, pages[2], PASSES) == pytest.approx(0.01 * 3600, rel=0.01)
