# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs whose fleet is on hypervisors: their pressure is in the phases, the summary and the comparison."""

from __future__ import annotations

import pathlib

import pytest
from synthetic_fleets import START

from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, compare

PRESSURE = {"counters": {"clock_s": 2.0, "pswpin": 9000}, "gauges": {}, "doubtful": []}


def before(host, **changes):
    return {"host": host, "moment": "before", "machine": f"boot-{host}", "snapshot": {}, **changes}


def after(host, **changes):
    return {"host": host, "moment": "after", "machine": f"boot-{host}", "pressure": PRESSURE, **changes}


def unknown(host, moment):
    return {"host": host, "moment": moment, "unknown": "no route to host"}


def text(directory, *names):
    return pathlib.Path(directory.file(*names)).read_text(encoding="utf-8")


@pytest.fixture
def on_hypervisors(begun, make_result, tmp_path):
    """A function that records a run on the hypervisors hv1 and hv2, and returns its directory."""

    def record(name, readings, fails=()):
        groups = {"hypervisors": ["hv1", "hv2"], "fleet": begun["expected"]}
        run = {
            **begun,
            "run_id": name,
            "directory": str(tmp_path / name),
            "inventory": {"groups": groups, "addresses": {}},
        }
        recorder = RunRecorder(run, lambda line: None)
        for phase in begun["phases"]:
            for reading in readings:
                if reading["moment"] == "before":
                    recorder.add_pressure(reading)
            start = None if phase["kind"] == "fill" else START
            recorder.begin_phase({"phase": phase, "begun_at": START - 1, "start_at": start})
            for number, host in enumerate(begun["expected"]):
                if host in fails:
                    recorder.fail(host, "it died")
                else:
                    recorder.add(host, make_result(phase, number, machine=f"guest-{host}"))
            for reading in readings:
                if reading["moment"] == "after":
                    assert recorder.phase  # the file is not written before it is complete
                    recorder.add_pressure(reading)
            assert recorder.phase is None
        recorder.close()
        return recorder.directory

    return record


def test_the_hypervisors_are_in_the_phases_the_report_and_the_comparison(on_hypervisors):
    whole = [before("hv1"), before("hv2"), after("hv1"), after("hv2")]
    directory = on_hypervisors("whole", whole)
    document = directory.read_json("phases", "03-i0-r100-1.json")
    assert document["hypervisors"] == {"hv1": {"machine": "boot-hv1"}, "hv2": {"machine": "boot-hv2"}}
    assert document["pressure"]["boot-hv1"] == PRESSURE and "guest-a" in document["pressure"]
    printed = []
    summary, _changed = publish(directory, printed.append)
    assert list(summary["cells"][0]["pressure"]) == ["hv1", "hv2", "3 guests"]
    assert summary["cells"][0]["pressure"]["hv1"]["page_ins"] == 4500
    assert any("hv1" in line and "4,500" in line for line in printed)
    assert "memory pressure by machine" in text(directory, "report.html").lower()

    partly = on_hypervisors("partly", [before("hv1"), unknown("hv2", "before"), after("hv1")])
    document = partly.read_json("phases", "03-i0-r100-1.json")
    assert document["hypervisors"]["hv2"] == {"machine": None, "unknown": "no route to host"}
    rows = compare([ArmRuns(None, [directory]), ArmRuns(None, [partly])])[0]["cells"]
    assert rows[0]["page_ins_per_second"] == 9000
    assert rows[1]["page_ins_per_second"] is None and rows[1]["page_ins_ratio"] is None
    assert rows[1]["pressure"]["hv1"]["page_ins"] == 4500 and rows[1]["pressure"]["hv2"]["page_ins"] is None


def test_guests_alone_do_not_stand_for_their_hypervisors(on_hypervisors):
    unread = on_hypervisors("unread", [])
    other = on_hypervisors("lost", [before("hv1"), before("hv2"), unknown("hv1", "after"), unknown("hv2", "after")])
    for row in compare([ArmRuns(None, [unread]), ArmRuns(None, [other])])[0]["cells"]:
        assert row["page_ins_per_second"] is None
    assert unread.read_json("phases", "01-fill.json")["hypervisors"]["hv1"]["unknown"].startswith("it was not read")
    assert other.read_json("phases", "01-fill.json")["hypervisors"]["hv1"]["unknown"] == "no route to host"


def test_a_phase_ends_although_nobody_is_left_to_read_the_hypervisors(on_hypervisors):
    directory = on_hypervisors("dead", [before("hv1")], fails=("a", "b", "c"))
    document = directory.read_json("phases", "01-fill.json")
    assert document["failed"] and document["hypervisors"]["hv1"]["machine"] is None


def test_raw_records_are_kept_below_a_name_that_is_no_path(begun):
    recorder = RunRecorder(begun, lambda line: None)
    raw = {"/proc/meminfo": "MemTotal: 8 kB", "/sys/kernel/mm": "/sys/kernel/mm/ksm/run: 0"}
    recorder.add_pressure(before("../hv1", moment="begin", raw=raw, log_position=7))
    recorder.add_pressure({"host": "../hv1", "moment": "end", "log": "[1.0] oom", "log_lost": 2})
    recorder.add_pressure({"host": "../hv1", "moment": "end", "log": "[9.0] again", "log_lost": 0})
    recorder.add_pressure(before("hv2", moment="begin", log_position=None, log_unknown="not permitted"))
    recorder.add_pressure({"host": "hv3", "moment": "begin", "unknown": "no route to host"})
    recorder.close()
    directory = recorder.directory
    kept = text(directory, "raw", "_hv1", "dmesg.txt")
    assert "2 earlier messages" in kept and kept.index("[1.0] oom") < kept.index("[9.0] again")
    assert text(directory, "raw", "_hv1", "proc-meminfo.txt") == "MemTotal: 8 kB\n"
    assert "ksm/run: 0" in text(directory, "raw", "_hv1", "sys-kernel-mm.txt")
    assert text(directory, "raw", "hv2", "dmesg.txt") == "(unknown: not permitted)\n"
    assert text(directory, "raw", "hv3", "dmesg.txt") == "(unknown: no route to host)\n"
