# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.run.machines import machines


def host(machine, observer=None):
    return {"machine": machine, "observer": observer}


def record(boot_id, budget=None):
    return {"kernel": {"boot_id": boot_id}, "tuning": {"dram_budget": budget}}


def test_redis_servers_of_one_machine_are_read_once():
    found = machines({"b": host("x"), "a": host("x"), "c": host("y")}, [], {"b": record("x"), "a": record("x")})
    assert found == {
        "read": ["b", "c"],
        "carriers": [],
        "budgets": [],
        "shares": {},
        "recorder_only": [],
        "observed": False,
    }


def test_of_many_machines_only_some_are_read():
    assert len(machines({f"h{number}": host(str(number)) for number in range(40)}, [], {})["read"]) == 16


def test_hypervisors_have_a_recorder_of_their_own_unless_the_fleet_runs_there():
    records = {"kvm1": record("x"), "kvm2": record("one of the fleet's")}
    found = machines({"vm1": host("guest"), "own": host("one of the fleet's")}, ["kvm1", "kvm2", "kvm3"], records)
    assert found["read"] == ["kvm1", "kvm2", "kvm3"]
    assert found["carriers"] == found["recorder_only"] == ["kvm1", "kvm3"], "of kvm3 nothing is known"


def test_an_unknown_boot_id_is_no_machine_of_the_fleet():
    assert machines({"vm1": host(None)}, ["kvm1"], {"kvm1": {"kernel": None}})["carriers"] == ["kvm1"]


def test_the_fleet_shares_the_work_for_the_budgets():
    records = {f"kvm{number}": record(str(number), {"size_bytes": 1}) for number in (3, 1, 2)}
    found = machines({"a": host("g1"), "b": host("g2")}, ["kvm1"], records)
    assert found["budgets"] == ["kvm1", "kvm2", "kvm3"]
    assert found["shares"] == {"a": ["kvm1", "kvm3"], "b": ["kvm2"]}
    assert found["recorder_only"] == ["kvm1", "kvm2", "kvm3"], "each once"
    few = machines({name: host(name) for name in "abcdef"}, [], {"a": record("a", {"size_bytes": 1})})
    assert few["shares"] == {"a": ["a"]}


def test_one_observer_is_enough_to_look_for_observers():
    assert machines({"a": host("x"), "b": host("x", {"name": "watcher"})}, [], {})["observed"]
