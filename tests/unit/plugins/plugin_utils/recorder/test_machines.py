# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs whose fleet is on hypervisors: their pressure is in the phases, the summary and the comparison."""

from __future__ import annotations

import pathlib

import pytest
from synthetic_fleets import START, record_phase

from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, compare

PRESSURE = {"counters": {"clock_s": 2.0, "pswpin": 9000}, "gauges": {}, "doubtful": []}


def text(directory, *names):
    return pathlib.Path(directory.file(*names)).read_text(encoding="utf-8")


@pytest.fixture
def on_hypervisors(begun, make_result, tmp_path):
    """A function that records a run on the hypervisors hv1 and hv2, and returns its directory."""

    def record(name, readings, fails=(), unread=None):
        groups = {"hypervisors": ["hv1", "hv2"], "fleet": begun["expected"]}
        run = {
            **begun,
            "run_id": name,
            "directory": str(tmp_path / name),
            "inventory": {"groups": groups, "addresses": {}},
        }
        recorder = RunRecorder(run, lambda line: None)
        for host, why in (unread or {}).items():
            recorder.add_reading(host, {"unreachable": True, "msg": why})
        for phase in begun["phases"]:
            results = {
                host: "it died" if host in fails else make_result(phase, number, machine=f"guest-{host}")
                for number, host in enumerate(begun["expected"])
            }
            seen = {host: {"machine": f"boot-{host}", "pressure": PRESSURE} for host in readings}
            record_phase(recorder, phase, START, results, seen=seen)
        recorder.close()
        return recorder.directory

    return record


def test_the_hypervisors_are_in_the_phases_the_report_and_the_comparison(on_hypervisors):
    directory = on_hypervisors("whole", ["hv1", "hv2"])
    document = directory.read_json("phases", "03-i0-r100-1.json")
    assert document["hypervisors"] == {"hv1": {"machine": "boot-hv1"}, "hv2": {"machine": "boot-hv2"}}
    assert document["pressure"]["boot-hv1"] == PRESSURE and "guest-a" in document["pressure"]
    printed = []
    summary, _changed = publish(directory, printed.append)
    assert list(summary["cells"][0]["pressure"]) == ["hv1", "hv2", "3 guests"]
    assert summary["cells"][0]["pressure"]["hv1"]["page_ins"] == 4500
    assert any("hv1" in line and "4,500" in line for line in printed)
    assert "memory pressure by machine" in text(directory, "report.html").lower()

    partly = on_hypervisors("partly", ["hv1"])
    document = partly.read_json("phases", "03-i0-r100-1.json")
    assert document["hypervisors"]["hv2"] == {"machine": None, "unknown": "nothing of it was recorded in this phase"}
    rows = compare([ArmRuns(None, [directory]), ArmRuns(None, [partly])])[0]["cells"]
    assert rows[0]["page_ins_per_second"] == 9000
    assert rows[1]["page_ins_per_second"] is None and rows[1]["page_ins_ratio"] is None
    assert rows[1]["pressure"]["hv1"]["page_ins"] == 4500 and rows[1]["pressure"]["hv2"]["page_ins"] is None


def test_guests_alone_do_not_stand_for_their_hypervisors(on_hypervisors):
    unread = on_hypervisors("unread", [], unread={"hv2": "no route to host"})
    partly = on_hypervisors("partly", ["hv1"])
    for row in compare([ArmRuns(None, [unread]), ArmRuns(None, [partly])])[0]["cells"]:
        assert row["page_ins_per_second"] is None
    found = unread.read_json("phases", "03-i0-r100-1.json")["hypervisors"]
    assert found["hv1"]["unknown"] == "nothing of it was recorded in this phase"
    assert found["hv2"]["unknown"] == "nothing of it was recorded in this phase: no route to host"


def test_raw_records_are_kept_below_a_name_that_is_no_path(begun):
    recorder = RunRecorder(begun, lambda line: None)
    files = {"/proc/meminfo": "MemTotal: 8 kB", "/sys/kernel/mm": "/sys/kernel/mm/ksm/run: 0"}
    recorder.add_reading("../hv1", {"machine": "boot", "files": files, "log": {"position": 7}})
    recorder.add_reading("../hv1", {"machine": "boot", "log": {"position": 9, "text": "[1.0] oom", "lost": 2}})
    recorder.add_reading("../hv1", {"machine": "boot", "log": {"position": 9, "text": "[9.0] again", "lost": 0}})
    recorder.add_reading("hv2", {"machine": "boot", "log": {"position": None, "unknown": "not permitted"}})
    recorder.add_reading("hv3", {"unreachable": True, "msg": "no route to host"})
    recorder.close()
    directory = recorder.directory
    kept = text(directory, "raw", "_hv1", "dmesg.txt")
    assert "2 earlier messages" in kept and kept.index("[1.0] oom") < kept.index("[9.0] again")
    assert text(directory, "raw", "_hv1", "proc-meminfo.txt") == "MemTotal: 8 kB\n"
    assert "ksm/run: 0" in text(directory, "raw", "_hv1", "sys-kernel-mm.txt")
    assert text(directory, "raw", "hv2", "dmesg.txt") == "(unknown: not permitted)\n"
    assert text(directory, "raw", "hv3", "dmesg.txt") == "(unknown: no route to host)\n"
