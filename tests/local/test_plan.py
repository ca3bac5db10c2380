# SPDX-License-Identifier: GPL-3.0-or-later
"""plan.yml on this machine: how many servers fit under every profile, and nothing changed."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import answer
from ansible_collections.memstretch.density.tests.unit.fixtures.looks import look_at, unit

from .conftest import LOCAL, ROOT, write_inventory


def test_a_plan_for_existing_servers(steady_machine, fleet):
    """The second plan is the same, which it would not be if the swap of this machine had changed."""
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
    outcome = fleet.run_playbook("-e", "fleet_sizes=2", playbook="plan", inventory=inventory)
    assert outcome.status == 0, outcome.output
    plan = fleet.document("plan", "plan")
    assert plan["load"]["key_count"] == 1234 and list(plan["machines"]) == ["kvm01"]
    assert plan["answer"].startswith("On kvm01, which has ") and plan["answer"] in outcome.output


@pytest.mark.long
@pytest.mark.usefixtures("needs_root")
def test_the_budget_of_a_density_is_the_dram_of_its_plan(fleet):
    """docs/plan.md shows this one."""
    given = ("-e", "profiles=dram,zram", "-e", "fleet_sizes=19,52")
    outcome = fleet.run_playbook(*given, playbook="plan", inventory=ROOT / "inventories" / "ramp" / "hosts.yml")
    assert outcome.status == 0, outcome.output
    answer = fleet.document("plan", "plan")["answer"]
    assert (
        answer.startswith("Within 256 MiB of DRAM: dram 19, zram 59 of these Redis servers")
        and answer in outcome.output
    )


@pytest.mark.long
@pytest.mark.usefixtures("needs_root")
def test_what_headroom_saw_is_planned_for_another_host(fleet):
    """Two VMs of 20 MiB in the budget of inventories/ramp."""
    wishes = answer.Wishes(like="", compression=3.0, page_in_us=None, waiting=1, reserve=5)
    seen = look_at(units=[unit(name, 20 * 2**20) for name in ("vm1", "vm2")])
    (fleet.results / "look").mkdir(parents=True)
    document = answer.document({"kv1": seen}, wishes, {"id": "look", "made_at": 1})
    (fleet.results / "look" / "headroom.json").write_text(json.dumps(document), encoding="utf-8")

    given = ("-e", "profiles=dram,zram", "-e", "fleet_sizes=34", "-e", "density_plan_headroom=look")
    outcome = fleet.run_playbook(*given, playbook="plan", inventory=ROOT / "inventories" / "ramp" / "hosts.yml")
    assert outcome.status == 0, outcome.output
    plan = fleet.document("plan", "plan")
    assert plan["server"]["bytes"] == 20 * 2**20 and plan["server"]["measured_by"] == "headroom look"
    assert plan["answer"].startswith("Within 256 MiB of DRAM: dram 12, zram 3") and plan["answer"] in outcome.output
    dram, zram = plan["fleets"]
    assert dram["verdict"] == "does not fit" and dram["page_ins_per_second"] is None
    assert zram["verdict"] == "fits" and zram["page_ins_per_second"] > 0 < zram["waiting_percent"]


@pytest.mark.parametrize("keys, value_size", [(9000, 1000), pytest.param(20_000, 4000, marks=pytest.mark.long)])
def test_the_memory_of_a_server_is_that_of_a_real_one(fleet, client, keys, value_size):
    fleet.add("a")
    server = fleet.servers["a"]
    command = [client, "fill", str(server.port), str(value_size), str(keys)]
    subprocess.run(command, check=True, capture_output=True)
    status = (pathlib.Path("/proc") / str(server.process.pid) / "status").read_text(encoding="ascii")
    resident = int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024

    load = [f"latency_benchmark_key_count={keys}", f"latency_benchmark_value_size={value_size}"]
    outcome = fleet.run_playbook("-e", load[0], "-e", load[1], playbook="plan")
    assert outcome.status == 0, outcome.output
    assert fleet.document("plan", "plan")["server"]["bytes"] == pytest.approx(resident, rel=0.1)


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
        ({"baseline_run": "none"}, "density_plan_baseline_run: there is no run 'none'"),
        ({"host_reserve": "most"}, "density_plan_host_reserve: 'most' is not a size"),
        ({"density": "none"}, "density_plan_density: there is no density 'none'"),
        ({"headroom": "none"}, "density_plan_headroom: there is no headroom 'none'"),
        ({"density": "d", "baseline_run": "r"}, "density_plan_baseline_run and density_plan_density exclude each"),
        ({"density": "d", "vm_memory": "1G"}, "density_plan_density: tells how much memory a server takes, as"),
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
