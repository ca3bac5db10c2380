# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.pressure import difference, snapshot
from ansible_collections.memstretch.density.plugins.plugin_utils.run import pressure
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError


def of(**counters):
    return {"counters": {"clock_s": 2.0, **counters}, "gauges": {}, "doubtful": []}


def phase(**documents):
    return {"phase": {"kind": "iteration", "influence": 0, "read_mix": 100}, "pressure": documents}


def test_the_figures_are_those_of_the_hypervisors_not_of_their_guests():
    document = {
        **phase(host=of(pswpin=8000, zswpin=2000), guest=of(pswpin=0)),
        "hypervisors": {"hv1": {"machine": "host"}},
    }
    assert pressure.figures(pressure.of_carriers(document).values())["page_ins"] == 5000
    assert pressure.figures(pressure.of_guests(document))["page_ins"] == 0


def test_one_unknown_machine_makes_a_sum_unknown_never_smaller():
    document = {
        **phase(host=of(pswpin=8000), guest=of(pswpin=0)),
        "hypervisors": {"hv1": {"machine": "host"}, "hv2": {"machine": None, "unknown": "no route"}},
    }
    found = pressure.figures(pressure.of_carriers(document).values())
    assert set(found.values()) == {None}
    assert pressure.figures([])["page_ins"] is None


def test_a_machine_under_two_names_is_added_up_once():
    """Two hypervisors of the lab share a kernel, and thus a boot id."""
    document = {
        **phase(host=of(pswpin=8000), other=of(pswpin=2000), guest=of(pswpin=0)),
        "hypervisors": {name: {"machine": machine} for name, machine in (("lab1", "host"), ("lab2", "host"))},
    }
    assert pressure.figures(pressure.of_carrying_machines(document))["page_ins"] == 4000
    document["hypervisors"]["kvm"] = {"machine": "other"}
    assert pressure.figures(pressure.of_carrying_machines(document))["page_ins"] == 5000
    document["hypervisors"]["away"] = {"machine": None, "unknown": "no route"}
    assert pressure.figures(pressure.of_carrying_machines(document))["page_ins"] is None
    assert set(pressure.of_carriers(document)) == {"lab1", "lab2", "kvm", "away"}
    assert pressure.of_carrying_machines(phase(a=of(pswpin=2), b=of(pswpin=2))) == [of(pswpin=2), of(pswpin=2)]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (of(pswpin=10), 5),  # a kernel without zswap
        (of(pswpin=10, zswpin=2), 6),
        (of(), None),
        ({**of(pswpin=10), "doubtful": ["zswpin"]}, None),  # the counter decreased
        ({"counters": {"pswpin": 10}, "gauges": {}, "doubtful": []}, None),
    ],
)
def test_page_ins_of_a_machine(machine, expected):
    assert pressure.figures([machine])["page_ins"] == expected


def test_the_latency_is_that_of_the_slowest_disk():
    disks = {
        "disk.nvme0n1.reads": 100,
        "disk.nvme0n1.read_ms": 10,
        "disk.sda.reads": 10,
        "disk.sda.read_ms": 50,
        "disk.sda.writes": 0,
        "disk.sda.write_ms": 0,
    }
    found = pressure.figures([of(**disks)])
    assert found["read_ms"] == 5 and found["write_ms"] is None


def test_the_table_by_machine():
    table = pressure.PressureByMachine()
    for pages, disk in ((1000, {}), (3000, {"disk.sda.reads": 10, "disk.sda.read_ms": 20})):
        document = phase(host=of(pswpin=pages, **disk), guest=of(pswpin=0), other=of(pswpin=2))
        table.add({**document, "hypervisors": {"hv1": {"machine": "host"}, "hv2": {"machine": None}}})
    found = table.of({"influence": 0, "read_mix": 100})
    assert list(found) == ["hv1", "hv2", "2 guests"]
    assert found["hv1"]["page_ins"] == 1000 and found["hv1"]["read_ms"] == 2
    assert found["hv2"]["page_ins"] is None and found["2 guests"]["page_ins"] == 1


def test_a_reading_is_accepted_key_by_key():
    answer = {"changed": False, "machine": "boot-id", "snapshot": snapshot(), "host_memory": {"any": ["key"]}}
    answer["pressure"] = difference(answer["snapshot"], snapshot())
    answer["log"] = {"position": 7, "text": "[1.0] a\x1b[31m\n[2.0] b", "lost": 0, "add_host": {"host_name": "x"}}
    accepted = pressure.reading(answer)
    assert accepted["log"] == {"position": 7, "text": "[1.0] a?[31m\n[2.0] b", "lost": 0}
    assert {**accepted, "log": answer["log"]} == answer, "the record is whatever the host has"
    for wrong in (
        {"machine": 1},
        {"snapshot": {"pswpin": "0"}},
        {"snapshot": {"../x": 0}},
        {"log": {"position": None, "text": "x" * 2**21}},
        {"files": {"/etc/shadow": ""}},
    ):
        with pytest.raises(MeasurementError, match=f"host_memory_info.{next(iter(wrong))}"):
            pressure.reading({**answer, **wrong})
    with pytest.raises(MeasurementError, match="machine is missing"):
        pressure.reading({"changed": False, "log": {"position": 7}})


@pytest.mark.parametrize("why", ["failed", "unreachable", "skipped"])
def test_a_host_that_was_not_read_has_no_reading(why):
    assert pressure.reading({why: True, "msg": "no Python"}) == {why: True, "msg": "no Python"}
