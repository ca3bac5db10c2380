# SPDX-License-Identifier: GPL-3.0-or-later
"""The forecast, compared with what can be computed by hand and with what fleets that were held did."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import random
import re

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import model
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom.curve import Curve

MIB = 2**20
SITE = model.Site(dram=1000 * MIB, own=0, compression=0, room=None, page_in_us=100, waiting=0.01)
# Active memory of a Redis server of 12.7 MiB at 50 requests/s and influence 25, measured while it was only watched.
WATCHED = ((1, 1.04), (2, 1.30), (4, 1.70), (8, 2.25), (16, 3.14), (32, 4.35), (64, 5.77))


def unit(active=lambda age: MIB * age**0.5, stretchable=100 * MIB, ages=(1, 10, 100), **changes):
    curve = Curve([(age, active(age), 0) for age in ages], stretchable)
    return model.Member(**{"name": "a", "curve": curve, "stretchable": stretchable, "pinned": 0, "given": 0, **changes})


def test_what_fits_causes_nothing():
    found = model.forecast([unit(count=10)], SITE)
    assert (found.age, found.total, found.evicted, found.thrashes) == (None, 0, 0, False)


def test_the_age_is_the_one_at_which_all_fits():
    """200 units that use 1 MiB x sqrt(t) fit into 1000 MiB if each has 5 MiB: t = 25 s, and 0.1 MiB/s each."""
    found = model.forecast([unit(count=200)], SITE)

    assert found.age == pytest.approx(25, rel=1e-4)
    assert found.page_ins[0] == pytest.approx(0.1 * 256, rel=1e-3) and found.total == pytest.approx(
        200 * 25.6, rel=1e-3
    )
    assert found.evicted == pytest.approx(200 * 95 * MIB, rel=1e-3)


def test_what_is_compressed_takes_dram():
    """With 20:1, 100 units take sqrt(t) + (100 - sqrt(t)) / 20 = 10 MiB each: sqrt(t) = 5 / 0.95."""
    found = model.forecast([unit(count=100)], dataclasses.replace(SITE, compression=20))
    assert found.age == pytest.approx((5 / 0.95) ** 2, rel=1e-4)


def test_all_units_have_one_age():
    """A busy and an idle unit: the idle one gives what the busy one needs."""
    busy, idle = unit(count=100), unit(active=lambda age: 0.1 * MIB * age**0.5, count=100)
    found = model.forecast([busy, idle], SITE)

    assert found.age == pytest.approx((1000 / 110) ** 2, rel=1e-4)
    assert found.page_ins[0] == pytest.approx(10 * found.page_ins[1], rel=1e-6)


def test_pinned_memory_and_the_host_itself_are_never_stretched():
    site = dataclasses.replace(SITE, dram=1700 * MIB, own=200 * MIB)
    found = model.forecast([unit(count=200, pinned=2.5 * MIB)], site)
    assert found.age == pytest.approx(25, rel=1e-4)


def test_below_the_shortest_age_it_thrashes():
    assert model.forecast([unit(count=1001)], SITE).thrashes
    assert not model.fits([unit(count=1001)], SITE)


def test_above_the_longest_age_curves_are_continued():
    found = model.forecast([unit(count=50)], SITE)  # 20 MiB each, which are used within 400 s
    assert found.beyond and found.age == pytest.approx(400, rel=1e-3)
    assert found.total == pytest.approx(50 * 0.5 / 20 * 256, rel=1e-3)


def test_far_above_the_longest_age_there_is_an_upper_bound():
    found = model.forecast([unit(count=12)], SITE)  # 83 MiB each, which would be used within 2 hours
    assert found.beyond and found.age == pytest.approx(1200)
    assert found.total == pytest.approx(12 * 0.5 / 1200**0.5 * 256, rel=1e-3)
    assert found.evicted == pytest.approx(200 * MIB)


def test_memory_that_is_not_known_to_be_cold_stays_in_dram():
    document = {"name": "b", "ages": [], "stretchable_bytes": 600 * MIB, "pinned_bytes": MIB, "given_bytes": None}
    (member,) = model.members([document])

    assert (member.curve, member.stretchable, member.pinned, member.given) == (None, 0, 601 * MIB, 601 * MIB)
    assert model.forecast([member, member], SITE).thrashes


def test_the_number_that_fits():
    """A unit may cause 100 page-ins/s; at t it causes 128 / sqrt(t), so t >= 1.64 s, and each needs 1.28 MiB."""
    like = unit()
    count = model.most_more([dataclasses.replace(like, count=100)], SITE, like)

    assert 100 + count == int(1000 / 1.28)
    assert model.fits([dataclasses.replace(like, count=100 + count)], SITE)
    assert not model.fits([dataclasses.replace(like, count=101 + count)], SITE)


@pytest.mark.parametrize("near", [1, 2, 600, 680, 681, 682, 700, 5000, model.MOST_MORE])
def test_the_number_that_fits_is_found_from_anywhere(near):
    like = unit()
    assert model.most_more([dataclasses.replace(like, count=100)], SITE, like, near) == int(1000 / 1.28) - 100


@pytest.mark.parametrize("near", [1, 40])
def test_nothing_more_and_more_than_can_be_counted(near):
    like = unit()
    full = [dataclasses.replace(like, count=int(1000 / 1.28))]
    assert model.most_more(full, SITE, like, near) == 0
    assert model.most_more([like], dataclasses.replace(SITE, dram=1e15), like, near) == model.MOST_MORE


def test_a_full_tier_ends_it():
    site = dataclasses.replace(SITE, room=9500 * MIB)
    count = model.most_more([unit(count=10)], site, unit())
    assert 10 + count == pytest.approx(10500 / 100, abs=2)


def test_a_host_that_is_over_its_limit_says_so():
    assert model.most_more([unit(count=999)], SITE, unit()) == -1


@pytest.mark.parametrize(("servers", "resident", "measured"), [(36, 3.92, 640), (57, 4.16, 925)])
def test_the_page_ins_of_two_held_fleets(servers, resident, measured):
    """They were measured in 2026 with these servers, in zram and on a drive, and held for three minutes."""
    curve = Curve([(age, active * MIB, 0.02 * active * MIB) for age, active in WATCHED], 12.7 * MIB)
    member = model.Member("redis", curve, 12.7 * MIB, 0, 0, count=servers)
    found = model.forecast([member], dataclasses.replace(SITE, dram=servers * resident * MIB))

    assert found.total == pytest.approx(measured, rel=0.05)


PAGE = pathlib.Path(__file__).resolve().parents[5] / "docs/bench/headroom.md"
_ACTIVE = re.compile(r"([\d.]+)(?: \(planted: [\d.]+\))? MiB in ([\d.]+) s")
_HELD = re.compile(r"\| ([\d.]+) \([\d.]+\) \| [\d.]+ \| [\d.]+ \| [\d,]+ \([\d,]+ to [\d,]+\) \| ([\d,]+) \|")


def held_fleets():
    """Yield what the page has of each load: its curve, and the sizes that were held with their page-ins."""
    for section in re.split(r"(?m)^### ", PAGE.read_text(encoding="utf-8")):
        found = re.search(
            r"(\d+) (?:servers|processes), .* watched at most ([\d,]+) pages .*\n\n"
            r"Active memory of each, of ([\d.]+) MiB: (.*)",
            section,
        )
        if found is None:
            continue
        count, pages, whole = int(found[1]), int(found[2].replace(",", "")), float(found[3]) * MIB
        points = []
        for active, age in _ACTIVE.findall(found[4]):
            share = float(active) * MIB / whole
            points.append((float(age), share * whole, whole * math.sqrt(share * (1 - share) / count / pages)))
        sizes = [(float(dram) * MIB, float(counted.replace(",", ""))) for dram, counted in _HELD.findall(section)]
        assert len(points) == 5 and len(sizes) == 4, section
        yield model.Member("server", Curve(points, whole), whole, 0, 0, count=count), sizes


def test_the_page_ins_of_the_fleets_that_were_held():
    """Those of the page, from the active memory that it has, whatever the model was when it was written."""
    ratios = []
    for member, sizes in held_fleets():
        for dram, counted in sizes:
            found = model.forecast([member], dataclasses.replace(SITE, dram=member.count * dram))
            ratios.append(math.log(found.total / counted))

    assert len(ratios) >= 24
    assert math.fsum(each**2 for each in ratios) / len(ratios) < model.MODEL_ERROR**2


@pytest.mark.long
def test_resampled_measurements_give_an_interval_that_holds():
    """The interval of the age covers the truth about as often as that of the measurement it comes from."""
    ages = (1, 10, 100)
    source, held = random.Random(3), 0
    for _measurement in range(100):
        document = {"name": "a", "stretchable_bytes": 100 * MIB, "pinned_bytes": 0, "given_bytes": None, "ages": []}
        for age in ages:
            active = MIB * age**0.5 * (1 + source.gauss(0, 0.03))
            ends = {"low_bytes": active * (1 - 1.96 * 0.03), "high_bytes": active * (1 + 1.96 * 0.03)}
            document["ages"].append({"seconds": age, "watched_s": age, "active_bytes": active, **ends})
        found = [
            model.forecast([dataclasses.replace(model.members([document], source)[0], count=200)], SITE).age
            for _drawn in range(60)
        ]
        low, high = model.intervals(found)
        held += low <= 25 <= high
    assert held > 80


def seen(name, ages):
    """A unit as headroom_info returns it, whose active memory is 1 MiB x sqrt(age)."""
    active = {age: round(MIB * age**0.5) for age in ages}
    rows = [
        {"seconds": age, "watched_s": float(age), **dict.fromkeys(("active_bytes", "low_bytes", "high_bytes"), size)}
        for age, size in active.items()
    ]
    return {"name": name, "stretchable_bytes": 100 * MIB, "pinned_bytes": 0, "given_bytes": None, "ages": rows}


@pytest.mark.parametrize("ages", [(1, 10, 100), (1, 10), (1,)])
def test_a_unit_that_was_not_seen_at_each_age_spoils_no_other(ages):
    documents = [seen("a", (1, 10, 100)), seen("b", ages), seen("c", (1, 10, 100)), {**seen("d", ages), "ages": []}]
    a, b, c, d = model.members(documents)

    assert (a.name, b.name, c.name, d.name, d.curve) == ("a", "b", "c", "d", None)
    for found in (a, c):
        assert found.curve.active(30) == pytest.approx(MIB * 30**0.5, rel=0.01)
        assert found.curve.growth(30) == pytest.approx(0.5 * MIB / 30**0.5, rel=0.02)
    assert b.curve.active(1) == pytest.approx(MIB, rel=0.01)
