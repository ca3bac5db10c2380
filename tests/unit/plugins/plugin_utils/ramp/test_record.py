# SPDX-License-Identifier: GPL-3.0-or-later
"""What is accepted of the stream of a ramp."""

from __future__ import annotations

import copy
import json

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.record import Record, accepted, is_finished
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError

SAMPLE = {
    "cpus": 2,
    "busy": 0.5,
    "stolen": 0.0,
    "stolen_worst": 0.0,
    "stolen_cpu": 0.0,
    "stolen_ticks": 0,
    "charged_bytes": 250 * 2**20,
    "tier_bytes": 90 * 2**20,
    "swap_used_bytes": 2**28,
    "swap_bytes": 2**30,
    "page_ins": 4000,
    "page_outs": 3900,
    "memory_some_share": 0.02,
    "tier_cpu_seconds": 0.5,
    "drive_reads": 0,
    "drive_written_bytes": 0,
    "drive_read_seconds": 0.0,
    "other_swap_grew": False,
    "limit_hits": 3,
}


def load(microseconds):
    figures = Histogram.from_values([microseconds * 1000] * 100).figures()
    reported = {name: figures[name] for name in ("count", "sum_ns", "min_ns", "max_ns", "histogram")}
    rows = [[100, figures["sum_ns"], figures["sum_ns"]]]
    return {"upper": reported, "lower": reported, "punctual": reported, "lost": 0, "seconds": rows}


EMPTY = {"count": 0, "sum_ns": 0, "min_ns": None, "max_ns": None, "histogram": Histogram().figures()["histogram"]}
WINDOW = {
    "n": 2,
    "kind": "step",
    "look": 1,
    "started_at": 1.8e9,
    "seconds": 4.0,
    "settled": True,
    "settle_seconds": 1.0,
    "join_seconds": 0.4,
    "disturbed": None,
    "hosts": {"redis1": load(100), "redis2": load(300)},
    "references": {"reference1": load(100)},
    "machines": {"": SAMPLE},
}
_SECOND = {name: load(100)[name] for name in ("upper", "lower", "punctual")}
TOUCH = {
    "n": 2,
    "started_at": 1.8e9,
    "touched_seconds": 0.4,
    "seconds": [{"fleet": _SECOND, "references": dict.fromkeys(_SECOND, EMPTY)}],
}
COSTS = {"conductor_cpu_seconds": 1.5, "reclaim_cpu_seconds": 0.5, "written_bytes": 4096}
END = {"kind": "does_not_fit", "n": 3, "host": "redis3", "machine": None, "message": "Killed process 7"}


def text(event, **values):
    return json.dumps({"event": event, **values})


def test_a_window_gets_the_name_of_its_machine_and_loses_what_is_unknown():
    event, found = accepted(text("window", window={**WINDOW, "add_host": {}}, ansible_facts={}), "this_machine")
    assert event == "window" and set(found) == {"window"} and set(found["window"]) == set(WINDOW)
    assert found["window"]["machines"] == {"this_machine": SAMPLE}


def wrong_window(*path, value):
    window = copy.deepcopy(WINDOW)
    place = window
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return text("window", window=window)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "not JSON"),
        ("[]", "event = None"),
        (text("reboot"), "event = 'reboot'"),
        (text(["end"]), "event = ['end']"),
        (text({}), "event = {}"),
        (wrong_window("n", value="2"), "window.window.n = '2'"),
        (wrong_window("hosts", "redis1", "lower", "count", value=-1), "upper.count = -1"),
        (wrong_window("hosts", "../redis", value=load(1)), "key '../redis'"),
        (wrong_window("hosts", "redis1", "lower", "histogram", value="zzz"), "redis1.upper.histogram: not an encoded"),
        (wrong_window("hosts", "redis1", "lower", "count", value=99), "upper.histogram counts 100 samples"),
        (wrong_window("hosts", "redis1", "lower", "min_ns", value=None), "upper.min_ns = None"),
        (wrong_window("hosts", "redis1", "lower", "max_ns", value=1), "upper.max_ns = 1"),
        (wrong_window("references", "reference1", "lower", "sum_ns", value=0), "upper.sum_ns = 0"),
        (wrong_window("seconds", value=0), "seconds = 0"),
        (wrong_window("machines", value={"": SAMPLE, "b": SAMPLE}), "machines"),
        (wrong_window("machines", value=7), "machines = 7"),
        (text("window", window=7), "window.window = 7"),
        (text("touch", touch={**TOUCH, "seconds": [{"fleet": _SECOND}]}), "touch.touch.seconds[0].references"),
        (text("end", at=1.0, realtime=None, end={**END, "kind": "fine"}, **COSTS), "kind = 'fine'"),
    ],
)
def test_what_is_no_line_of_a_stream_is_refused_by_name(line, named):
    with pytest.raises(MeasurementError, match=named.replace("[", r"\[").replace(".", r"\.")):
        accepted(line, "this_machine")


def test_a_client_may_have_been_late_by_all_of_its_requests():
    late = {**load(10_000), "lower": load(0)["upper"]}
    found = accepted(text("window", window={**WINDOW, "hosts": {"redis1": late}}), "a")[1]["window"]["hosts"]["redis1"]
    assert found["lower"]["sum_ns"] == 0 and found["lower"]["count"] == 100
    with pytest.raises(MeasurementError, match="upper.sum_ns = 0"):
        accepted(text("window", window={**WINDOW, "hosts": {"redis1": load(0)}}), "a")


def test_a_server_that_nothing_was_asked_of_has_no_samples():
    nothing = {name: {**load(1)["upper"], **EMPTY} for name in ("upper", "lower", "punctual")}
    window = {**WINDOW, "hosts": {"redis1": {**nothing, "lost": 5, "seconds": []}}}
    found = accepted(text("window", window=window), "a")[1]["window"]["hosts"]["redis1"]
    assert found["upper"] == found["lower"] == found["punctual"] == EMPTY


def test_a_record_grows_with_the_stream():
    plan = {"load": {"rate": 50}, "budget_bytes": 2**28, "growth": 0.1, "servers": [{"name": "redis1", "port": 1}]}
    record = Record("zram", 2, plan)
    assert record.document["end"] is None and record.document["hosts"] == ["redis1"]
    group = {"swappiness": 100, "swap_max_bytes": None}
    for line in (
        text("started", at=1.0, groups={"fleet": group, "references": group}, tier_bytes=2**30),
        text("window", window=WINDOW),
        text("note", text="redis3 was killed\x1b[2J"),
        text("touch", touch=TOUCH),
        text("end", at=9.0, end=END, realtime=True, **COSTS),
    ):
        record.add(*accepted(line, "this_machine"))
    document = record.document
    assert (document["started_at"], document["finished_at"], document["realtime"]) == (1.0, 9.0, True)
    assert document["end"] == {**END, "machine": "this_machine"} and document["costs"] == COSTS
    assert document["groups"]["fleet"] == group and len(document["windows"]) == 1
    assert document["touch"] == TOUCH
    assert document["notes"] and "\x1b" not in document["notes"][0]


def test_only_what_the_fleet_ended_is_a_whole_ramp():
    plan = {"load": {"rate": 50}, "budget_bytes": 2**28, "growth": 0.1, "servers": []}
    assert not is_finished(Record("zram", 1, plan).document), "it was never heard of again"
    for kind, whole in (("does_not_fit", True), ("missed", True), ("interrupted", False), ("error", False)):
        record = Record("zram", 1, {**plan, "hold_seconds": 60})
        record.add(*accepted(text("end", at=9.0, end={**END, "kind": kind}, realtime=None, **COSTS), "m"))
        assert is_finished(record.document) == whole and record.document["kind"] == "hold"


def test_a_host_that_never_stops_writing_notes_is_refused():
    record = Record("zram", 1, {"load": {}, "budget_bytes": 1, "growth": 0.1, "servers": []})
    with pytest.raises(MeasurementError, match="has more than 100,000 lines"):
        for _line in range(100_001):
            record.add("note", {"text": "again"})
    assert len(record.document["notes"]) == 100_000
