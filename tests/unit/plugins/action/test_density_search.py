# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of probes whose truth is known."""

from __future__ import annotations

import pytest
from synthetic_fleets import START, latencies

from ansible_collections.memstretch.density.plugins.action.density_search import _bounds, _figures
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError


@pytest.fixture
def probe(record):
    """A function that records and publishes a probe and returns its figures for the search."""

    def measure(change=lambda phase, host, result: result, size=3, **more):
        directory = record(change, **more)[0]
        publish(directory, lambda line: None)
        return _figures(directory, size)

    return measure


def test_a_healthy_fleet_passes(probe):
    found = probe()
    assert (found["outcome"], found["lost"], found["hosts_within_slo"]) == ("pass", [], 3)
    assert 0 < found["avg_us"] < found["p99_us"] <= found["worst_host_p99_us"] < 50


def test_one_sick_host_in_one_cell_fails_the_fleet(probe, make_result):
    def sick(phase, host, result):
        if host == "c" and phase.get("influence") == 10:
            return make_result(phase, 0, START, values=latencies(980) + latencies(20, average_us=500))
        return result

    found = probe(sick)
    assert found["outcome"] == "fail" and found["hosts_within_slo"] == 2 and found["lost"] == []
    assert found["missed"] == ["c"] and found["hosts"] == ["a", "b", "c"]
    assert found["worst_host_p99_us"] > 300


def test_a_probe_keeps_the_pressure_of_its_worst_cell(probe, make_result):
    def paging(phase, host, result):
        if phase.get("influence") != 10:
            return result
        slow = make_result(phase, 0, START, values=latencies(980) + latencies(20, average_us=500))
        slow["pressure"] = {"counters": {"clock_s": 2.0, "pswpin": 800}, "gauges": {}, "doubtful": []}
        return slow

    (figures,) = probe(paging)["pressure"].values()
    assert figures["page_ins"] == 400


@pytest.mark.parametrize("index", [1, 2, 4])  # the fill, a warm-up, a measured iteration
def test_a_host_that_died_fails_the_fleet_and_is_named(probe, index):
    killed = ("killed", {"error": {"kind": "lost"}, "fill": {"keys": 5}, "requests": {"sent": 5}})
    found = probe(
        lambda phase, host, result: killed if host == "b" and phase["index"] == index else result,
        skip=range(index + 1, 14),
    )
    assert (found["outcome"], found["lost"], found["missed"]) == ("fail", ["b"], ["b"])


def test_a_host_that_was_never_there_makes_the_probe_invalid(probe):
    assert probe(lambda phase, host, result: "unreachable" if host == "b" else result)["outcome"] == "invalid"


def test_an_unfinished_probe_is_invalid(probe):
    assert probe(skip=(13,))["outcome"] == "invalid"


def test_a_run_of_another_size_is_an_error(probe):
    with pytest.raises(RunError, match="is a run of 3 hosts, not of 4"):
        probe(size=4)


def test_a_late_client_leaves_the_probe_undecided(probe, make_result):
    def late(phase, host, result):
        if host != "c" or phase["kind"] != "iteration":
            return result
        slow = make_result(phase, 0, START, values=latencies(980) + latencies(20, average_us=500))
        return {**result, "latency": {**result["latency"], "intended": slow["latency"]["intended"]}}

    found = probe(late)
    assert (found["outcome"], found["missed"]) == ("undecided", []), "the server was not slow for certain"


@pytest.mark.parametrize("others", [[], ["redis-1"]])
def test_a_search_over_vms_refuses_hosts_that_are_none(others):
    """Its first hosts would be those, next to VMs that nobody loads."""
    vms = ["fleet-001", "fleet-002"]
    task_vars = {
        "groups": {"hypervisors": ["kvm1"], "fleet": [*others, *vms], "fleet_vms": vms},
        "hostvars": {"kvm1": {"vm_fleet_count": 2}},
    }
    options = {"maximum": 8, "start": None, "probes": 4, "factor": 1.25}
    if not others:
        assert _bounds(options, task_vars)["vms"]
        return
    with pytest.raises(SettingError, match="also holds redis-1. Its hosts must be either VMs or static hosts"):
        _bounds(options, task_vars)
