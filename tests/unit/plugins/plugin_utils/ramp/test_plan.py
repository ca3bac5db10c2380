# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a ramp from the variables of an inventory."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import checked
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.plan import machines_of, plan_of, references_of

VARIABLES = {
    "latency_benchmark_key_count": 9000,
    "latency_benchmark_value_size": 1000,
    "latency_benchmark_compressibility": 0.72,
    "latency_benchmark_rate": 50,
    "latency_benchmark_influences": [25],
    "latency_benchmark_read_mixes": [100],
    "redis_daemon_user": "redis",
}
FLEET = ["redis1", "redis2", "redis3"]


def hostvars(**changes):
    changed = {**VARIABLES, **changes}
    return {name: {**changed, "latency_benchmark_port": 7000 + place} for place, name in enumerate(FLEET)}


def test_instances_join_in_the_order_of_the_inventory_and_references_have_the_next_ports():
    plan = plan_of({"density_budget": "256M", "density_references": "2"}, FLEET, hostvars())
    assert plan["servers"] == [{"name": name, "port": 7000 + place} for place, name in enumerate(FLEET)]
    assert plan["references"] == [{"name": "reference1", "port": 7003}, {"name": "reference2", "port": 7004}]
    assert plan["load"] == {
        "rate": 50.0,
        "value_size": 1000,
        "keys": 9000,
        "influence": 25.0,
        "read_mix": 100,
        "compressibility": 0.72,
        "arrivals": "jitter",
    }
    assert plan["budget_bytes"] == 2**28 and plan["user"] == "redis"


@pytest.mark.parametrize(
    ("own", "user"),
    [
        ({"redis_daemon_user": ""}, "redis"),
        ({"redis_daemon_user": "", "redis_user": "valkey"}, "valkey"),
        ({"redis_daemon_user": "root"}, "root"),
    ],
)
def test_no_server_is_roots_unless_somebody_asks_for_that(own, user):
    assert plan_of({"density_budget": "256M"}, FLEET, hostvars(**own))["user"] == user


def test_the_conductor_takes_every_plan():
    given = {"density_budget": "256M", "density_hold": 0.5, "density_growth": 0.04, "density_window": 2}
    plan = plan_of({**given, "density_settle": 9, "density_wait": 0, "density_factor": 1.5}, FLEET, hostvars())
    found = checked({**plan, "sizes": [1, 3], "client": "/solotest", "tier": ["/dev/zram0"]})
    assert (found.hold_seconds, found.growth, found.window_seconds) == (30, 0.04, 2)
    assert found.written_bytes == 2**31, "two GiB, unless somebody allows more"
    assert (found.settle_seconds, found.wait_seconds, found.objective["factor"]) == (9, 0, 1.5)


def test_density_max_leaves_out_the_last_instances():
    plan = plan_of({"density_budget": "256M", "density_max": 2}, FLEET, hostvars())
    assert [server["name"] for server in plan["servers"]] == FLEET[:2]


@pytest.mark.parametrize(
    ("given", "fleet", "variables", "named"),
    [
        ({}, FLEET, {}, "density_budget: is missing"),
        ({"density_budget": "1M"}, FLEET, {}, "density_budget: .* is out of range"),
        ({"density_budget": "256M", "density_written": "1k"}, FLEET, {}, "density_written: .* is out of range"),
        ({"density_budget": "256M", "density_growth": 2}, FLEET, {}, "density_growth: 2 is out of range"),
        (
            {"density_budget": "256M", "density_touch": 9},
            FLEET,
            {},
            "density_touch: has no effect without density_hold",
        ),
        ({"density_budget": "256M", "density_hold": -1}, FLEET, {}, "density_hold: -1 is out of range"),
        (
            {"density_budget": "256M", "density_max": 4},
            FLEET,
            {},
            "density_max: 4 is out of range; .* from 1 to 3, the",
        ),
        (
            {"density_budget": "256M", "slo": "calibrated"},
            FLEET,
            {},
            "slo: 'calibrated' is not allowed; .* relative, abs",
        ),
        (
            {"density_budget": "256M", "slo": "absolute", "density_factor": 2},
            FLEET,
            {},
            "density_factor: has no effect",
        ),
        (
            {"density_budget": "256M", "slo": "absolute"},
            FLEET,
            {"latency_benchmark_slo_p99_us": 0},
            "latency_benchmark_slo_p99_us: 0 is out of range",
        ),
        ({"density_budget": "256M", "density_image": "-v"}, FLEET, {}, "density_image: '-v' is not allowed"),
        ({"density_budget": "256M"}, [], {}, "fleet: this group is empty"),
        ({"density_budget": "256M"}, FLEET, {"latency_benchmark_rate": 0}, "latency_benchmark_rate: 0 is out of range"),
        ({"density_budget": "256M"}, FLEET, {"latency_benchmark_influences": [0, 25]}, "has 2 values; a ramp measures"),
        ({"density_budget": "256M"}, FLEET, {"latency_benchmark_arrivals": "now"}, "latency_benchmark_arrivals"),
    ],
)
def test_what_a_ramp_cannot_do_is_refused_by_name(given, fleet, variables, named):
    with pytest.raises(SettingError, match=named):
        plan_of(given, fleet, hostvars(**variables))


def test_a_variable_that_is_missing_is_named():
    without = hostvars()
    del without["redis1"]["latency_benchmark_rate"]
    with pytest.raises(SettingError, match="latency_benchmark_rate: is missing"):
        plan_of({"density_budget": "256M"}, FLEET, without)


def test_the_objective_is_relative_or_that_of_the_fleet_in_microseconds():
    def objective(given, **changes):
        return plan_of({"density_budget": "256M", **given}, FLEET, hostvars(**changes))["objective"]

    assert objective({}) == {"kind": "relative", "factor": 2.0}
    assert objective({"slo": "absolute"}) == {"kind": "absolute", "avg_us": 50, "p99_us": 300}
    limits = {"latency_benchmark_slo_avg_us": 80, "latency_benchmark_slo_p99_us": "500"}
    assert objective({"slo": "absolute"}, **limits) == {"kind": "absolute", "avg_us": 80, "p99_us": 500}


LOCAL = {"ansible_connection": "local"}
KVM2 = {"ansible_host": "kvm2.example.com"}


@pytest.mark.parametrize(
    ("groups", "variables", "named"),
    [
        ({"fleet": ["a"]}, {}, "hypervisors: this group is empty; .*playbooks/site.yml"),
        (
            {"hypervisors": ["kvm1", "kvm2"], "fleet": ["a"]},
            {},
            "hypervisors: kvm1 and kvm2 are reached in the same way",
        ),
        (
            {"hypervisors": ["kvm1", "kvm2"], "fleet": ["a"]},
            {"kvm2": KVM2},
            "fleet: no host is on kvm2; name the Redis servers",
        ),
        (
            {"hypervisors": ["kvm1"], "fleet": ["a"]},
            {"kvm1": {"vm_fleet_count": 4}},
            "vm_fleet_count: is set, but the group fleet has no VMs. playbooks/fleet.yml",
        ),
        (
            {"hypervisors": ["kvm1"], "fleet": ["a", "b"]},
            {"a": {"vm_fleet_hypervisor": "kvm1"}},
            "fleet: a are VMs of the role vm_fleet, b are not",
        ),
        (
            {"hypervisors": ["kvm1"], "fleet": ["a"]},
            {"a": {"vm_fleet_hypervisor": "kvm2"}},
            "fleet: the hypervisors of a are not in the group hypervisors",
        ),
        (
            {"hypervisors": ["kvm1"], "fleet": ["a", "b"]},
            {"b": {"ansible_connection": "ssh"}},
            "fleet: b: not on kvm1, but reached in another way",
        ),
        (
            {"hypervisors": ["kvm1"], "fleet": ["a", "b", "c", "d"]},
            dict.fromkeys("abcd", {"ansible_connection": "community.docker.docker"}),
            "fleet: a, b, c and 1 more: not on kvm1, .*With density_image they start in containers there",
        ),
    ],
)
def test_fleets_that_no_ramp_can_start_are_refused_with_what_to_do_instead(groups, variables, named):
    hosts = {
        name: variables[name] if "ansible_host" in variables.get(name, {}) else {**LOCAL, **variables.get(name, {})}
        for names in groups.values()
        for name in names
    }
    with pytest.raises(SettingError, match=named):
        machines_of(groups, hosts)


def test_instances_on_the_hypervisor_itself_are_taken():
    groups = {"hypervisors": ["kvm1"], "fleet": ["a", "b"]}
    assert machines_of(groups, dict.fromkeys(("kvm1", "a", "b"), LOCAL)) == {"kvm1": ["a", "b"]}


def test_each_instance_is_on_the_hypervisor_that_is_reached_in_the_same_way():
    groups = {"hypervisors": ["kvm1", "kvm2.example.com"], "fleet": ["a", "b", "c"]}
    variables = {"kvm1": LOCAL, "kvm2.example.com": {}, "a": KVM2, "b": LOCAL, "c": {**KVM2, "redis_port": 7001}}
    assert machines_of(groups, variables) == {"kvm1": ["b"], "kvm2.example.com": ["a", "c"]}


VMS = {
    "vm1": {**VARIABLES, "vm_fleet_hypervisor": "kvm1", "ansible_host": "10.0.0.1", "latency_benchmark_port": 6379},
    "vm2": {**VARIABLES, "vm_fleet_hypervisor": "kvm2", "ansible_host": "10.0.0.2", "latency_benchmark_port": 6379},
    "vm3": {**VARIABLES, "vm_fleet_hypervisor": "kvm1", "ansible_host": "10.0.0.3", "latency_benchmark_port": 6379},
}


def test_vms_join_on_their_hypervisors_and_references_are_vms_of_a_group():
    groups = {"hypervisors": ["kvm1", "kvm2"], "fleet": ["vm1", "vm2"], "references": ["vm3"]}
    variables = {**VMS, "kvm1": {"vm_fleet_count": 3}, "kvm2": {}}
    assert machines_of(groups, variables) == {"kvm1": ["vm1"], "kvm2": ["vm2"]}
    assert references_of(groups, variables, "kvm1") == ["vm3"] and references_of(groups, variables, "kvm2") == []
    plan = plan_of({"density_budget": "256M"}, ["vm1"], variables, ["vm3"])
    assert plan["servers"] == [{"name": "vm1", "port": 6379, "address": "10.0.0.1"}]
    assert plan["references"] == [{"name": "vm3", "port": 6379, "address": "10.0.0.3"}]
    assert checked({**plan, "client": "/solotest"}).has_vms
    none = plan_of({"density_budget": "256M", "density_references": 0}, ["vm1"], variables, ["vm3"])
    assert none["references"] == []
    assert plan_of({"density_budget": "256M"}, ["vm1"], variables)["references"] == []


def test_containers_are_no_vms():
    with pytest.raises(SettingError, match="density_image: has no effect on VMs"):
        plan_of({"density_budget": "256M", "density_image": "redis:7"}, ["vm1"], VMS)


def test_vms_that_the_hypervisor_cannot_reach_or_that_are_missing_are_refused():
    behind = {"vm1": {**VMS["vm1"], "ansible_host": "127.0.0.1"}}
    with pytest.raises(SettingError, match="ansible_host: that of vm1 is 127.0.0.1; the hypervisor connects"):
        plan_of({"density_budget": "256M"}, ["vm1"], behind)
    with pytest.raises(SettingError, match="density_references: 2 is out of range; .* from 0 to 1, the VMs"):
        plan_of({"density_budget": "256M", "density_references": 2}, ["vm1"], VMS, ["vm3"])
