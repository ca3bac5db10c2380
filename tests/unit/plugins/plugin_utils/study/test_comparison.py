# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_fleets import edit_run, latencies

from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, compare


def test_a_comparison_names_all_differences_except_the_profile(record):
    first = record()[0]

    def other(run):
        run["config"]["profile"] = "zram"
        run["config"]["load"]["value_size"] = 10
        run["hosts"] = {
            "kvm": {
                "kernel": {"release": "7.0"},
                "tuning": {
                    "settings": [
                        {"name": "vm.swappiness", "effective": "150", "absent": False},
                        {"name": "vm.new", "effective": None, "absent": True},
                    ],
                    "swap_areas": [{"source": "/dev/zram0", "priority": 100}],
                },
            }
        }

    second = edit_run(record(name="other")[0], other)
    document = compare([ArmRuns("slow", [first]), ArmRuns(None, [second])])[0]
    assert [run["name"] for run in document["runs"]] == ["slow", "zram"]
    differences = document["differences"]["other"]
    assert "config" not in " ".join(differences)
    assert "load.value_size: 1000 -> 10" in differences and "kernel: unknown -> 7.0" in differences
    assert document["settings"] == [
        {"name": "vm.swappiness", "values": ["", "150"]},
        {"name": "swap", "values": ["", "/dev/zram0, priority 100"]},
    ]


def test_page_ins_have_a_ratio_with_an_interval(record):
    def paging(name, per_phase):
        def change(phase, host, result):
            pages = per_phase * (1 + 0.1 * (phase.get("iteration") or 0))
            return {**result, "pressure": {"counters": {"clock_s": 1.0, "pswpin": pages}, "gauges": {}, "doubtful": []}}

        return record(change, name=name)[0]

    quiet = paging("quiet", 100)
    row = compare([ArmRuns(None, [quiet]), ArmRuns(None, [paging("busy", 300)])])[0]["cells"][1]
    assert row["page_ins_ratio"]["value"] == 3
    low, high = row["page_ins_ratio"]["interval"]
    assert low < 3 < high
    none = compare([ArmRuns(None, [paging("none", 0)]), ArmRuns(None, [quiet])])[0]
    assert none["cells"][1]["page_ins_ratio"] is None


def test_a_comparison_has_intervals_of_its_ratios(record, make_result):
    def slow(phase, host, result):
        number = "abc".index(host)
        return make_result(phase, number, values=latencies(average_us=40, seed=number))

    document, details = compare([ArmRuns(None, [record()[0]]), ArmRuns(None, [record(slow, name="slow")[0]])])
    assert [list(cells) for cells in details] == [["i0-r100", "i0-r70", "i10-r100", "i10-r70"]] * 2
    for row in document["cells"]:
        if row["run_id"] == "run":
            assert row["ratio_interval"] is None
        else:
            low, high = row["ratio_interval"]["avg_us"]
            assert row["ratio"]["avg_us"] == pytest.approx(2, rel=0.02)
            assert low <= row["ratio"]["avg_us"] + 0.001 and row["ratio"]["avg_us"] - 0.001 <= high < 2.5
