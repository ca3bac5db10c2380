# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.run.host_facts import host_facts


def test_hosts_keep_their_order_and_those_without_the_fact_are_left_out():
    hostvars = {"b": {"rate": 2}, "a": {"rate": 1}, "c": {"other": 3}, "d": {"rate": 4}}

    assert list(host_facts(["b", "a", "c"], hostvars, "rate").items()) == [("b", 2), ("a", 1)]


def test_no_and_zero_are_facts_and_empty_values_are_not():
    values = [False, 0, None, "", [], {}, "x"]
    hostvars = {str(number): {"fact": value} for number, value in enumerate(values)}

    assert host_facts(list(hostvars), hostvars, "fact") == {"0": False, "1": 0, "6": "x"}
