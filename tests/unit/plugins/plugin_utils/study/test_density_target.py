# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest
from synthetic_densities import Fleet, World, empty, entry, search

from ansible_collections.memstretch.density.plugins.plugin_utils.report import density_text
from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import next_probe
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_target import FIRST_PROBES


def upto(limit):
    return lambda size: "pass" if size <= limit else "fail"


def searched(zram, target=2.5, maximum=64, **changes):
    return search({"dram": upto(17), "zram": zram}, maximum, target=target, start=17, **changes)


def sizes(document, arm):
    return [run["size"] for run in document["runs"] if run["arm"] == arm]


def test_a_target_is_reached_with_probes_of_the_size_that_decides_it():
    document = searched(upto(60))
    dram, zram = document["density"]
    assert zram["stopped_by"] == "target" and zram["ratio"]["interval"][0] >= 2.5
    assert sizes(document, "zram")[0] == 43, "2.5 times the 17 that fit"
    assert set(sizes(document, "zram")) <= {43, 45, 48}, "of the 17 to 19 that dram may carry"
    assert dram["probes"] == FIRST_PROBES and dram["stopped_by"] == "target" and zram["probes"] < 25
    assert "enough is known for the target, 2.5 times as many" in density_text.stopped(zram, document["definition"])


def test_a_target_is_missed_and_the_density_is_searched_for():
    document = searched(upto(30))
    dram, zram = document["density"]
    assert zram["stopped_by"] in ("target", "factor") and zram["ratio"]["interval"][1] < 2.5
    assert sizes(document, "zram")[0] == 43 and min(sizes(document, "zram")) <= 30
    assert dram["probes"] > FIRST_PROBES, "now it counts what dram does carry"


def test_a_density_near_the_largest_fleet_is_probed_until_the_target_is_decided():
    zram = searched(upto(72), target=3.5, maximum=72)["density"][1]
    assert zram["stopped_by"] == "target" and zram["ratio"]["interval"] == [pytest.approx(3.5, abs=0.3), None]


def test_a_target_above_the_largest_fleet_is_never_said_to_be_reached():
    document = searched(upto(64), target=5.0, probes=8)
    zram = document["density"][1]
    assert set(sizes(document, "zram")) == {64} and zram["stopped_by"] == "probes"
    assert zram["ratio"]["interval"][0] < 5 and zram["ratio"]["interval"][1] is None


def test_a_target_that_cannot_be_decided_ends_with_the_probes():
    """The first profile may carry more than the largest fleet, whatever the other one does."""
    document = search({"dram": upto(32), "zram": upto(32)}, 32, target=2, start=17)
    zram = document["density"][1]
    assert (zram["probes"], zram["stopped_by"]) == (40, "probes")


def test_the_search_continues_from_its_record():
    whole = searched(upto(60))
    document = empty(("dram", "zram"), 64, target=2.5, start=17)
    for run in whole["runs"]:
        assert next_probe(density_result.searches(document)) == (run["arm"], run["size"])
        document["runs"].append(run)
    assert next_probe(density_result.searches(document)) is None


def test_an_invalid_probe_is_repeated():
    document = empty(("dram", "zram"), 64, target=2.5, start=17)
    document["runs"] = [entry("dram", 17, "pass"), entry("zram", 43, "invalid")]
    assert next_probe(density_result.searches(document)) == ("zram", 43)


@pytest.mark.parametrize(("softness", "times"), [(0.05, 2.3), (0.25, 3.0)])
def test_a_profile_below_its_target_is_hardly_ever_said_to_reach_it(softness, times):
    """tests/bench/density_search.py measures how often."""
    reached = 0
    for number in range(12):
        chance = random.Random(number)
        dram, zram = Fleet(World("", 0.025), 17.5, chance), Fleet(World("", softness), 17.5 * times, chance)
        assert zram.density() < 2.5 * dram.density()
        found = search({"dram": dram.probe, "zram": zram.probe}, 64, target=2.5, start=17, probes=25)["density"][1]
        reached += found["ratio"]["interval"][0] >= 2.5
    assert reached <= 1
