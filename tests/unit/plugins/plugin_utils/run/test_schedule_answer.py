# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_fleets import START

from ansible_collections.memstretch.density.plugins.plugin_utils.run import schedule_answer
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError

OVER_TIME = {"age_s": 10.0, "rows": [[1.0, 2.0, None, 0.1, 0.5, 0.0, 4096]]}
PRESSURE = {"counters": {"pswpin": 5}, "gauges": {}, "doubtful": []}


def answer(make_result, machine=None, **changes):
    measured = make_result({"kind": "iteration", "influence": 0, "read_mix": 100})
    return {"changed": False, "phases": [{"phase": "one", "solotest": measured, **changes}], "machine": machine}


def machine(**seen):
    return {"machine": "boot", "own": True, "phases": {"one": seen}}


def test_results_are_accepted_and_packed(make_result):
    given = answer(make_result, machine(pressure=PRESSURE, over_time=OVER_TIME, more=1), add_host={})
    found = schedule_answer.collected({**given, "add_host": {}}, START)
    assert set(found) == {"changed", "collected"}
    document = schedule_answer.unpack(found["collected"])
    (phase,) = document["phases"]
    assert phase["phase"] == "one" and phase["packed"] and "add_host" not in phase and phase["ended"] is False
    seen = document["machine"]["phases"]["one"]
    assert seen["over_time"] == {"rows": OVER_TIME["rows"], "started_at": START - 10} and set(seen) == {
        "pressure",
        "over_time",
    }


def test_the_first_failure_is_that_of_the_task_and_all_is_kept(make_result):
    given = answer(make_result)
    given["phases"] += [
        {"phase": name, "failed": True, "msg": f"{name}\x1b", "ended": True} for name in ("two", "three")
    ]
    found = schedule_answer.collected(given, START)
    assert found["failed"] and found["msg"] == "two: two?"
    assert [each["ended"] for each in schedule_answer.unpack(found["collected"])["phases"]] == [False, True, True]


def test_a_host_whose_requests_failed_has_measured(make_result):
    given = answer(make_result, failed=True, msg="OOM")
    given["phases"][0]["solotest"]["error"] = {"kind": "reply", "message": "OOM"}
    found = schedule_answer.collected(given, START)
    (phase,) = schedule_answer.unpack(found["collected"])["phases"]
    assert "failed" not in found and "failed" not in phase and phase["warning"] == "OOM"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"phases": None}, "phases = None"),
        ({"phases": [7]}, "a list of mappings"),
        ({"phases": [{"phase": 7}]}, "phase = 7"),
        ({"machine": {"machine": "x"}}, "machine.own is missing"),
        ({"machine": machine(over_time={**OVER_TIME, "rows": [[1.0]]})}, "a list of 7 values"),
        ({"machine": machine(charged_dram={})}, "charged_dram.machine is missing"),
    ],
)
def test_what_does_not_fit_is_refused(make_result, changes, words):
    with pytest.raises(MeasurementError, match=words):
        schedule_answer.collected({**answer(make_result), **changes}, START)


def test_a_job_is_an_absolute_path_and_a_pid():
    assert schedule_answer.launched({"job": {"path": "/run/x", "pid": None, "more": 1}}, START)["job"] == {
        "path": "/run/x",
        "pid": None,
    }
    assert schedule_answer.launched({"job": {"path": "/tmp/x.job", "pid": 7, "x": 1}}, START)["job"] == {
        "path": "/tmp/x.job",
        "pid": 7,
    }
    for wrong in (
        {"path": "x", "pid": 5},
        {"path": "/x", "pid": 1},
        {"path": "/x"},
        {"path": "-rf", "pid": 2},
        {"path": "/x\n", "pid": 2},
        {"path": "/x", "pid": "2"},
        [],
    ):
        with pytest.raises(MeasurementError):
            schedule_answer.launched({"job": wrong}, START)
    assert schedule_answer.launched({"failed": True, "msg": "no", "job": 7}, START) == {
        "changed": False,
        "failed": True,
        "msg": "no",
    }


def test_a_client_that_was_not_armed_says_why():
    error = {"kind": "connect", "message": "refused"}
    found = schedule_answer.launched({"failed": True, "msg": "no", "error": {**error, "more": 1}, "job": "?"}, START)
    assert found == {"changed": False, "failed": True, "msg": "no", "error": error}
    with pytest.raises(MeasurementError, match=r"error\.kind"):
        schedule_answer.launched({"failed": True, "msg": "no", "error": {**error, "kind": ["connect"]}}, START)


@pytest.mark.parametrize(
    "failure", [{}, {"failed": True, "msg": "not armed", "error": {"kind": "connect", "message": "x"}}]
)
def test_a_launch_after_a_fill_returns_both(make_result, failure):
    found = schedule_answer.launched({**answer(make_result), "job": {"path": "/run/x", "pid": 7}, **failure}, START)
    assert schedule_answer.unpack(found["collected"])["phases"][0]["solotest"]
    assert found["msg"] == "not armed" if failure else found["job"]["pid"] == 7
