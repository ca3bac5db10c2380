# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import machines


def host(boot_id, **sysctl):
    arms = {"swap": {"tuned": True, "sysctl": sysctl, "sysfs": {}}}
    return {"record": {"kernel": {"boot_id": boot_id}}, "arms": arms}


def test_hosts_on_one_machine_count_once():
    found = machines.distinct({"redis01": host("x"), "redis02": host("x"), "kvm01": host("y")})
    assert list(found) == ["redis01", "kvm01"] and set(found["kvm01"]) == {"record", "arms"}


def test_the_settings_of_an_arm_are_plain_values():
    settings = {"vm.swappiness": {"value": 100, "reason": "r"}, "vm.page-cluster": 0, "vm.x": {"value": [3, 2]}}
    found = machines.distinct({"kvm01": host("x", **settings)})
    assert found["kvm01"]["arms"]["swap"]["sysctl"] == {"vm.swappiness": 100, "vm.page-cluster": 0, "vm.x": 3}
