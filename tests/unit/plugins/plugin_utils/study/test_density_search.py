# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random

import pytest
from synthetic_densities import Fleet, World, empty, entry, holds, search

from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL, INVALID, PASS, UNDECIDED
from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import (
    ATTEMPTS,
    GIVEN_UP,
    DensitySearch,
    next_probe,
)


def steep(truth):
    return lambda size: PASS if size <= truth else FAIL


def found(probe, maximum=8, **changes):
    """Search under one profile; return what was found, and the sizes in the order in which they were probed."""
    document = search({"dram": probe}, maximum, **changes)
    return document["density"][0], [run["size"] for run in document["runs"]]


@pytest.mark.parametrize("truth", [0, 1, 3, 8])
def test_a_sharp_boundary_is_known_to_one_host(truth):
    arm, order = found(steep(truth))
    assert (arm["density"], arm["stopped_by"], arm["indicative"]) == (truth, "factor", False)
    low, high = arm["passes"]["n90_interval"]
    assert (low, high) == (truth, truth) or (truth == 8 and low >= 6 and high is None), "or: at least this many"
    assert arm["ratio"] is None and arm["if_discarded_failed"] is None
    assert len(order) <= 40


def test_a_guess_never_exceeds_twice_the_largest_size_so_far():
    order = found(steep(32), maximum=32)[1]
    assert all(size <= 2 * max(order[:place]) for place, size in enumerate(order) if place)
    assert found(steep(3), start=6, probes=1)[1] == [6]


def test_the_search_ends_with_its_probes_and_is_indicative():
    arm, order = found(steep(3), probes=3)
    assert len(order) == 3 and arm["stopped_by"] == "probes" and arm["indicative"]


def test_few_probes_give_no_multiple():
    """The example of docs/bench/stretched.md: 4 hosts passed against 3, with one probe of each size."""
    document = empty(["dram", "swap"], maximum=8, probes=5)
    probes = {"dram": [(2, PASS), (3, PASS), (4, FAIL)]}
    probes["swap"] = [(2, PASS), (4, PASS), (5, FAIL), (6, FAIL), (8, FAIL)]
    document["runs"] = [entry(arm, *each) for arm, all_of_it in probes.items() for each in all_of_it]
    density_result.conclude(document)
    ratio = document["density"][1]["ratio"]
    assert ratio["estimate"] is None and ratio["indicative"]
    low, high = ratio["interval"]
    assert low <= 0.5 and (high is None or high >= 3), "as good as nothing is known"


@pytest.mark.parametrize("settings", [{}, {"target": 2}, {"probes": 6}])
def test_the_number_of_probes_left_is_estimated(settings):
    truths = {"dram": 9, "zram": 25}
    document = search({arm: steep(truth) for arm, truth in truths.items()}, maximum=32, **settings)
    runs, document["runs"] = document["runs"], []
    for done, run in enumerate(runs):
        if done % 4 == 0:  # an estimate takes a while
            left = len(runs) - done
            assert left / 2 - 2 <= density_result.probes_left(document) <= 2 * left + 2, f"{left} of {len(runs)}"
        document["runs"].append(run)
    assert density_result.probes_left(document) == 0


@pytest.mark.parametrize(
    ("left", "seconds", "longest", "text"),
    [
        (5, math.inf, 0, "about 5 probes left"),
        (1, -1, 0, "about 1 probe left"),
        (5, 1000, 200, "about 5 probes left"),
        (54, 2520, 180, "about 54 probes left, time for 14"),
        (54, 20, 180, "about 54 probes left, time for 1"),
        (54, -1, 180, "about 54 probes left, time for 1"),
    ],
)
def test_the_probes_left_are_those_that_there_is_time_for(left, seconds, longest, text):
    assert density_result.left_text(left, seconds, longest) == text


def test_arms_take_turns():
    document = search({"dram": steep(3), "zram": steep(5), "swap": steep(4)}, maximum=8, probes=4)
    assert [run["arm"] for run in document["runs"]] == ["dram", "zram", "swap"] * 4
    base, zram, swap = document["density"]
    assert base["ratio"] is None and holds(zram["ratio"]["interval"], 5 / 3) and holds(swap["ratio"]["interval"], 4 / 3)


def test_an_invalid_probe_is_repeated_as_a_whole_and_counted():
    attempts = iter([INVALID, INVALID])
    arm, order = found(lambda size: next(attempts, steep(3)(size)))
    assert order[0] == order[1] == order[2], "the same size again"
    assert arm["density"] == 3 and (arm["discarded"], arm["attempts"], arm["probes"]) == (2, len(order), len(order) - 2)
    bound = arm["if_discarded_failed"]
    assert bound["n90"] <= 3 and bound["n90_interval"][0] < 3, "if both had failed"


def test_a_repeated_probe_is_not_put_off():
    searches = {name: DensitySearch(8, 5, 1.25) for name in ("dram", "zram")}
    searches["dram"].add(2, PASS)
    searches["zram"].add(2, INVALID)
    assert next_probe(searches) == ("zram", 2)


def test_what_cannot_be_judged_never_passes_and_never_fails():
    arm, order = found(lambda size: INVALID if size > 2 else PASS)
    assert arm["stopped_by"] == "invalid" and arm["discarded"] == sum(size > 2 for size in order) == ATTEMPTS * GIVEN_UP
    assert max(order) == 4, "no larger fleet after one that could not be judged"
    undecided = DensitySearch(8, 40, 1.25)
    for size in order:
        undecided.add(size, PASS if size <= 2 else UNDECIDED)
    assert arm["passes"]["n90"] <= undecided.estimate()[1].n90
    assert arm["not_fails"]["n90"] > arm["passes"]["n90"]


def test_undecided_probes_widen_a_ratio_and_take_its_estimate():
    undecided = found_pair(lambda size: PASS if size <= 3 else UNDECIDED if size <= 5 else FAIL, steep(6))
    low, high = undecided["ratio"]["interval"]
    assert undecided["ratio"]["estimate"] is None and low <= 6 / 5 and high >= 2
    plain = found_pair(steep(3), steep(6))
    assert plain["ratio"] == {"estimate": 2, "interval": [1.667, 2], "indicative": False}


def found_pair(base, other):
    return search({"dram": base, "zram": other}, maximum=8)["density"][1]


def test_a_search_goes_on_from_the_record_of_its_attempts():
    def probe(size):
        return {1: PASS, 2: PASS, 3: UNDECIDED, 4: INVALID}.get(size, FAIL)

    whole = search({"dram": probe, "zram": steep(5)}, maximum=8, probes=9)
    order = [(run["arm"], run["size"]) for run in whole["runs"]]
    for cut in range(len(order)):
        searches = density_result.searches({**whole, "runs": whole["runs"][:cut]})
        assert next_probe(searches) == order[cut]
    assert next_probe(density_result.searches(whole)) is None


def test_the_interval_holds_a_planted_density():
    """A small part of tests/bench/density_search.py, whose figures are in docs/bench/density_search.md."""
    held, errors = 0, []
    for number in range(12):
        chance = random.Random(number)
        world = World("", (0.03, 0.1, 0.25)[number % 3], undecided=(1.0, 1.3)[number % 2])
        fleet = Fleet(world, math.exp(chance.uniform(math.log(3), math.log(20))), chance)
        arm = found(fleet.probe, maximum=32, probes=20)[0]
        held += holds(arm["passes"]["n90_interval"], fleet.density())
        held += holds(arm["not_fails"]["n90_interval"], fleet.density(stretch=world.undecided))
        errors.append(arm["density"] / fleet.density())
    assert held >= 23
    assert 0.8 <= sorted(errors)[6] <= 1.1


@pytest.mark.parametrize("arguments", [(0, 1, 2), (4, 0, 2), (4, 1, 1), (4, 1, 2, 5)])
def test_what_makes_no_search_is_refused(arguments):
    with pytest.raises(ValueError):
        DensitySearch(*arguments)
