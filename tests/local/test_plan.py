# SPDX-License-Identifier: GPL-3.0-or-later
"""plan.yml on this machine: a forecast of every profile, nothing changed, and the keys that the client chooses."""

from __future__ import annotations

import collections
import json
import subprocess

import hot_set
import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import access_model

from .conftest import LOCAL, ROOT, write_inventory


def test_a_plan_for_existing_servers(fleet):
    fleet.add("a", "b")
    outcome = fleet.run_playbook(playbook="plan")
    assert outcome.status == 0, outcome.output
    plan = fleet.document("plan", "plan")
    assert [each["size"] for each in plan["fleets"]] == [2] and any("is not tuned" in note for note in plan["notes"])
    assert list(plan["machines"]) == ["a"], "two Redis on one machine are one machine"
    again = fleet.run_playbook(playbook="plan")
    assert again.status == 0 and "changed=1" not in again.output, again.output


def test_a_plan_for_a_future_fleet_uses_its_group_variables(fleet):
    directory = fleet.path / "empty"
    (directory / "group_vars").mkdir(parents=True)
    (directory / "group_vars" / "fleet.yml").write_text("latency_benchmark_key_count: 1234\n", encoding="utf-8")
    hypervisors = {"hosts": {"kvm01": {"host_tuning_state": "recorded"}}}
    inventory = write_inventory(directory / "hosts.yml", {"hypervisors": hypervisors, "fleet": {}})
    outcome = fleet.run_playbook("-e", "fleet_sizes=2", "-e", "solve=tier", playbook="plan", inventory=inventory)
    assert outcome.status == 0, outcome.output
    plan = fleet.document("plan", "plan")
    assert plan["load"]["key_count"] == 1234 and list(plan["machines"]) == ["kvm01"]
    (needed,) = plan["needed_tiers"]
    assert needed["size"] == 2 and len(needed["cells"]) == len(plan["fleets"][0]["cells"])
    assert "The slowest tier that meets the SLO" in outcome.output


def test_a_mistake_is_named(fleet):
    """What plan.yml itself refuses, one by one, and what its module refuses, in one playbook."""
    outcome = fleet.run_playbook("-e", "profiles=dram,turbo", playbook="plan", inventory=LOCAL)
    assert outcome.status != 0 and "Allowed: dram, dram_2018, imdt" in outcome.output
    outcome = fleet.run_playbook("-e", "profile=dram", "-e", "profiles=dram,swap", playbook="plan", inventory=LOCAL)
    assert outcome.status != 0 and "set only one of them" in outcome.output

    fleet.add("a")
    common = {
        "results_dir": str(fleet.results),
        "run": "{{ hostvars['localhost'].latency_benchmark_checked }}",
        "machines": "{{ {inventory_hostname: {'record': host_tuning_record, 'arms': plan_arms}} }}",
        "fleet_sizes": [1],
    }
    cases = [
        ({"fleet_sizes": "many"}, "fleet_sizes: 'many' is not allowed; it must be a whole number from 1 to 100,000"),
        ({"fleet_sizes": "2,500000"}, "fleet_sizes: '500000' is out of range"),
        ({"tiers": {"tape": {"avg_us": 1}}}, "density_plan_tiers: 'tape' is not a tier"),
        ({"baseline_run": "none"}, "density_plan_baseline_run: there is no run 'none'"),
        ({"host_reserve": "most"}, "density_plan_host_reserve: 'most' is not a size"),
        ({"solve": "drive"}, "solve: 'drive' is not allowed; it must be tier or empty"),
    ]
    messages = fleet.messages(
        [{"memstretch.density.density_plan": {**common, **case}} for case, dummy in cases],
        pre_tasks=[
            {
                "ansible.builtin.include_role": {
                    "name": "memstretch.density.latency_benchmark",
                    "tasks_from": "check",
                },
                "vars": {"latency_benchmark_results_dir": str(fleet.results)},
            },
            {
                "ansible.builtin.include_role": {"name": "memstretch.density.host_tuning"},
                "vars": {"host_tuning_state": "recorded", "host_tuning_profile": "dram"},
            },
            {
                "ansible.builtin.include_tasks": str(ROOT / "playbooks" / "tasks" / "plan_profile.yml"),
                "vars": {"profile": "dram", "plan_tuned": False},
            },
        ],
    )
    wrong = [(message, told) for (dummy, message), told in zip(cases, messages) if message not in told]
    assert not wrong


@pytest.mark.parametrize("influence", [0, 10, 25])
def test_the_hot_set_is_as_modelled(fleet, client, influence):
    fleet.add("a")
    port = str(fleet.servers["a"].port)
    subprocess.run([client, "fill", port, "10", "20000"], check=True, capture_output=True)
    done = subprocess.run(
        [
            client,
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
    exact = collections.Counter(hot_set.weights(20000, influence))
    expected = hot_set.realised_hot_set(
        [access_model.Band(keys, weight / 2e6) for weight, keys in exact.items()], 40000
    )
    assert hot["distinct_keys"] == pytest.approx(expected["distinct_keys"], rel=0.01)
    for name, keys in zip(("p50_keys", "p90_keys", "p99_keys"), expected["keys"]):
        assert hot[name] == pytest.approx(keys, rel=0.02), name
