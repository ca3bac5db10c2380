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
from ansible_collections.memstretch.density.plugins.plugin_utils.density.together import (
    OfMachine,
    publish_all,
    sentence_of,
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


def test_the_sum_is_a_multiple_of_the_first_profiles(two):
    times = totals(two) / 20
    assert sentence_of(two) == f"Together, the 2 machines carry: DRAM alone 20; zram {totals(two)} ({times:.1f} times)."


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([{"at_least": True}, {}], "zram at least {}."),
        ([{}, {"at_most": True}], "zram fewer than {}."),
        ([{"at_least": True}, {"at_most": True}], "zram about {}."),
    ],
)
def test_a_sum_of_bounds_is_a_bound_and_no_multiple(two, flags, words):
    changed = copy.deepcopy(two)
    for each, flag in zip(changed.values(), flags):
        each["arms"][1].update(flag)
    assert sentence_of(changed).endswith(words.format(totals(two)))


def test_a_machine_without_a_density_leaves_no_sum(two):
    none = answer(definition(("dram", "zram")), tier("zram", ROUNDS, 20.5))
    assert sentence_of({**two, "kvm3": none}) == "No density of 3 machines together: not each of them has one."


def test_each_machine_has_its_page_and_the_whole_an_index(two, tmp_path):
    directory, said = RunDirectory(str(tmp_path), "density-1"), []
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
    publish_all(directory, document, found, said.append)
    written = json.loads((tmp_path / "density-1" / "density.json").read_text("utf-8"))
    jsonschema.validate(written, SCHEMA)
    assert written["machines"]["kvm1"] == {"dram": 10, "zram": two["kvm1"]["arms"][1]["density"]}
    assert said[1].startswith("On kvm1, in 256 MiB of DRAM, zram carries ") and sentence_of(two) in said
    assert sentence_of(two) in (tmp_path / "index.html").read_text("utf-8")
    below = (tmp_path / "density-1" / "index.html").read_text("utf-8")
    assert "kvm1/density.html" in below and "kvm2/density.html" in below


def test_metrics_of_several_machines_can_be_told_apart(two):
    text = open_metrics(two["kvm2"], 1.8e9)
    assert 'memstretch_density{profile="zram",machine="kvm2"} ' in text
    assert 'memstretch_density_bound{profile="zram",machine="kvm2",bound="low"} ' in text
