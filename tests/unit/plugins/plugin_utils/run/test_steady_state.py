# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import pathlib
import random
import sys

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.steady_state import (
    SteadyState,
    change_of,
    logarithms,
)

sys.path.append(str(pathlib.Path(__file__).parents[4] / "bench"))

import steady_state as bench

PROMISED = [world for world in bench.WORLDS if world.promised]


@pytest.mark.parametrize("world", PROMISED[1::2], ids=lambda world: world.name)
@pytest.mark.parametrize("kind", ["line", "step"])
@pytest.mark.parametrize("factor", [1.1, 0.9])
def test_a_change_of_10_percent_is_noticed(world, kind, factor):
    """docs/bench/short.md has the measured shares."""
    assert bench.noticed(world, random.Random(1), 60, kind, factor) >= 0.9


@pytest.mark.parametrize("world", bench.WORLDS[:-1], ids=lambda world: world.name)
def test_a_steady_cell_is_rarely_reported(world):
    chance = random.Random(2)
    assert bench.false_warnings(world, chance, 150) <= 0.04
    assert bench.false_warnings(world, chance, 20, iterations=5) <= 0.1


def phases(averages, pswpin=(), **more):
    """Return iterations whose average in us is a function of the point, with a little noise."""
    chance = random.Random(3)
    for number, of in enumerate(averages):
        values = [of(place) * math.exp(chance.gauss(0, 0.01)) for place in range(120)]
        points = [[1000, value, 3 * value, 9 * value] for value in values]
        counters = {"clock_s": 10.0, "pswpin": pswpin[number]} if pswpin else {}
        yield {
            "hosts": {"a": {"series": {"interval_s": 0.5, "points": points}}},
            "pressure": {"m": {"counters": counters}},
            **more,
        }


def summary(*averages, **more):
    cell = SteadyState()
    for document in phases(averages, **more):
        cell.add(document, 0)
    return cell.summary()


def test_a_warm_up_that_was_too_short_is_a_fall_in_the_first_iteration():
    test = summary(lambda place: 50 + 15 * 0.97**place, lambda place: 50, lambda place: 50)["avg_us"]
    assert not test["steady"] and test["iteration"] == 1 and -0.3 < test["change"] < -0.15


def test_a_step_is_placed():
    tests = summary(lambda place: 50, lambda place: 50 if place < 80 else 60)
    for figure in ("avg_us", "p99_us"):
        assert not tests[figure]["steady"] and tests[figure]["iteration"] == 2
        assert tests[figure]["change"] == pytest.approx(0.2, abs=0.02)
        assert tests[figure]["step_at"] == pytest.approx(2 / 3, abs=0.05)
    assert tests["page_ins"] is None


def test_a_short_stall_and_a_small_change_do_not_count():
    assert summary(lambda place: 5000 if 30 <= place < 33 else 50)["avg_us"]["steady"]
    slow = summary(lambda place: 50 + 0.01 * place)["avg_us"]
    assert slow["steady"] and slow["p_value"] < 0.001 and 0.01 < slow["change"] < 0.04
    assert 0.05 < slow["smallest_change"] < 0.06


def test_one_host_is_not_the_fleet():
    """The first of a hundred hosts becomes four times as slow; the others stay."""
    hosts = [
        {
            "series": {
                "interval_s": 1,
                "points": [[100, 50 * (4 if host == 0 and at > 30 else 1), 99, 99] for at in range(60)],
            }
        }
        for host in range(100)
    ]
    cell = SteadyState()
    cell.add({"hosts": dict(enumerate(hosts)), "pressure": {}}, 0)
    assert cell.summary()["avg_us"]["steady"]


def test_page_ins_are_tested_from_iteration_to_iteration():
    flat = [lambda place: 50] * 8
    falling = summary(*flat, pswpin=[8000, 7200, 6500, 5700, 5100, 4700, 4200, 3700])["page_ins"]
    assert not falling["steady"] and falling["change"] == pytest.approx(-0.57, abs=0.05) and "iteration" not in falling
    steady = summary(*flat, pswpin=[8000, 7200, 8500, 7700, 8100, 7700, 8200, 7900])["page_ins"]
    assert steady["steady"] and steady["smallest_change"] > 0.1
    assert summary(*flat[:4], pswpin=[8000, 4000, 2000, 1000])["page_ins"] is None
    assert summary(*flat, pswpin=[0] * 8)["page_ins"] is None


def test_a_part_of_the_hypervisors_is_not_judged_as_the_whole():
    flat, rates = [lambda place: 50] * 8, [8000, 7200, 8500, 7700, 8100, 7700, 8200, 7900]
    known, unknown = {"machine": "m"}, {"machine": None, "unknown": "no route"}
    assert summary(*flat, pswpin=rates, hypervisors={"kvm1": known, "kvm2": known})["page_ins"]["steady"]
    assert summary(*flat, pswpin=rates, hypervisors={"kvm1": known, "kvm2": unknown})["page_ins"] is None


def watched(rates, started_at=0.0, interval=1.0):
    """Return the record of the watch of a machine."""
    return {"page_ins": {"started_at": started_at, "interval_s": interval, "per_second": rates}}


def of_machines(*machines, finished_at=60.0):
    """Return the test of page-ins within a phase that began at 0."""
    cell = SteadyState()
    document = {"hosts": {}, "pressure": {}, "started_at": 0.0, "finished_at": finished_at}
    cell.add({**document, "charged_dram": dict(enumerate(machines))}, 0)
    return (cell.summary() or {}).get("page_ins_within")


def noisy(rate, of=lambda place: 1.0):
    """Return a minute of page-ins, with the noise of a count."""
    chance = random.Random(4)
    return [float(bench.count(rate * of(place), chance)) for place in range(60)]


def test_page_ins_that_rise_within_an_iteration_are_noticed():
    found = of_machines(watched(noisy(5000, lambda place: 1 + place / 300)))
    assert not found["steady"] and found["iteration"] == 1 and found["change"] == pytest.approx(0.2, abs=0.03)
    assert of_machines(watched(noisy(5000)))["steady"]


def test_the_launch_and_the_collection_are_not_in_the_phase():
    """A watch begins before the load and ends after it, when the machine reads nothing from swap."""
    rates = [0.0] * 20 + noisy(5000) + [0.0] * 20
    assert of_machines(watched(rates, started_at=-20.0))["steady"]
    assert not of_machines(watched(rates, started_at=-5.0))["steady"], "so the cut can be seen"
    assert not of_machines(watched(rates, started_at=-20.0), finished_at=75.0)["steady"]


def test_the_page_ins_of_all_machines_are_added_up():
    rising, falling = (noisy(5000, of) for of in (lambda place: 1 + place / 120, lambda place: 1.5 - place / 120))
    assert not of_machines(watched(rising))["steady"] and not of_machines(watched(falling))["steady"]
    later = watched([0.0, 0.0, *falling], started_at=-2.4)
    assert of_machines(watched(rising, started_at=-0.4), later)["steady"]


def test_few_or_unknown_page_ins_are_not_tested():
    assert of_machines(watched(noisy(5))) is None
    assert of_machines(watched([0.0] * 60)) is None
    assert of_machines(watched(noisy(5000)), {}) is None
    assert of_machines(watched(noisy(5000)), {"page_ins": None}) is None
    assert of_machines(watched(noisy(5000)), watched(noisy(5000), interval=2.0)) is None
    assert of_machines(watched(noisy(5000)[:11])) is None


def test_what_is_too_short_is_not_judged():
    assert change_of([0.0] * 11) is None
    assert change_of([0.0] * 12).p_value == 1
    cell = SteadyState()
    cell.add({"hosts": {"a": {"series": None}}, "pressure": {}}, 0)
    assert cell.summary() is None


def test_points_with_few_requests_are_left_out():
    """The last point of a phase often has a few requests only."""
    points = [[100, 50, 90, 99]] * 20 + [[3, 500, 900, 990]] + [[0, 0, 0, 0]]
    found = logarithms([{"series": {"interval_s": 1, "points": points}}, {}])
    assert found["avg_us"] == [math.log(50)] * 20 and found["p99_us"] == [math.log(90)] * 20
