# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import machines


def host(boot_id, page_in=None, **sysctl):
    arms = {"swap": {"tuned": True, "sysctl": sysctl, "sysfs": {}}}
    return {"record": {"kernel": {"boot_id": boot_id}}, "arms": arms, "page_in": page_in or {}}


def page_in(tier, avg_us):
    return {"tier": tier, "avg_us": avg_us, "p99_us": 4 * avg_us, "samples": 9}


def test_hosts_on_one_machine_count_once():
    found = machines.distinct({"redis01": host("x"), "redis02": host("x"), "kvm01": host("y")})
    assert list(found) == ["redis01", "kvm01"] and set(found["kvm01"]) == {"record", "arms"}


def test_the_settings_of_an_arm_are_plain_values():
    settings = {"vm.swappiness": {"value": 100, "reason": "r"}, "vm.page-cluster": 0, "vm.x": {"value": [3, 2]}}
    found = machines.distinct({"kvm01": host("x", **settings)})
    assert found["kvm01"]["arms"]["swap"]["sysctl"] == {"vm.swappiness": 100, "vm.page-cluster": 0, "vm.x": 3}


def test_the_slowest_host_decides_for_each_kind_of_tier():
    hosts = {
        "a": host("x", page_in("zram", 9)),
        "b": host("y", page_in("zram", 5)),
        "c": host("z", page_in("file", 70)),
    }
    hosts["d"] = host("w")
    assert machines.tiers(hosts, {}) == {
        "zram": {"avg_us": 9, "p99_us": 36},
        "file": {"avg_us": 70, "p99_us": 280},
    }


def test_what_the_user_gives_replaces_what_was_measured_figure_by_figure():
    hosts = {"a": host("x", page_in("zram", 9))}
    given = {"zram": {"p99_us": 50}, "devices": {"avg_us": 14}, "tape": "slow"}
    assert machines.tiers(hosts, given) == {
        "zram": {"avg_us": 9, "p99_us": 50},
        "devices": {"avg_us": 14},
        "tape": "slow",  # plan.tiers() refuses it
    }
