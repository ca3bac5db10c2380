# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of result has a badge in the index of all results. Its own code publishes it here."""

from __future__ import annotations

import random
import re

import pytest
from synthetic_fleets import fleet_run
from synthetic_hosts import Host, World
from synthetic_ramps import definition, dram, tier
from synthetic_throughput import study as throughput_study

from ansible_collections.memstretch.density.plugins.plugin_utils.density import answer, together
from ansible_collections.memstretch.density.plugins.plugin_utils.density import publish as density
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import answer as headroom_answer
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import publish as headroom
from ansible_collections.memstretch.density.plugins.plugin_utils.profile import load
from ansible_collections.memstretch.density.plugins.plugin_utils.report import (
    experiments,
    index,
    publish,
    throughput_comparison,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study import (
    compared_arms,
    comparison,
    optimized_profile,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.candidates import candidates
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization import Optimization, SearchSettings
from ansible_collections.memstretch.density.tests.unit.fixtures.looks import look_at
from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT


def silent(line):
    """Show nothing."""


def runs_of(place, names):
    runs = [fleet_run(place, hosts=2, profile=name.split("-")[-2], iterations=1, name=name) for name in names]
    for run in runs:
        publish.publish(run, silent)
    return runs


def a_run(place):
    runs_of(place, ["dram-1"])
    return "dram-1", ["dram"]


def a_comparison(place):
    runs = runs_of(place, ["dram-1", "swap-1"])
    comparison.publish(RunDirectory(str(place), "both"), [comparison.ArmRuns(None, [run]) for run in runs], silent)
    return "both", ["dram", "swap"]


def a_study(place):
    runs_of(place, ["s-dram-1", "s-swap-1"])
    own = RunDirectory(str(place), "s")
    own.make()
    names = ("dram", "swap")
    document = {
        "id": "s",
        "definition": {"arms": [{"name": name, "variables": {"profile": name}} for name in names]},
        "runs": [
            {"run_id": f"s-{name}-1", "arm": name, "round": 1, "state": compared_arms.FINISHED, "note": ""}
            for name in names
        ],
        "site_checks": [],
    }
    compared_arms.conclude(own, "study.json", document, None, silent)
    return "s", ["dram", "swap"]


def a_density(place):
    own = RunDirectory(str(place), "density-1")
    own.make()
    found = answer.answer(definition(["dram", "zram"]), [*dram([1, 2]), *tier("zram", [1, 2], 20.5)])
    density.write(own, {**found, "id": "density-1", "created_at": 1.8e9})
    return "density-1", ["dram", "zram"]


def a_density_without_an_answer(place):
    own = RunDirectory(str(place), "density-1")
    own.make()
    density.write(own, {**answer.answer(definition(["dram", "zram"]), []), "id": "density-1", "created_at": 1.8e9})
    return "density-1", [""]


def a_density_of_several_machines(place):
    own = RunDirectory(str(place), "density-1")
    own.make()
    found = {}
    for name in ("kvm1", "kvm2"):
        machine = RunDirectory(own.path, name)
        machine.make()
        judged = answer.answer(definition(["dram", "zram"], on=name), [*dram([1]), *tier("zram", [1], 20.5)])
        found[name] = together.OfMachine(machine, {**judged, "id": name, "created_at": 1.8e9})
    together.publish_all(own, {"id": "density-1", "created_at": 1.8e9}, found, silent)
    return "density-1", ["dram", "zram"]


def an_experiment(place):
    own = RunDirectory(str(place), "throughput-1")
    arms = throughput_study(random.Random(1))
    document = {"measured_at": 1.8e9, "expected": list(arms), "failed": [], "hosts": arms}
    experiments.keep(own, "throughput_benchmark", document)
    publish.publish_experiment(own, "throughput_benchmark", silent)
    return "throughput-1", [""]


def a_comparison_of_experiments(place):
    found = []
    for name in ("a", "b"):
        arms = throughput_study(random.Random(1))
        own = RunDirectory(str(place), name)
        document = {"measured_at": 1.8e9, "expected": list(arms), "failed": [], "hosts": arms}
        experiments.keep(own, "throughput_benchmark", document)
        found.append(own)
    throughput_comparison.publish(RunDirectory(str(place), "both"), found, silent, write=True)
    return "both", [""]


def a_look_at_headroom(place):
    wishes = headroom_answer.Wishes(like="", compression=None, page_in_us=None, waiting=1, reserve=5)
    looks = {"kv1": look_at(), "kv2": look_at(40)}
    document = headroom_answer.document(looks, wishes, {"id": "headroom-1", "made_at": 1.8e9})
    headroom.write(RunDirectory(str(place), "headroom-1"), document, [])
    return "headroom-1", ["kv1", "kv2"]


def a_search(place):
    own = RunDirectory(str(place), "optimize-1")
    own.make()
    data = load("zram", str(ROOT / "roles" / "host_tuning" / "profiles"), [])
    tried = candidates("zram", data, [])
    host = Host(World("host", {}, spread=0.02), 1)
    result = Optimization({each.name: each.setting for each in tried}, host.measure, SearchSettings()).run()
    document = {
        "id": "optimize-1",
        "created_at": 1.8e9,
        "definition": {
            "profile": "zram",
            "data": data,
            "candidates": [each._asdict() for each in tried],
            "figure": "avg_us",
            "screening_rounds": 2,
            "rounds": 12,
            "minutes": 240,
        },
        "result": result,
    }
    optimized_profile.publish(own, "optimize.json", document, silent)
    return "optimize-1", [""]


KINDS = {
    a_run: "run",
    a_comparison: "comparison",
    a_study: "study",
    a_density: "density",
    a_density_without_an_answer: "density",
    a_density_of_several_machines: "density",
    an_experiment: "experiment",
    a_comparison_of_experiments: "experiment",
    a_look_at_headroom: "look at headroom",
    a_search: "search for better settings",
}


def test_no_kind_is_left_out():
    assert {*KINDS.values()} == {*index._KINDS, index._EXPERIMENTS}


@pytest.mark.parametrize("publish_it", KINDS, ids=lambda kind: kind.__name__)
def test_a_result_has_a_badge_in_the_index(tmp_path, publish_it):
    name, badges = publish_it(tmp_path)
    (row,) = (each for each in index.rows(str(tmp_path)) if each.name == name)
    assert (row.kind, [each for each, _verdict in row.verdicts]) == (KINDS[publish_it], badges)
    assert row.page and all(verdict not in ("", "not finished", "damaged") for _each, verdict in row.verdicts)
    (body,) = re.findall(r"<tbody>(.*)</tbody>", (tmp_path / index.FILE).read_text(encoding="utf-8"), re.DOTALL)
    assert [line for line in body.split("<tr>")[1:] if 'class="tag ' not in line] == []
