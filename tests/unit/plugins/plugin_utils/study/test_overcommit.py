# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random

import pytest
from synthetic_densities import empty, entry

from ansible_collections.memstretch.density.plugins.plugin_utils.report import density_text
from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import next_probe
from ansible_collections.memstretch.density.plugins.plugin_utils.study.overcommit import closed

CALIBRATION = {
    "run_id": "d-calibration",
    "fitting": 16,
    "hosts": 8,
    "budget_bytes": 2**30,
    "charged_bytes": 2**29,
    "slo": {"avg_us": 60, "p99_us": 300},
    "factor": 1.5,
    "avg_us": 40.0,
    "p99_us": 200.0,
}
ARMS = ("swap_2018", "zram")


def series(multiples=(2, 3.5), probes=6, maximum=64):
    document = empty(ARMS, maximum, probes=probes, overcommit=list(multiples))
    return {**document, "calibration": CALIBRATION}


def measured(document, of_arms, outcome="fail"):
    """Probe to the end as the playbook does, with a function for each arm that returns the figures of a probe."""
    searches = density_result.searches(document)
    while (chosen := next_probe(searches)) is not None:
        name, size = chosen
        run = entry(name, size, outcome, **of_arms[name](size, searches[name].probed))
        searches[name].add(size, outcome)
        document["runs"].append(run)
    density_result.conclude(document)
    return document


def latency(avg, p99, **changes):
    return lambda _size, _number: {"worst_host_avg_us": avg, "worst_host_p99_us": p99, **changes}


SLOW, FAST = latency(1040, 10_200, cpu={"total_us": 60}), latency(140, 2_200, cpu={"total_us": 90})


def test_the_sizes_are_probed_in_turn_by_all_profiles_until_the_probes_are_used():
    document = measured(series(), {"swap_2018": SLOW, "zram": FAST})
    assert [(run["arm"], run["size"]) for run in document["runs"]] == 3 * [
        ("swap_2018", 32),
        ("zram", 32),
        ("swap_2018", 56),
        ("zram", 56),
    ]
    assert {arm["stopped_by"] for arm in document["density"]} == {"probes"}
    assert all(arm["indicative"] for arm in document["density"]), "nothing is concluded about the density"


def test_no_fleet_is_larger_than_the_largest_that_may_be_probed():
    document = measured(series(maximum=40), {"swap_2018": SLOW, "zram": FAST})
    assert {run["size"] for run in document["runs"]} == {32, 40}
    assert [row["times"] for row in document["overcommit"]] == [2.0, 2.0, 2.5, 2.5]


def test_an_invalid_probe_is_repeated_and_the_series_continues_from_its_record():
    document = series()
    document["runs"] = [entry("swap_2018", 32, "invalid")]
    assert next_probe(density_result.searches(document)) == ("swap_2018", 32)
    document["runs"] += [entry("swap_2018", 32, "pass"), entry("zram", 32, "pass")]
    assert next_probe(density_result.searches(document)) == ("swap_2018", 56)


def test_the_share_of_the_gap_and_the_cpu_time_at_each_size():
    document = measured(series(), {"swap_2018": SLOW, "zram": FAST})
    first, zram = document["overcommit"][:2]
    assert (first["name"], first["size"], first["times"], first["probes"], first["closed"]) == (
        "swap_2018",
        32,
        2.0,
        3,
        None,
    )
    assert (zram["avg_us"], zram["p99_us"], zram["cpu_us"]) == (140, 2200, 90)
    # (1040 - 140) / (1040 - 40) and (10,200 - 2,200) / (10,200 - 200)
    assert zram["closed"]["avg_us"] == {"gap": True, "estimate": 0.9, "interval": [0.9, 0.9]}
    assert zram["closed"]["p99_us"]["estimate"] == 0.8
    assert zram["closed"]["both"] == {"gap": True, "estimate": 0.8, "interval": [0.8, 0.8]}
    text = "\n".join(density_text.lines(document))
    assert "90 % (90 to 90 %)" in text and "80 % (80 to 80 %)" in text and "10,200.0" in text


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"dram": {"fits": False}}, "does not fit"), ({"lost": ["vm0003"]}, "lost vm0003")],
)
def test_a_latency_that_was_not_measured_under_the_budget_closes_no_gap(changes, why):
    document = measured(series(), {"swap_2018": SLOW, "zram": latency(140, 2_200, **changes)})
    assert [(row["why_not"], row["closed"]) for row in document["overcommit"] if row["name"] == "zram"] == 2 * [
        (why, None)
    ]
    assert why in "\n".join(density_text.lines(document))


def test_only_probes_of_one_round_are_a_pair():
    """The machine slows down from round to round. Without its second round, zram still closes 90 %."""
    document = series(multiples=[2], probes=4)
    for number in range(4):
        slow = 1000 + 100 * number
        document["runs"].append(
            entry("swap_2018", 32, "fail", worst_host_avg_us=40 + slow, worst_host_p99_us=200 + slow)
        )
        attempts = 3 * ["invalid"] if number == 1 else ["fail"]
        fast = {"worst_host_avg_us": 40 + slow / 10, "worst_host_p99_us": 200 + slow / 10}
        document["runs"] += [entry("zram", 32, outcome, **fast) for outcome in attempts]
    density_result.conclude(document)
    zram = document["overcommit"][1]
    assert zram["probes"] == 3
    assert zram["closed"]["both"] == {"gap": True, "estimate": 0.9, "interval": [0.9, 0.9]}


def test_too_few_rounds_have_no_interval():
    document = measured(series(probes=4), {"swap_2018": SLOW, "zram": FAST})
    assert document["overcommit"][1]["closed"]["both"] == {"gap": True, "estimate": 0.8, "interval": None}
    assert "80 % (no interval)" in "\n".join(density_text.lines(document))


@pytest.mark.parametrize("first", [[39, 38, 40], [41, 120, 10], [40, 40, 40]])
def test_without_a_gap_there_is_no_share(first):
    assert closed([30, 30, 30], first, 40) == (False, None, None)
    assert density_text.closed(closed([30, 30, 30], first, 40)._asdict()) == "no certain gap"


def test_a_profile_that_is_slower_than_the_first_has_a_share_below_zero():
    found = closed([200, 210, 190], [140, 142, 138], 40)
    assert found.estimate == -0.6 and found.interval[1] < 0


@pytest.mark.parametrize("rounds", [3, 5])
def test_the_interval_holds_the_truth_in_95_percent(rounds):
    """Runs vary by 10 %, and the two of a round by another 15 % in common. What is not known holds nothing."""
    chance, held, known, truth = random.Random(rounds), 0, 0, (1000 - 300) / (1000 - 40)
    for _study in range(2000):
        together = [math.exp(chance.gauss(0, 0.15)) for _round in range(rounds)]
        first = [1000 * each * math.exp(chance.gauss(0, 0.1)) for each in together]
        ours = [300 * each * math.exp(chance.gauss(0, 0.1)) for each in together]
        found = closed(ours, first, 40)
        if found.interval:
            known += 1
            held += found.interval[0] <= truth <= found.interval[1]
    assert known > 1900 and held / known > 0.94, (known, held)
