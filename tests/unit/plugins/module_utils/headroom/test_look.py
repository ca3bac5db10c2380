# SPDX-License-Identifier: GPL-3.0-or-later
"""How samples are shared out among ages, and what is concluded from them."""

from __future__ import annotations

import mmap
import os
import random

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import look
from ansible_collections.memstretch.density.plugins.module_utils.headroom.sample import PageFiles, Sampled
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

HERE = Unit("here", "process", (os.getpid(),))


def page(number, frame, folio=None):
    return Sampled(1, number, frame, frame if folio is None else folio)


def test_each_page_is_watched_for_one_age():
    pages = [page(number, 100 + number) for number in range(30)]
    samples = look._assigned([pages], 3)

    assert [len(sample) for sample in samples] == [10, 10, 10]
    assert {each.page for sample in samples for each in sample} == set(pages)


def test_all_pages_of_a_folio_are_watched_for_the_same_age():
    huge = [page(number, 512 + number, folio=512) for number in range(20)]
    samples = look._assigned([huge[:10], huge[10:]], 4)

    assert sorted(len(sample) for sample in samples) == [0, 0, 0, 20]


def test_pages_of_one_folio_are_worth_one():
    separate = [look._Watched(0, page(number, number)) for number in range(100)]
    together = [look._Watched(0, page(number, number, folio=number // 10)) for number in range(100)]

    assert look._effective(separate) == {0: pytest.approx(100)}
    assert look._effective(together) == {0: pytest.approx(10)}


def test_an_interval_holds_as_often_as_it_says():
    """Of samples with a known share, the interval at 95 % misses it in about 5 %, also near 0."""
    source = random.Random(1)
    for share in (0.02, 0.5, 0.97):
        missed = 0
        for _sample in range(1000):
            found = sum(source.random() < share for _page in range(500)) / 500
            low, high = look.interval(found, 500)
            missed += not low <= share <= high
        assert missed < 85


@pytest.mark.parametrize(("share", "ends"), [(0, (0.0, 0.01)), (1, (0.99, 1.0))])
def test_nothing_and_everything_have_an_interval(share, ends):
    low, high = look.interval(share, 500)
    assert (round(low, 2), round(high, 2)) == ends


@pytest.mark.usefixtures("needs_root")
def test_what_became_of_a_page_counts():
    """Some pages of this process stay, and the others are freed: the freed ones say nothing."""
    with mmap.mmap(-1, 2**22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        for place in range(0, len(area), mmap.PAGESIZE):
            area[place] = 1
        files = PageFiles()
        try:
            drawn = [each for each in files.draw(HERE, 3000, random.Random(1)).pages if each.frame == each.folio]
            sample = [look._Watched(0, each) for each in drawn]
            half = {each.frame for each in drawn[: len(drawn) // 2]}
            assert look._shares(sample, half, files, 2) == {0: pytest.approx(0.5, abs=0.05)}
            moved = [each._replace(page=each.page._replace(frame=each.page.frame + 1)) for each in sample]
            assert look._shares(moved, half, files, 1) == {}
            back = [each._replace(page=each.page._replace(frame=None, folio=None)) for each in sample]
            assert look._shares(back, set(), files, 1) == {0: 1.0}
        finally:
            files.close()


@pytest.mark.usefixtures("needs_root")
def test_without_measuring_nothing_is_claimed():
    found = look.Look(HostFiles(), [HERE], [1], 100).take(active=False)
    (unit,) = found["units"]

    assert found["method"] is None and found["reason"] == "active memory is not measured in check mode"
    assert unit["ages"] == [] and unit["reason"] == found["reason"] and unit["resident_bytes"] > 2**20
