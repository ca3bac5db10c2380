# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_fleets import START, latencies

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, fleet_phase, fleet_sum
from ansible_collections.memstretch.density.plugins.plugin_utils.run.clocks import HostClocks
from ansible_collections.memstretch.density.plugins.plugin_utils.run.fleet_phase import PhaseResults


@pytest.fixture
def phase(config):
    """The first measured iteration."""
    return configuration.phases(config)[2]


@pytest.fixture
def results(config, phase):
    return PhaseResults(config, phase, ["a", "b", "c"], HostClocks({}), START - 1, START)


def report_all(results, make_result, **changes):
    """Let every host report, each a little later than the one before."""
    for number, host in enumerate(results.expected):
        results.add(host, make_result(results.phase, number, START + number / 10_000, **changes))


def test_a_phase_without_problems_is_valid(results, make_result):
    report_all(results, make_result)
    document = results.document()
    assert document["valid"], document["reasons"]
    assert document["overlap"] > 0.99
    assert document["achieved_rate_ratio"] == 1
    assert document["start_skew_ms"] == {"min": 0.0, "max": 0.2}
    assert document["launch_seconds"] == pytest.approx(0.5, abs=0.01)


def test_merged_percentiles_are_those_of_all_samples(results, make_result):
    values = {
        host: latencies(average_us=10 ** (1 + number), seed=number) for number, host in enumerate(results.expected)
    }
    for host in results.expected:
        results.add(host, make_result(results.phase, 0, START, values=values[host]))
    everything = sorted(value for each in values.values() for value in each)
    merged = results.document()["merged"]["response"]
    for name, percent in (("p50_us", 50), ("p95_us", 95), ("p99_us", 99), ("p999_us", 99.9)):
        truth = everything[-(-int(percent * 10) * len(everything) // 1000) - 1] / 1000
        assert truth * 0.9999 <= merged[name] <= truth * 1.01
    assert merged["avg_us"] == pytest.approx(sum(everything) / len(everything) / 1000, abs=0.001)
    assert merged["count"] == len(everything)
    assert merged["max_us"] == max(everything) / 1000


def test_packed_counts_give_the_same_document(config, phase, make_result):
    documents = []
    for pack in (lambda latency: None, fleet_sum.pack):
        results = PhaseResults(config, phase, ["a", "b", "c"], HostClocks({}), START - 1, START)
        for number, host in enumerate(results.expected):
            result = make_result(phase, number, START, values=latencies(average_us=10 ** (1 + number), seed=number))
            results.add(host, result, pack(result["latency"]))
        documents.append(results.document())
    assert documents[0] == documents[1]


def test_a_host_that_fails_after_it_has_reported_is_not_in_the_sum(results, make_result):
    for number, host in enumerate(results.expected):
        result = make_result(results.phase, number, START)
        results.add(host, result, fleet_sum.pack(result["latency"]))
    results.fail("b", "unreachable")
    document = results.document()
    assert document["merged"]["intended"]["count"] == sum(
        each["latency"]["intended"]["count"] for each in document["hosts"].values()
    )


def test_the_briefs_six_figures_as_computed_by_hand(results, make_result):
    for number, host in enumerate(results.expected):
        results.add(
            host, make_result(results.phase, 0, START, values=latencies(average_us=100 * (number + 1), seed=number))
        )
    document = results.document()
    service = [result["latency"]["service"] for result in document["hosts"].values()]
    assert document["brief"] == {
        "hosts": 3,
        "avg_ms": round((service[0]["avg_us"] + service[1]["avg_us"] + service[2]["avg_us"]) / 3 / 1000, 3),
        "min_ms": round(min(each["min_us"] for each in service) / 1000, 3),
        "p95_ms": round((service[0]["p95_us"] + service[1]["p95_us"] + service[2]["p95_us"]) / 3 / 1000, 3),
        "p99_ms": round((service[0]["p99_us"] + service[1]["p99_us"] + service[2]["p99_us"]) / 3 / 1000, 3),
        "max_ms": round(max(each["max_us"] for each in service) / 1000, 3),
    }


def test_merged_percentiles_show_sick_hosts_that_a_mean_would_hide(config, phase, make_result):
    hosts = [f"vm{number:03d}" for number in range(100)]
    results = PhaseResults(config, phase, hosts, HostClocks({}), START - 1, START)
    for number, host in enumerate(hosts):
        values = latencies(average_us=2000 if number < 10 else 20, seed=number)
        results.add(host, make_result(phase, 0, START, values=values))
    merged = results.document()["merged"]["response"]
    assert merged["p50_us"] < 50
    assert merged["p99_us"] > 2000


def test_a_failed_host_makes_the_phase_invalid_and_the_others_are_kept(results, make_result):
    results.add("a", make_result(results.phase, 0, START))
    results.fail("b", "Redis died", {"requests": {"ok": 5}})
    assert not results.complete
    results.add("c", make_result(results.phase, 2, START))
    assert results.complete
    document = results.document()
    assert not document["valid"]
    assert document["reasons"] == ["b: Redis died"]
    assert sorted(document["hosts"]) == ["a", "c"]
    assert document["partial"]["b"] == {"requests": {"ok": 5}}
    assert document["merged"]["response"]["count"] == 2000


def test_a_host_without_a_result_is_named(results, make_result):
    results.add("a", make_result(results.phase, 0, START))
    assert results.document()["failed"] == {"b": "no result", "c": "no result"}


def test_a_phase_without_results_is_not_valid(results):
    document = results.document()
    assert not document["valid"]
    assert document["overlap"] is None
    assert document["merged"]["response"]["count"] == 0


def test_hosts_that_were_not_under_load_together(results, make_result):
    for number, host in enumerate(results.expected):
        results.add(host, make_result(results.phase, number, START + number / 2))
    document = results.document()
    assert document["overlap"] == 0
    assert "all hosts were under load for 0.000 of the phase" in document["reasons"][0]


@pytest.mark.parametrize("step", [0.1, 1.0, 3.0, -3.0])
def test_a_clock_that_was_set_since_the_preflight_makes_the_phase_invalid(config, phase, make_result, step):
    clocks = HostClocks(
        {"a": {"clock_correction": 0, "wall_offset": 1e9}, "b": {"clock_correction": 0, "wall_offset": 2e9}}
    )
    results = PhaseResults(config, phase, ["a", "b"], clocks, START - 1, START)
    results.add("a", {**make_result(phase, 0, START), "wall_offset": 1e9 + 0.00002})
    results.add("b", {**make_result(phase, 1, START), "wall_offset": 2e9 + step})
    document = results.document()
    assert len(document["reasons"]) == 1
    assert f"b: its clock was set by {step:+.3f} s since the preflight" in document["reasons"][0]


def test_clock_offsets_are_corrected(config, phase, make_result):
    clocks = HostClocks({"b": {"clock_correction": 30.0}})
    results = PhaseResults(config, phase, ["a", "b"], clocks, START - 1, START)
    results.add("a", make_result(phase, 0, START))
    results.add("b", make_result(phase, 1, START + 30))
    document = results.document()
    assert document["valid"], document["reasons"]
    assert document["overlap"] == 1


@pytest.mark.parametrize(
    "changes, reason",
    [
        (
            {
                "settings": {
                    "key_count": 1000,
                    "value_size": 9,
                    "requests": 1000,
                    "rate": 1000,
                    "influence": 0,
                    "read_mix": 100,
                    "stagger": 0,
                }
            },
            "measured with value_size 9 instead of 1000",
        ),
    ],
)
def test_one_host_can_make_the_phase_invalid(results, make_result, changes, reason):
    report_all(results, make_result)
    results.add("b", make_result(results.phase, 1, START, **changes))
    document = results.document()
    assert not document["valid"]
    assert reason in document["reasons"][0] and document["reasons"][0].startswith("b: ")


def test_neither_a_late_client_nor_a_missed_rate_nor_a_time_limit_makes_a_phase_invalid(results, make_result):
    """The bounds of the hosts tell what it means (test_bounds.py, test_verdict.py)."""
    report_all(results, make_result)
    late = make_result(results.phase, 1, START, rate={"target": 1000.0, "achieved": None}, cut_off=True)
    late["latency"] = {**late["latency"], "lateness": Histogram.from_values([5_000_000] * 100).figures()}
    results.add("b", late)
    document = results.document()
    assert document["valid"], document["reasons"]
    assert document["achieved_rate_ratio"] == 0


def test_a_schedule_that_was_cut_off_makes_the_phase_invalid(results, make_result):
    """What was due and not sent is lost, which the bounds count; of the rest nothing is known."""
    report_all(results, make_result)
    requests = {"planned": 1000, "sent": 600, "ok": 600, "gets": 600, "sets": 0, "lost": 50, "not_sent": 50}
    results.add("b", make_result(results.phase, 1, START, cut_off=True, requests=requests))
    assert results.document()["reasons"] == ["b: cut off when 350 of its 1,000 requests were not due yet"]


def test_an_overloaded_host_that_ends_late_had_company_all_the_time(results, make_result):
    report_all(results, make_result)
    overloaded = make_result(results.phase, 1, START)
    results.add("b", {**overloaded, "finished_at": overloaded["finished_at"] + 60})
    document = results.document()
    assert document["valid"], document["reasons"]
    assert document["overlap"] > 0.99


@pytest.mark.parametrize(
    "error, measured, died",
    [
        ("lost", {"requests": {"sent": 5}}, True),
        ("timeout", {"requests": {"sent": 5}}, True),
        ("lost", {"fill": {"keys": 5}}, True),
        ("lost", {"requests": {"sent": 0}}, False),
        ("connect", {"requests": None}, False),
        ("auth", {}, False),
        ("interrupted", {"requests": {"sent": 5}}, False),
    ],
)
def test_a_server_that_dies_under_the_load_does_not_make_the_phase_invalid(results, make_result, error, measured, died):
    results.add("a", make_result(results.phase, 0, START))
    results.add("c", make_result(results.phase, 2, START))
    results.fail("b", "the message", {"error": {"kind": error, "message": ""}, **measured})
    document = results.document()
    assert document["failed"] == {"b": "the message"}
    assert document["died"] == (["b"] if died else [])
    assert document["reasons"] == ([] if died else ["b: the message"])


@pytest.mark.parametrize(
    "error, died",
    [("connect", True), ("not_ready", True), ("no_client", False), ("auth", False), ("refused_foreign_data", False)],
)
@pytest.mark.parametrize("answered", [True, False])
def test_a_server_that_answered_earlier_and_is_gone_died(config, phase, make_result, error, died, answered):
    before = ["a", "b"] if answered else ["a"]
    results = PhaseResults(config, phase, ["a", "b"], HostClocks({}), START - 1, START, before)
    results.add("a", make_result(phase, 0, START))
    results.fail("b", "the message", {"error": {"kind": error, "message": ""}, "requests": None})
    document = results.document()
    assert (document["died"], document["valid"]) == ((["b"], True) if died and answered else ([], False))


def test_a_machine_that_dies_under_the_load(results, make_result):
    results.add("a", make_result(results.phase, 0, START))
    results.add("c", make_result(results.phase, 2, START))
    results.fail("b", "unreachable", died=True)
    assert results.document()["died"] == ["b"] and results.document()["valid"]


def test_a_closed_loop_has_no_target_rate(results, make_result):
    for number, host in enumerate(results.expected):
        results.add(host, make_result(results.phase, number, rate={"target": None, "achieved": 50_000.0}))
    document = results.document()
    assert document["valid"] and document["achieved_rate_ratio"] is None


def test_overlap():
    assert fleet_phase.overlap([0, 1], [10, 11]) == pytest.approx(9 / 11)
    assert fleet_phase.overlap([0, 20], [10, 30]) == 0
    assert fleet_phase.overlap([5], [5]) == 1


class CountedName(str):
    """A host's name that counts how often a set or mapping looks for it."""

    looked_for = 0

    def __hash__(self):
        CountedName.looked_for += 1
        return super().__hash__()


def test_looking_for_the_end_of_a_phase_costs_the_same_for_each_host(config, phase):
    """For 10,000 hosts, looking at all of them whenever one reports would be a hundred million looks."""
    counts = []
    for hosts in (50, 200):
        names = [CountedName(f"vm{number:04d}") for number in range(hosts)]
        collected = PhaseResults(config, phase, names, HostClocks({}), START - 1, START)
        CountedName.looked_for = 0
        for name in names:
            assert not collected.complete
            collected.add(name, {})
        assert collected.complete
        counts.append(CountedName.looked_for / hosts)
    assert counts[0] == counts[1]
