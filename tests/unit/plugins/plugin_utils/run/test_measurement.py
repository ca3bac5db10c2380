# SPDX-License-Identifier: GPL-3.0-or-later
"""Results as a hostile host would return them."""

from __future__ import annotations

import json

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError

# Keys of a result that ansible-core or the callback would obey.
OBEYED = {
    "add_host": {"host_name": "attacker", "groups": ["fleet"], "host_vars": {"ansible_connection": "local"}},
    "add_group": "attackers",
    "ansible_facts": {"latency_benchmark_results_dir": "/etc"},
    "ansible_stats": {"data": {"x": 1}},
    "_ansible_notify": ["reboot"],
    "_ansible_no_log": True,
    "benchmark_run": {"directory": "/etc"},
    "benchmark_schedule": {"moment": "ended"},
    "report": {"verdict": "pass"},
    "invocation": {"module_args": {}},
    "results": [],
    "include": "/etc/passwd",
    "diff": {"before": "x"},
    "warnings": ["all is well"],
    "exception": "x",
}

TEST = {"kind": "iteration", "influence": 0, "read_mix": 100}


@pytest.fixture
def returned(make_result):
    """What the module returns after a test."""
    return {"changed": False, "solotest": make_result(TEST)}


def with_value(document, path, value):
    """Return a copy of document in which the key at a dotted path has another value."""
    changed = json.loads(json.dumps(document))
    place = changed
    *above, last = path.split(".")
    for key in above:
        place = place[key]
    place[last] = value
    return changed


def test_a_result_is_returned_as_it_is(returned, make_result):
    for answer in (returned, {"changed": True, "solotest": make_result({"kind": "fill"})}):
        accepted = measurement.result(json.loads(json.dumps(answer)))
        kept = {name: value for name, value in accepted["solotest"].items() if value is not None}
        assert kept == {name: value for name, value in answer["solotest"].items() if value is not None}
        assert accepted["changed"] == answer["changed"] and "failed" not in accepted


def test_only_known_keys_are_returned(returned):
    accepted = measurement.result({**returned, **OBEYED})
    assert set(accepted) == {"changed", "solotest"}
    inner = measurement.result(with_value(returned, "solotest", {**returned["solotest"], **OBEYED}))
    assert not set(OBEYED) & set(inner["solotest"])
    failed = measurement.result({"failed": True, "msg": "no", **OBEYED})
    assert failed == {"changed": False, "failed": True, "msg": "no"}


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("latency.response.count", "x", "latency.response.count = 'x'; must be a whole number from 1 to"),
        ("latency.response.count", True, "latency.response.count = True; must be a whole number"),
        ("latency.response.count", -1, "count = -1; must be a whole number"),
        ("latency.response.count", 5, "histogram counts 1,000 samples; must be solotest.latency.response.count"),
        ("latency.service.max_ns", 2**40, "max_ns = 1099511627776; must be that of its histogram"),
        ("latency.service.p99_us", 1e6, "latency.service.p99_us = 1000000.0; must be that of its histogram"),
        ("latency.service.p99_us", float("nan"), "p99_us = nan; must be a number from 0"),
        ("latency.service.p99_us", float("inf"), "p99_us = inf; must be a number from 0"),
        ("latency.service.p99_us", None, "p99_us = None; must be a number from 0"),
        ("latency.service.sum_ns", 10**60, "sum_ns = 1000000"),
        ("latency.service.histogram", "x" * 10_000_000, "must be a printable text of at most"),
        ("latency.service.histogram", "AAAA", "histogram: not an encoded histogram"),
        ("latency.service", [], "latency.service = []; must be a mapping"),
        ("latency", None, "latency = None; must be a mapping"),
        ("machine", "x" * 201, "machine = 'xxx"),
        ("machine", "\x1b[2J", "must be a printable text"),
        ("machine", {"a": 1}, "must be a printable text"),
        ("settings.rate", 0, "settings.rate = 0; must be a number from 1e-06"),
        ("settings.stagger", "0", "settings.stagger = '0'; must be a number"),
        ("started_at", 1e300, "started_at = 1e+300; must be a number from 0 to"),
        ("started_at", None, "started_at = None; must be a number"),
        ("schema", 2, "schema = 2; must be one of 1"),
        ("mode", ["test"], "mode = ['test']; must be one of test, fill, ping"),
        ("mode", "fill", "fill = None; must be a mapping"),
        ("pressure.counters", {"../../x": 1}, "pressure.counters has the key '../../x'"),
        ("pressure.counters", {f"n{number}": 1 for number in range(1000)}, "a mapping of at most 200 keys"),
        ("pressure.counters.pswpin", "1", "pressure.counters.pswpin = '1'; must be a number"),
        ("pressure.gauges", {"x": [1]}, "pressure.gauges.x = [1]; must be a list of 2 values"),
        ("series", {"interval_s": 1, "points": [[1, 1, 1, 1]] * 100_000}, "must be a list of 0 to 1,000 values"),
        ("series", {"interval_s": 1, "points": [[1, 1, 1]]}, "series.points[0] = [1, 1, 1]; must be a list of 4"),
        ("placement.shares_cpu", "../x", "placement.shares_cpu = '../x'; must be one of always, possibly, never"),
        ("error", {"kind": "x", "message": "x"}, "error is set, although the client did not fail"),
        ("cut_off", "no", "cut_off = 'no'; must be"),
        ("health.steal_ticks", [1], "health.steal_ticks = [1]; must be a whole number"),
    ],
)
def test_a_value_that_does_not_fit_fails_the_host(returned, path, value, message):
    accepted = measurement.result(with_value(returned, f"solotest.{path}", value))
    assert accepted["failed"] and set(accepted) == {"failed", "msg"}
    assert message in accepted["msg"] and len(accepted["msg"]) < 500


@pytest.mark.parametrize("key", ["machine", "settings", "schema", "mode", "pressure"])
def test_a_missing_key_is_named(returned, key):
    del returned["solotest"][key]
    assert f"solotest.{key} is missing" in measurement.result(returned)["msg"]


@pytest.mark.parametrize("answer", [None, [], "text", 1, True])
def test_an_answer_that_is_no_mapping(answer):
    accepted = measurement.result(answer)
    assert accepted["failed"] and "must be a mapping" in accepted["msg"]


def test_what_had_been_measured_before_a_failure_is_kept(returned):
    empty = Histogram().figures()
    partial = {**returned["solotest"], "latency": dict.fromkeys(returned["solotest"]["latency"], empty)}
    partial["error"] = {"kind": "lost", "message": "Redis closed the connection"}
    accepted = measurement.result({"failed": True, "msg": "lost", "solotest": partial})
    assert accepted["msg"] == "lost" and accepted["solotest"]["latency"]["response"] == empty
    # Only a failure may have measured nothing.
    assert "count = 0" in measurement.result({"solotest": {**partial, "error": None}})["msg"]


def test_the_reason_of_a_failure_is_kept_even_if_its_measurement_cannot_be_used(returned):
    damaged = with_value(returned["solotest"], "machine", 5)
    accepted = measurement.result({"failed": True, "msg": "Redis is gone", "solotest": damaged})
    assert accepted["failed"] and "solotest" not in accepted
    assert accepted["msg"].startswith("Redis is gone (what it had measured cannot be used: solotest.machine = 5")


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"solotest": NaN}', "NaN is not a number"),
        ('{"solotest": -Infinity}', "-Infinity is not a number"),
        ('{"solotest": {"mode": "te', "damaged"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "nested too deeply"),
        ('{"a": ' + "9" * 10_000 + "}", "damaged"),
        ("\0" * (measurement.MAX_BYTES + 1), "larger than 8 MiB"),
    ],
)
def test_a_text_that_is_no_result(text, message):
    with pytest.raises(MeasurementError, match=message) as caught:
        measurement.parse(text)
    assert len(str(caught.value)) < 1000


def test_the_state_of_an_endpoint():
    state = {"endpoint": "127.0.0.1:6379", "keys": 5, "clock_offset": -0.5, "clock_correction": 0.0}
    assert measurement.endpoints({"a": {**state, "redis_version": "7.2", "directory": "/etc"}}) == {
        "a": {**state, "redis_version": "7.2"}
    }
    with pytest.raises(MeasurementError, match="a.clock_offset = nan"):
        measurement.endpoints({"a": {**state, "clock_offset": float("nan")}})


@pytest.mark.parametrize(
    "document, message",
    [
        ({"host": {"bandwidth": float("inf")}}, "hosts.host.bandwidth = inf; must be a finite number"),
        ({"host": "x" * 70_000}, "a text of 70,000 characters"),
        ({"host": list(range(200_000))}, "too large"),
    ],
)
def test_a_document_without_a_table_is_bounded(document, message):
    with pytest.raises(MeasurementError, match=message):
        measurement.check_document("hosts", document)
    measurement.check_document("hosts", {"host": {"bandwidth": [1, 2.5, "x", None, True]}})


def test_the_size_of_a_document_is_limited_for_each_host():
    record = {"values": list(range(60_000))}
    measurement.check_documents("host_records", {f"vm{number:04d}": record for number in range(3)})
    too_large = {"values": list(range(100_001))}
    with pytest.raises(MeasurementError, match=r"^host_records\.vm2\.values\[\d+\]: .*too large"):
        measurement.check_documents("host_records", {"vm1": record, "vm2": too_large})


def test_a_deep_document_is_refused():
    deep = []
    for _level in range(500):
        deep = [deep]
    with pytest.raises(MeasurementError, match="too deeply"):
        measurement.check_document("hosts", deep)
