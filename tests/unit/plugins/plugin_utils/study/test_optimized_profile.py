# SPDX-License-Identifier: GPL-3.0-or-later
"""The files and the sentence of a search: of what a simulated host showed."""

from __future__ import annotations

import json
import pathlib

import jsonschema
import pytest
from synthetic_hosts import Host, World

from ansible_collections.memstretch.density.plugins.plugin_utils.profile import load
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, described_by
from ansible_collections.memstretch.density.plugins.plugin_utils.study.candidates import candidates
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization import Optimization, SearchSettings
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimized_profile import publish
from ansible_collections.memstretch.density.tests.unit.fixtures.sites import NOISY_SITE

OURS = str(pathlib.Path(__file__).resolve().parents[5] / "roles/host_tuning/profiles")
SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schemas/optimize.json").read_text(encoding="utf-8"))


@pytest.fixture
def search(tmp_path):
    """A function that searches the candidates of zram in a world, and returns the path, the lines and the directory."""

    def publish_search(effects, site=(), **settings):
        data = load("zram", OURS, [])
        tried = candidates("zram", data, [])
        host = Host(World("host", effects, spread=0.02), 1)
        result = Optimization(
            {each.name: each.setting for each in tried}, host.measure, SearchSettings(**settings)
        ).run()
        definition = {"profile": "zram", "data": data, "candidates": [each._asdict() for each in tried]}
        document = {
            **described_by("optimize"),
            "id": "optimize-1",
            "created_at": 1_793_000_000.0,
            "definition": {**definition, "figure": "avg_us", "screening_rounds": 2, "rounds": 12, "minutes": 240},
            "attempts": [],
            "site_checks": list(site),
            "result": result,
        }
        directory, lines = RunDirectory(str(tmp_path), "optimize-1"), []
        (tmp_path / "optimize-1").mkdir()
        path = publish(directory, "optimize.json", document, lines.append)
        jsonschema.validate(directory.read_json("optimize.json"), SCHEMA)
        return path, "\n".join(lines), directory

    return publish_search


def test_what_is_confirmed_becomes_a_profile_with_its_effect_as_the_reason(search):
    path, text, directory = search({"vm.swappiness=200": 0.8})
    made = load(path, OURS, [])
    entry = made["sysctl"]["vm.swappiness"]
    assert made["name"] == "zram_optimized" and entry["value"] == 200 and 150 in entry["candidates"]
    tests = {test["candidate"]: test for test in directory.read_json("optimize.json")["result"]["confirmation"]}
    test = tests["vm.swappiness=200"]
    assert test["ratio"] == pytest.approx(0.8, rel=0.05) and test["interval"][0] < 0.8 < test["interval"][1]
    effect = f"average {test['ratio']:.3f} times that of zram ({test['interval'][0]:.3f} to {test['interval'][1]:.3f}"
    assert entry["reason"] == f"Measured alone: {effect}, 12 rounds)."
    unchanged = load("zram", OURS, [])
    assert {**made["sysctl"], "vm.swappiness": 0} == {**unchanged["sysctl"], "vm.swappiness": 0}
    assert made["swap"] == unchanged["swap"]
    assert "vm.swappiness=200 beats zram: average" in text and f"-e profile={path}" in text and "confirmed" in text
    assert directory.read_json("optimize.json")["profile"] == path
    assert directory.read_json("headline.json")["verdicts"] == [["", "faster"]]


def test_a_site_that_was_too_noisy_is_named_with_the_result(search):
    text = search({}, site=[NOISY_SITE])[1]
    assert "  note: the site was too noisy: kvm01: 7.0% of its CPU time was stolen" in text
    assert "Site check of kvm01: avg 40" in text


def test_two_settings_are_proposed_with_what_they_do_together(search):
    path, text, directory = search({"vm.swappiness=200": 0.8, "zram_algorithm=zstd": 0.7})
    made = load(path, OURS, [])
    assert made["swap"]["zram_algorithm"] == ["zstd"] and made["sysctl"]["vm.swappiness"]["value"] == 200
    together = directory.read_json("optimize.json")["result"]["together"]
    assert together["confirmed"] and f"average {together['ratio']:.3f} times that of zram" in made["description"]
    assert "zram_algorithm=zstd, vm.swappiness=200 beats zram" in text


def test_nothing_is_written_where_nothing_beats_the_profile(search):
    path, text, directory = search({})
    assert path is None and not list(pathlib.Path(directory.path).glob("*.yml"))
    document = directory.read_json("optimize.json")
    seen = document["result"]["smallest_effect"]
    assert document["profile"] is None and 1 < seen < 1.2
    assert f"No candidate is measurably better than zram. One that divides the average by {seen:.2f} or more" in text
    assert directory.read_json("headline.json")["verdicts"] == [["", "nothing faster"]]
    assert text.strip().endswith("80 %") and json.loads(json.dumps(document)) == document


def test_too_little_time_is_named(search):
    path, text, _directory = search({"vm.swappiness=200": 0.8}, seconds=60)
    assert path is None and "A larger study_minutes (240 now) or fewer candidates" in text
