# SPDX-License-Identifier: GPL-3.0-or-later
"""What several machines carry together."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest
from synthetic_ramps import definition, dram, tier

from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer
from ansible_collections.memstretch.density.plugins.plugin_utils.density.exports import open_metrics
from ansible_collections.memstretch.density.plugins.plugin_utils.density.publish import badges
from ansible_collections.memstretch.density.plugins.plugin_utils.density.sentence import ratio, sure
from ansible_collections.memstretch.density.plugins.plugin_utils.density.together import (
    OfMachine,
    publish_all,
    sentence_of,
    sums,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, described_by

from .judging import ROUNDS, SCHEMA, judged


@pytest.fixture(scope="module")
def two():
    """The answers of two machines."""
    return {
        name: judged([*dram(ROUNDS), *tier("zram", ROUNDS, middle)], on=name)
        for name, middle in (("kvm1", 20.5), ("kvm2", 28.5))
    }


def totals(two):
    return sum(each["arms"][1]["density"] for each in two.values())


def said(documents):
    return sentence_of(sums(documents), len(documents))


def without_rounds(document):
    for arm in document["arms"]:
        arm["rounds"] = []
    return document


def test_the_sum_is_a_multiple_of_the_first_profiles(two):
    dram_, zram = sums(two)
    # DRAM ends after 10 hosts on each machine in each round.
    assert (dram_["density"], dram_["interval"], dram_["passes"]["values"]) == (20, [20, 20], [20, 20, 20])
    assert zram["density"] == totals(two)
    low, high = zram["interval"]
    assert low <= zram["density"] <= high
    times = zram["ratio"]
    assert times["interval"][0] <= zram["density"] / 20 <= times["interval"][1]
    assert said(two) == (
        f"Together, the 2 machines carry: DRAM alone 20 (95 %: 20); zram {totals(two)} ({sure(zram)}): {ratio(zram)}."
    )
    assert ratio(zram).startswith(f"{times['ratio']:.1f} times (") and str(low) in sure(zram)


def test_rounds_that_differ_on_one_machine_widen_the_interval_of_the_sum(two):
    restless = judged([*dram(ROUNDS), *(ramp for each in ROUNDS for ramp in tier("zram", [each], 16 + 4 * each))])
    (_dram, calm), (_dram, wide) = sums(two), sums({**two, "kvm1": restless})
    assert wide["interval"][1] / wide["interval"][0] > 1.1 * calm["interval"][1] / calm["interval"][0]


def test_only_rounds_that_all_machines_have_are_added(two):
    longer = judged([*dram((1, 2, 3, 4)), *tier("zram", (1, 2, 3, 4), 28.5)])
    assert [len(each["passes"]["values"]) for each in sums({**two, "kvm2": longer})] == [3, 3]
    none = without_rounds(copy.deepcopy(two["kvm2"]))
    (_dram, zram) = sums({**two, "kvm2": none})
    assert (zram["density"], zram["passes"], zram["interval"], zram["ratio"]) == (totals(two), None, None, None)
    assert said({**two, "kvm2": none}).endswith(f"DRAM alone 20; zram {totals(two)}.")
    first = copy.deepcopy(two["kvm2"])
    first["arms"][0]["rounds"] = []
    assert sums({**two, "kvm2": first})[1]["ratio"] is None, "nothing is a multiple of itself"


def test_one_round_is_no_interval():
    one = {name: judged([*dram([1]), *tier("zram", [1], 20.5)]) for name in ("kvm1", "kvm2")}
    zram = sums(one)[1]
    assert zram["interval"] is None and zram["ratio"]["interval"] is None
    assert f"zram {zram['density']} (one ramp): " in said(one)


def test_the_interval_of_a_sum_holds_it(two):
    # A hold, or a host that missed the objective, has made the density of a machine smaller than its rounds say.
    changed = copy.deepcopy(two)
    changed["kvm1"]["arms"][1]["density"] = 5
    zram = sums(changed)[1]
    assert zram["density"] == zram["interval"][0] == zram["span"][0]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([{"at_least": True}, {}], "zram at least {}"),
        ([{}, {"at_most": True}], "zram fewer than {}"),
        ([{"at_least": True}, {"at_most": True}], "zram about {}"),
    ],
)
def test_a_sum_of_bounds_is_a_bound(two, flags, words):
    changed = copy.deepcopy(two)
    for each, flag in zip(changed.values(), flags):
        each["arms"][1].update(flag)
    assert f"; {words.format(totals(two))}" in said(changed)
    has_ratio = not any("at_most" in flag for flag in flags)
    assert (sums(changed)[1]["ratio"] is not None) == has_ratio


def test_a_machine_without_a_density_leaves_no_sum(two):
    none = answer(definition(("dram", "zram")), tier("zram", ROUNDS, 20.5))
    assert said({**two, "kvm3": none}) == "No density of 3 machines together: not each of them has one."


def test_each_machine_has_its_page_and_the_whole_an_index(two, tmp_path):
    directory, lines = RunDirectory(str(tmp_path), "density-1"), []
    directory.make()
    found = {}
    for name, each in two.items():
        own = RunDirectory(directory.path, name)
        own.make()
        found[name] = OfMachine(own, {**each, "id": f"density-1/{name}", "created_at": 1.8e9})
    document = {
        **described_by("density"),
        "id": "density-1",
        "created_at": 1.8e9,
        "definition": {"arms": ["dram", "zram"], "objective": two["kvm1"]["definition"]["objective"]},
    }
    publish_all(directory, document, found, lines.append)
    written = json.loads((tmp_path / "density-1" / "density.json").read_text("utf-8"))
    jsonschema.validate(written, SCHEMA)
    assert written["machines"]["kvm1"] == {"dram": 10, "zram": two["kvm1"]["arms"][1]["density"]}
    assert lines[1].startswith("On kvm1, in 256 MiB of DRAM, zram carries ") and said(two) in lines
    assert said(two) in (tmp_path / "index.html").read_text("utf-8")
    row = json.loads((tmp_path / "density-1" / "headline.json").read_text("utf-8"))
    assert row["verdicts"] == [["dram", "20"], ["zram", str(totals(two))]]
    below = (tmp_path / "density-1" / "index.html").read_text("utf-8")
    assert "kvm1/density.html" in below and "kvm2/density.html" in below and f"<h1>{said(two)}</h1>" in below


@pytest.mark.parametrize(("flags", "badge"), [({}, "40"), ({"at_least": True}, "≥ 40"), ({"at_most": True}, "≤ 40")])
def test_a_badge_has_the_density_of_a_profile(flags, badge):
    arm = {"name": "zram", "density": 40, "at_least": False, "at_most": False, **flags}
    assert badges([arm, {**arm, "density": None}]) == [("zram", badge)]


def test_a_sum_of_both_bounds_has_a_badge_and_no_sum_has_another():
    assert badges([{"name": "zram", "density": 40, "at_least": True, "at_most": True}]) == [("zram", "≈ 40")]
    assert badges([]) == [("", "no answer")]


def test_metrics_of_several_machines_can_be_told_apart(two):
    text = open_metrics(two["kvm2"], 1.8e9)
    assert 'memstretch_density{profile="zram",machine="kvm2"} ' in text
    assert 'memstretch_density_bound{profile="zram",machine="kvm2",bound="low"} ' in text
