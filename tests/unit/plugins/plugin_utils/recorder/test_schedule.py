# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time

import pytest
from synthetic_fleets import START

from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder
from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.schedule import Launched
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEDULE_FILE

MACHINE = {"machine": "boot", "own": True, "phases": {}}


@pytest.fixture
def printed():
    return []


@pytest.fixture
def recorder(begun, printed):
    made = RunRecorder(begun, printed.append)
    yield made
    made.close()


def plan_of(begun, **changes):
    entries = [
        {**phase, "at": 2.0 * number, "max_seconds": phase["seconds"] + 0.2, "refit": 0.0}
        for number, phase in enumerate(phase for phase in begun["phases"] if phase["kind"] != "fill")
    ]
    return {"session": "ab" * 8, "planned_at": START - 1, "phases": entries, "seconds": 30, "stop": None, **changes}


def answers(plan, make_result, number, of_phase=lambda index, answer: answer):
    """What a host returns of all phases; of_phase may change the answer of one, or drop it with None."""
    found = []
    for entry in plan["phases"]:
        result = make_result(entry, number, START + entry["at"])
        answer = of_phase(entry["index"], {"phase": entry["name"], "solotest": result})
        found += [answer] if answer else []
    return {"phases": found, "machine": None}


def phases(recorder):
    directory = pathlib.Path(recorder.directory.file("phases"))
    return {path.name[:2]: json.loads(path.read_text(encoding="utf-8")) for path in directory.iterdir()}


def test_all_phases_are_written_from_one_collection(recorder, begun, make_result):
    plan = plan_of(begun)
    recorder.begin_schedule(plan)
    recorder.start_schedule(START)
    assert recorder.directory.read_json(SCHEDULE_FILE)["start_at"] == START
    for number, host in enumerate(begun["expected"]):
        recorder.collect(host, "client", answers(plan, make_result, number), None)
    recorder.end_schedule()
    found = phases(recorder)
    assert len(found) == len(plan["phases"]) and all(each["valid"] for each in found.values())
    assert found["03"]["start_at"] == START + plan["phases"][1]["at"]
    assert not os.path.exists(recorder.directory.file(SCHEDULE_FILE))


def test_a_host_that_dies_in_a_phase_keeps_those_before(recorder, begun, make_result):
    plan = plan_of(begun)

    def dies(index, answer):
        if index < 7:
            return answer
        kind, sent = ("lost", 10) if index == 7 else ("connect", 0)
        partial = {**answer["solotest"], "error": {"kind": kind, "message": "gone"}, "requests": {"sent": sent}}
        return {"phase": answer["phase"], "failed": True, "msg": "gone", "solotest": partial}

    recorder.begin_schedule(plan)
    recorder.start_schedule(START)
    for number, host in enumerate(begun["expected"]):
        change = dies if host == "b" else lambda index, answer: answer
        recorder.collect(host, "client", answers(plan, make_result, number, change), None)
    recorder.fail("b", "the task failed")
    recorder.end_schedule()
    for index, document in phases(recorder).items():
        died = ["b"] if int(index) >= 7 else []
        assert document["died"] == died and sorted(document["hosts"]) == [h for h in begun["expected"] if h not in died]


@pytest.mark.parametrize("kind, died", [("lost", True), ("refused_foreign_data", False)])
def test_a_host_that_is_lost_in_the_fill_is_lost_in_all_phases(recorder, begun, make_result, kind, died):
    plan = plan_of(begun)
    recorder.begin_fill(begun["phases"][0], START - 60)
    for number, host in enumerate(begun["expected"]):
        filled = {"phase": "fill", "solotest": make_result(begun["phases"][0], number, START - 50)}
        if host == "b":
            partial = {**filled["solotest"], "error": {"kind": kind, "message": "gone"}}
            filled = {"phase": "fill", "failed": True, "msg": "gone", "solotest": partial}
        recorder.collect(host, "client", {"phases": [filled], "machine": None}, None)
    recorder.begin_schedule(plan)
    recorder.start_schedule(START)
    for number, host in enumerate(begun["expected"]):
        if host != "b":
            recorder.collect(host, "client", answers(plan, make_result, number), None)
    recorder.end_schedule()
    for document in phases(recorder).values():
        assert document["failed"] == {"b": "gone"} and document["died"] == (["b"] if died else [])
        assert document["valid"] is died


def fill_of(begun, make_result, number):
    filled = {"phase": "fill", "solotest": make_result(begun["phases"][0], number, START - 50)}
    return {"phases": [filled], "machine": None}


def test_a_client_that_is_not_armed_after_its_fill_fails_in_the_schedule_only(recorder, begun, make_result):
    plan = plan_of(begun)
    recorder.begin_fill(begun["phases"][0], START - 60)
    recorder.begin_schedule(plan)
    for number, host in enumerate(begun["expected"]):
        recorder.collect(host, "client", fill_of(begun, make_result, number), None)
        if host == begun["expected"][0]:  # while the others fill
            recorder.fail(host, "no free client")
    recorder.start_schedule(START)
    for number, host in enumerate(begun["expected"][1:], 1):
        recorder.collect(host, "client", answers(plan, make_result, number), None)
    recorder.end_schedule()
    found = phases(recorder)
    assert found.pop("01")["failed"] == {} and len(found) == len(plan["phases"])
    assert all(document["failed"] == {begun["expected"][0]: "no free client"} for document in found.values())


def test_after_a_fill_that_failed_everywhere_nothing_was_loaded(recorder, begun):
    recorder.begin_fill(begun["phases"][0], START - 60)
    recorder.begin_schedule(plan_of(begun))
    for host in begun["expected"]:
        recorder.fail(host, "too small")
    recorder.end_schedule(is_over=False)
    assert list(phases(recorder)) == ["01"]


def test_a_host_that_is_measured_later_has_not_died(recorder, begun, make_result):
    plan = plan_of(begun)

    def hangs(index, answer):
        if index != 7:
            return answer
        partial = {**answer["solotest"], "error": {"kind": "not_ready", "message": "no reply in time"}}
        return {"phase": answer["phase"], "failed": True, "msg": "no reply in time", "solotest": partial}

    recorder.begin_schedule(plan)
    recorder.start_schedule(START)
    for number, host in enumerate(begun["expected"]):
        change = hangs if host == "b" else lambda index, answer: answer
        recorder.collect(host, "client", answers(plan, make_result, number, change), None)
    recorder.end_schedule()
    found = phases(recorder)["07"]
    assert found["died"] == [] and found["failed"] == {"b": "no reply in time"} and not found["valid"]


def test_a_host_that_cannot_be_reached_any_more_has_died(recorder, begun, make_result):
    plan = plan_of(begun)
    recorder.begin_schedule(plan)
    recorder.start_schedule(START)
    recorder.collect("a", "client", answers(plan, make_result, 0), None)
    recorder.fail("b", "no route to host", died=True)
    recorder.end_schedule()
    first = phases(recorder)["02"]
    assert first["died"] == ["b"] and first["failed"] == {"b": "no route to host", "c": "no result"}


def test_phases_that_somebody_ended_early_are_not_results(recorder, begun, make_result):
    plan = plan_of(begun)

    def ended(index, answer):
        return answer if index < 5 else {"phase": answer["phase"], "failed": True, "msg": "ended", "ended": True}

    recorder.begin_schedule(plan)
    recorder.start_schedule(START)
    for number, host in enumerate(begun["expected"]):
        recorder.collect(host, "client", answers(plan, make_result, number, ended), None)
    recorder.end_schedule()
    assert sorted(phases(recorder)) == ["02", "03", "04"]


def test_an_interrupted_session_gives_only_what_all_hosts_have_finished(recorder, begun, make_result, printed):
    plan = plan_of(begun, start_at=START)
    recorder.begin_schedule(plan)
    for number, host in enumerate(begun["expected"]):
        keep = 6 if host == "c" else 4
        known = answers(plan, make_result, number, lambda index, answer, keep=keep: answer if index < keep else None)
        gone = [
            {"phase": entry["name"], "failed": True, "msg": "the client ended"}
            for entry in plan["phases"]
            if entry["index"] >= keep
        ]
        recorder.collect(host, "client", {**known, "phases": known["phases"] + gone}, None)
    assert recorder.end_schedule() is True
    assert sorted(phases(recorder)) == ["02", "03"] and "before the run was interrupted" in printed[-3]


def test_machines_are_in_the_phases(recorder, begun, make_result):
    plan = plan_of(begun)
    name = plan["phases"][0]["name"]
    over_time = {"rows": [[1.0, 3.0, None, None, None, None, None]], "started_at": START}
    seen = {"pressure": {"counters": {}, "gauges": {}, "doubtful": []}, "over_time": over_time}
    recorder.begin_schedule(plan)
    recorder.start_schedule(START)
    for number, host in enumerate(begun["expected"]):
        document = {**answers(plan, make_result, number), "machine": {**MACHINE, "own": not number}}
        document["machine"]["phases"] = {name: seen, "of nobody": seen}
        recorder.collect(host, "client", document, None)
    recorder.end_schedule()
    assert phases(recorder)["02"]["over_time"] == {"boot": over_time} and phases(recorder)["03"]["over_time"] == {}


def sleeper(directory, name):
    job = directory / name
    job.mkdir()
    (job / "schedule").touch()
    loop = subprocess.Popen(["/bin/sh", "-c", f"while [ -e {job}/schedule ]; do sleep 0.05; done"])
    return job, loop


def test_what_was_launched_is_ended_within_two_seconds(tmp_path):
    launched = Launched()
    loops = []
    for name in ("a", "b"):
        job, loop = sleeper(tmp_path, name)
        launched.add(name, "client", {"path": str(job)}, ["/bin/sh", "-c", f"rm {job}/schedule"])
        loops.append(loop)
    launched.add("far", "client", {"path": "/x"}, None)
    launched.add("slow", "client", {"path": "/x"}, ["sleep", "20"])
    assert not launched.has_ended
    before = time.monotonic()
    assert launched.stop() == ["far", "slow"] and time.monotonic() - before < 2
    for loop in loops:
        assert loop.wait(1) == 0
    assert len(launched) == 0 and launched.stop() == []


def test_a_schedule_that_ended_early_on_this_machine_is_not_waited_for(recorder, begun, tmp_path):
    plan = plan_of(begun)
    recorder.begin_schedule(plan)
    recorder.start_schedule(time.time() + 600)
    job, loop = sleeper(tmp_path, "x")
    recorder.launched.add("a", "client", {"path": str(job)}, ["/bin/sh", "-c", "true"])
    (job / "schedule").unlink()
    recorder.follow()
    assert loop.wait(5) == 0


def test_ctrl_c_ends_the_clients_and_says_so(recorder, begun, tmp_path, printed, monkeypatch):
    plan = plan_of(begun)
    recorder.begin_schedule(plan)
    recorder.start_schedule(time.time() + 600)
    job, loop = sleeper(tmp_path, "x")
    recorder.launched.add("a", "client", {"path": str(job)}, ["/bin/sh", "-c", f"rm {job}/schedule"])

    def interrupt(_seconds):
        monkeypatch.undo()  # once
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        recorder.follow()
    assert loop.wait(5) == 0
    assert any("Stopping the 1 client" in line for line in printed)
    assert any("run the same command again" in line for line in printed)
    assert os.path.exists(recorder.directory.file(SCHEDULE_FILE)), "the finished phases can still be collected"
