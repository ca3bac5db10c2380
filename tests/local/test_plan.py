# SPDX-License-Identifier: GPL-3.0-or-later
"""plan.yml on this machine: it answers for every profile, changes nothing, and its model is that of the client and of the kernel."""

from __future__ import annotations

import collections
import json
import os
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import access_model

from .conftest import ROOT
from .test_run import client
from .test_tuning import RECORDS, differences, snapshot

STRETCHED = ROOT / "inventories" / "stretched" / "hosts.yml"
LOCAL = ROOT / "inventories" / "local" / "hosts.yml"


def document(outcome):
    return json.loads((outcome.run.parent / "plan" / "plan.json").read_text(encoding="utf-8"))


def of(plan, profile, size):
    return next(each for each in plan["fleets"] if (each["profile"], each["size"]) == (profile, size))


def test_a_study_of_this_machine_is_planned_and_nothing_is_changed(lab):
    if os.geteuid() != 0:
        pytest.skip("to ask what a profile would change on this machine needs root")
    if RECORDS.exists():
        pytest.fail(
            f"{RECORDS} is there: this machine carries a profile already; restore it first (playbooks/restore.yml)"
        )
    before = snapshot()
    outcome = lab.play("-e", "profiles=dram,swap,zram", "-e", "fleet_sizes=1,8", playbook="plan", inventory=STRETCHED)
    assert outcome.status == 0, outcome.output
    assert differences(before, snapshot()) == {} and not RECORDS.exists()
    plan = document(outcome)
    assert {(each["profile"], each["size"]) for each in plan["fleets"]} == {
        (profile, size) for profile in ("dram", "swap", "zram") for size in (1, 8)
    }
    # What the inventory makes of each profile: 1 GiB under dram, 130 MiB and a swap file or zram under the others.
    assert of(plan, "dram", 8)["dram_bytes"] == 2**30 and of(plan, "dram", 8)["cells"][0]["hit_rate"] == 1
    assert of(plan, "swap", 8)["dram_bytes"] == 130 * 2**20 and of(plan, "swap", 8)["tier"] == "file"
    assert of(plan, "zram", 8)["tier"] == "zram" and of(plan, "zram", 8)["tier_bytes"] > 1e9
    assert 0.2 < of(plan, "zram", 8)["cells"][0]["hit_rate"] < of(plan, "zram", 8)["cells"][1]["hit_rate"] < 0.9
    assert plan["duration"]["runs"] == 6 and plan["duration"]["phases"] == 9
    assert "Nothing was changed." in outcome.output

    checked = lab.play(
        "--check",
        "-e",
        "profile=swap",
        "-e",
        "results_dir=" + str(lab.path / "other"),
        playbook="plan",
        inventory=STRETCHED,
    )
    assert checked.status == 0 and "Nothing was changed." in checked.output and not (lab.path / "other").exists(), (
        checked.output
    )


def test_servers_that_are_there_can_be_planned_for_too(lab):
    outcome = lab.play(playbook="plan", inventory=LOCAL)
    assert outcome.status == 0, outcome.output
    plan = document(outcome)
    assert [each["size"] for each in plan["fleets"]] == [4] and any("is not tuned" in note for note in plan["notes"])
    again = lab.play(playbook="plan", inventory=LOCAL)
    assert again.status == 0 and "changed=1" not in again.output, again.output

    lab.add("a", "b")
    fleet_only = lab.play("-e", "fleet_sizes=2,500000", playbook="plan")
    assert fleet_only.status != 0 and "density_plan_fleet_sizes: '500000' is out of range" in fleet_only.output.replace(
        "\\'", "'"
    ), fleet_only.output
    assert lab.play(playbook="plan").status == 0 and list(document(outcome)["machines"]) == ["a"], (
        "two Redis on one machine are one machine"
    )


def test_a_fleet_that_is_still_to_be_made_is_planned_with_its_groups_variables(lab):
    inventory = lab.path / "empty" / "hosts.yml"
    inventory.parent.mkdir()
    inventory.write_text(
        "all:\n  vars: {ansible_connection: local, ansible_python_interpreter: '{{ ansible_playbook_python }}', host_tuning_state: recorded}\n"
        "  children: {hypervisors: {hosts: {kvm01: }}, fleet: {}}\n",
        encoding="utf-8",
    )
    (inventory.parent / "group_vars").mkdir()
    (inventory.parent / "group_vars" / "fleet.yml").write_text("latency_benchmark_key_count: 1234\n", encoding="utf-8")
    outcome = lab.play("-e", "fleet_sizes=2", playbook="plan", inventory=inventory)
    assert outcome.status == 0, outcome.output
    assert document(outcome)["load"]["key_count"] == 1234 and list(document(outcome)["machines"]) == ["kvm01"]


@pytest.mark.parametrize(
    "variable, message",
    [
        ("profiles=dram,turbo", "Allowed: dram, imdt"),
        (
            "fleet_sizes=many",
            "density_plan_fleet_sizes: 'many' is not allowed; it takes a whole number from 1 to 100,000",
        ),
        ('{"density_plan_tiers": {"tape": {"avg_us": 1}}}', "density_plan_tiers: 'tape' is not a tier"),
        ("density_plan_baseline_run=none", "density_plan_baseline_run: there is no run 'none'"),
        ("density_plan_host_reserve=most", "density_plan_host_reserve: 'most' is no size"),
        ("latency_benchmark_rate=0", "latency_benchmark_rate"),
    ],
)
def test_a_mistake_is_named(lab, variable, message):
    outcome = lab.play("-e", variable, playbook="plan", inventory=LOCAL)
    assert outcome.status != 0 and message in outcome.output.replace("\\'", "'"), outcome.output


def test_one_profile_beside_several_is_refused(lab):
    outcome = lab.play("-e", "profile=dram", "-e", "profiles=dram,swap", playbook="plan", inventory=LOCAL)
    assert outcome.status != 0 and "set only one of them" in outcome.output


@pytest.mark.parametrize("influence", [0, 10, 25])
def test_the_hot_set_is_the_one_that_the_model_expects(lab, tmp_path, influence):
    lab.add("a")
    port = str(lab.servers["a"].port)
    program = client(tmp_path)
    subprocess.run([program, "fill", port, "10", "20000"], check=True, capture_output=True)
    done = subprocess.run(
        [
            program,
            "--json",
            "--seed",
            "7",
            "--pacing",
            "none",
            "--pipeline",
            "32",
            "--requests",
            "40000",
            "test",
            port,
            "10",
            "20000",
            str(influence),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    hot = json.loads(done.stdout)["test"]["hot_set"]
    exact = collections.Counter(access_model.weights(20000, influence))
    expected = access_model.realised_hot_set(
        [access_model.Band(keys, weight / 2e6) for weight, keys in exact.items()], 40000
    )
    assert hot["distinct_keys"] == pytest.approx(expected["distinct_keys"], rel=0.01)
    for name, keys in zip(("p50_keys", "p90_keys", "p99_keys"), expected["keys"]):
        assert hot[name] == pytest.approx(keys, rel=0.02), name
