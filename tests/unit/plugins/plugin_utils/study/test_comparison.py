# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

import jsonschema
import pytest
from synthetic_fleets import edit_run, latencies

from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.comparison_page import comparison_page
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study import attempts
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, publish
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import compare as work_out

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schemas/comparison.json").read_text(encoding="utf-8"))


def compare(arms):
    """Return a comparison, which must fit the published schema."""
    document, details = work_out(arms)
    jsonschema.validate(json.loads(json.dumps(document)), SCHEMA)
    return document, details


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


def test_the_files_of_a_comparison_show_what_was_discarded(record, tmp_path):
    entries = [
        {
            "run_id": run_id,
            "arm": "zram",
            "state": state,
            "verdict": verdict,
            "reason": "a < b: cut off",
            "seconds": 9.0,
        }
        for run_id, state, verdict in (("z", "invalid", "invalid"), ("z-attempt2", "finished", "pass"))
    ]
    arms = [ArmRuns("dram", [record()[0]]), ArmRuns("zram", [record(name="z-attempt2")[0]])]
    for name, of, told in (("lossy", entries, "1 of 2"), ("clean", entries[1:], "none discarded")):
        directory, said = RunDirectory(str(tmp_path), name), []
        document, _changed = publish(directory, arms, said.append, ledger=attempts.summary(of))
        assert document["attempts"]["groups"][0]["attempts"] == len(of)
        assert told in "\n".join(said)
        page = (tmp_path / name / "comparison.html").read_text(encoding="utf-8")
        assert ("1 of 2 attempts were discarded" in page) == (name == "lossy")
        assert ("invalid: a &lt; b: cut off" in page) == (name == "lossy")
        assert ("None of 1 attempts was discarded" in page) == (name == "clean")


def paging(record, name, per_phase):
    def change(phase, host, result):
        return {**result, "pressure": {"counters": {"clock_s": 1.0, "pswpin": per_phase}, "gauges": {}, "doubtful": []}}

    return record(change, name=name)[0]


def test_page_ins_have_a_ratio_with_an_interval(record):
    quiet = ArmRuns("quiet", [paging(record, f"quiet{number}", 100 * number) for number in (1, 2, 3)])
    busy = ArmRuns("busy", [paging(record, f"busy{number}", pages) for number, pages in enumerate((310, 590, 900))])
    row = compare([quiet, busy])[0]["cells"][1]
    assert row["page_ins_ratio"]["value"] == pytest.approx(3, rel=0.02)
    low, high = row["page_ins_ratio"]["interval"]
    assert 2.7 < low < 3 < high < 3.3
    one = compare([ArmRuns(None, quiet.runs[:1]), ArmRuns(None, busy.runs[:1])])[0]["cells"][1]["page_ins_ratio"]
    assert one == {"value": 3.1, "interval": None}
    none = compare([ArmRuns(None, [paging(record, "none", 0)]), ArmRuns(None, quiet.runs[:1])])[0]
    assert none["cells"][1]["page_ins_ratio"] is None


def test_ratios_have_intervals_over_the_runs(record, make_result):
    """The slow arm takes twice as long; runs of both arms vary by up to a fifth, in the same rounds."""

    def runs(name, factor, of_rounds):
        def change(average_us):
            return lambda phase, host, result: make_result(
                phase, "abc".index(host), values=latencies(average_us=average_us, seed="abc".index(host))
            )

        return [
            record(change(20 * factor * of_round), name=f"{name}{number}")[0]
            for number, of_round in enumerate(of_rounds)
        ]

    fast, slow = runs("fast", 1, (1, 1.2, 0.9)), runs("slow", 2, (1.02, 1.18, 0.9))
    document, details = compare([ArmRuns("fast", fast), ArmRuns("slow", slow)])
    parts = {run["name"]: run["parts"] for run in document["runs"]}
    assert parts == {name: [f"{name}{number}" for number in range(3)] for name in ("fast", "slow")}
    assert [list(cells) for cells in details] == [["i0-r100", "i0-r70", "i10-r100", "i10-r70"]] * 2
    for row in document["cells"]:
        if row["name"] == "fast":
            assert row["ratio_interval"] is None and not row["indicative"]
        else:
            low, high = row["ratio_interval"]["avg_us"]
            assert row["ratio"]["avg_us"] == pytest.approx(2, rel=0.02)
            assert 1.8 < low < row["ratio"]["avg_us"] < high < 2.2, "what rounds have in common cancels out"
            assert not row["indicative"] and row["runs"] == 3

    for count in (1, 2):
        few = compare([ArmRuns("fast", fast[:count]), ArmRuns("slow", slow[:count])])[0]
        rows = [row for row in few["cells"] if row["name"] == "slow"]
        assert all(row["ratio_interval"] is None and row["indicative"] for row in rows)
        assert rows[0]["ratio"]["avg_us"] == pytest.approx(2, rel=0.03)
    uneven = compare([ArmRuns("fast", fast), ArmRuns("slow", slow[:2])])[0]["cells"][1]
    assert uneven["indicative"] and uneven["ratio_interval"] is None and uneven["ratio"]["avg_us"] > 1.9


def test_a_comparison_states_its_aa_test_and_the_smallest_effect(record, make_result):
    """dram stands twice, and a setting makes the third arm twice as slow."""

    def runs(name, averages):
        def change(average_us):
            return lambda phase, host, result: make_result(
                phase, "abc".index(host), values=latencies(average_us=average_us, seed="abc".index(host))
            )

        return [record(change(average_us), name=f"{name}{number}")[0] for number, average_us in enumerate(averages)]

    arms = [
        ArmRuns("dram", runs("dram", (20, 21, 22))),
        ArmRuns("slow", runs("slow", (40.4, 41.2, 45))),
        ArmRuns("dram#2", runs("again", (20.4, 20.5, 22.3)), "dram"),
    ]
    document, details = compare(arms)
    (test,) = document["aa_tests"]
    assert test["holds"] and test["hold_1"] == test["intervals"] == 12 and document["labels"] == []
    assert document["noise"]["source"] == "aa" and document["noise"]["rounds"] == 3
    smallest = document["noise"]["cells"][0]["smallest_effect"]
    assert 1.02 < smallest["avg_us"] < 1.2
    stars = {row["name"]: row["significant"]["avg_us"] for row in document["cells"]}
    assert stars == {"dram": None, "slow": True, "dram#2": None}, "an A/A test is not one of the hypotheses"
    assert 0.02 < document["cells"][0]["spread"]["avg_us"] < 0.08
    text = "\n".join(report_text.comparison(document))
    assert "A/A test: dram#2 is dram again, and 12 of 12 intervals of their ratio include 1." in text
    assert "Holm's correction for all 4 ratios" in text and "smallest effect" in text and "2.01* (" in text
    page = comparison_page(document, details)
    assert "dram#2 is dram again" in page and "slow, influence 0, 100 % GET: average 2.01×" in page
    assert "that 3 rounds find with a probability of 80 %" in page and "that 3 rounds find with a" in text

    unsteady = compare([arms[0], arms[1]._replace(repeats="dram")])[0]
    assert unsteady["aa_tests"][0]["holds"] is False
    assert "note: the site is not as steady as the intervals claim: slow and dram are the same" in "\n".join(
        report_text.comparison(unsteady)
    )
    few = compare([ArmRuns("dram", arms[0].runs[:2]), ArmRuns("dram#2", arms[2].runs[:2], "dram")])[0]
    assert few["noise"] is None and "it has an interval only with 3 or more runs" in "\n".join(
        report_text.comparison(few)
    )


def test_processors_that_sleep_in_one_arm_only_are_more_than_the_profile(record):
    def idle(name, awake):
        def change(run):
            run["hosts"] = {"kvm": {"cpu": {"idle": {"driver": "haltpoll", "governor": "haltpoll", "awake": awake}}}}

        return ArmRuns(name, [edit_run(record(name=name)[0], change)])

    arms = [idle("asleep", False), idle("awake", True), idle("sleepy", False)]
    found = compare(arms)[0]["differences"]
    assert found == {"awake": ["processors when idle: sleep -> awake"], "sleepy": []}


def test_other_command_lines_of_the_guests_are_more_than_the_profile(record):
    def boot(directory, line):
        def change(run):
            for name, each in run["fleet"].items():
                each.update(machine=f"boot-{name}", kernel={"cmdline": line})

        return edit_run(directory, change)

    plain = boot(record(name="plain")[0], "BOOT_IMAGE=/vmlinuz quiet")
    coarse = boot(record(name="coarse")[0], "BOOT_IMAGE=/vmlinuz quiet highres=off")
    found = compare([ArmRuns(None, [plain]), ArmRuns(None, [coarse])])[0]["differences"]["coarse"]
    assert found == ["kernel command lines of the guests: quiet -> quiet highres=off"]
