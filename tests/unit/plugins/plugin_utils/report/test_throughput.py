# SPDX-License-Identifier: GPL-3.0-or-later
"""How results of the throughput benchmark are shown, and compared when they were measured apart."""

from __future__ import annotations

import random

import pytest
from synthetic_throughput import SAME, STUDY, arm, case, study

from ansible_collections.memstretch.density.plugins.plugin_utils.report import (
    experiments,
    html,
    throughput_comparison,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError


def document(arms, measured_at=1.0):
    return {"expected": list(arms), "failed": [], "hosts": arms, "measured_at": measured_at}


def shown(arms):
    return experiments.EXPERIMENTS["throughput_benchmark"](document(arms))


def table(section, title):
    return next(each for each in section.tables if each.title.startswith(title))


def test_the_answer_is_one_sentence_on_top():
    section = shown(study(random.Random(1), spread=0.0))

    assert section.answer == (
        "Of the operations per second of dram, zram reaches 85 % (85 to 85) of the SETs and 85 % (85 to 85) of the "
        "GETs for hot data, 27 % (27 to 27) of the SETs and 27 % (27 to 27) of the GETs for cold data."
    )
    assert report_text.section(section)[2] == section.answer
    page = html.experiments_page("big", [section])
    assert page.index(section.answer) < page.index("<table")


def test_the_figures_of_the_source_are_next_to_ours():
    section = shown(study(random.Random(1), spread=0.0))

    ratios = {row[:2]: (row[3], row[4]) for row in table(section, "throughput compared").rows}
    assert ratios["cold data", "GET"] == ("27 % (27 to 27)", "27 %")
    assert ratios["reading them", "GET"][1] == "80 %"
    assert ratios["writing new keys, also beyond DRAM", "SET"][1] == "-"
    cases = {(row[0], row[1], row[3]): row[-2:] for row in table(section, "throughput of one").rows}
    assert cases["hot", "SET", "zram"] == ("-", "184,604")
    assert cases["sequential", "GET", "dram"] == ("232,694", "180,684")


def test_what_is_left_out_is_named_and_page_ins_are_the_proof():
    sentences = " ".join(shown(study(random.Random(2))).sentences)

    assert (
        "dram: left out, because Redis would need 953.7 MiB: curve SET, cold SET, cold GET, hot SET, hot GET."
        in sentences
    )
    assert "zram: 500.0 page-ins per 1,000 cold requests, 0.0 page-ins per 1,000 hot requests." in sentences


def test_the_control_is_shown_and_a_control_that_differs_is_a_doubt():
    sound = shown(study(random.Random(3), spread=0.0, effects={**STUDY, **SAME}))
    assert "Control: 4 cases moved no page to or from swap" in " ".join(sound.sentences)
    assert len(table(sound, "control").rows) == 4 and sound.doubts == []

    differs = shown(study(random.Random(3), spread=0.01))
    assert "THEY DIFFER" in " ".join(differs.sentences)
    assert any(text.startswith("the control differs") for text in differs.doubts)


def test_cold_cases_without_page_ins_are_a_doubt():
    arms = study(random.Random(4))
    arms["zram"] = arm("zram", STUDY, [1.0] * 3, lambda: 1.0, pages=False)
    assert any(text.startswith("zram: cold requests paged nothing in") for text in shown(arms).doubts)


def test_a_page_in_by_chance_does_not_make_requests_cold():
    arms = study(random.Random(4))
    for each in arms["zram"]["rounds"]:
        for one in each["cases"]:
            one["page_ins"] = min(one["page_ins"], 999)
    assert any(text.startswith("zram: cold requests paged nothing in") for text in shown(arms).doubts)
    for each in arms["zram"]["rounds"]:
        for one in each["cases"]:
            one["page_ins"] += one["page_ins"] > 0
    assert shown(arms).doubts == shown(study(random.Random(4))).doubts


def test_the_text_says_where_it_comes_from():
    arms = study(random.Random(4))
    for number, one in enumerate(each for measured in arms.values() for each in measured["rounds"]):
        one.update(date="2026-01-03" if number else "2026-01-02", stolen=0.001 * number)
    section = shown(arms)

    assert (
        "Measured on 2026-01-02: Xeon, Linux 6.18, Redis 7.0.15; 0.25 % of the CPU time was stolen."
        in section.sentences
    )


def test_the_cpu_of_redis_is_shown_and_too_little_of_it_is_a_doubt():
    arms = study(random.Random(5))
    arms["dram"]["rounds"][1]["cases"][0] = case("sequential", "SET", 1e5, redis_cpu_share=0.7, limit="unknown")
    section = shown(arms)

    assert "dram, round 2, sequential SET of 1,000 bytes: Redis had 0.70 of a CPU, 0.95 is needed" in section.doubts
    row = next(row for row in table(section, "throughput of one").rows if row[:2] == ("sequential", "SET"))
    headings = table(section, "throughput of one").headings
    shown_as = dict(zip(headings, row))
    assert (shown_as["Redis CPU"], shown_as["client CPU"], shown_as["limit"]) == ("0.70", "0.50", "Redis, unknown")
    assert float(shown_as["seconds"]) == pytest.approx(10**6 / 224_530, rel=0.6)


def test_two_rounds_are_indicative():
    assert any("fewer than 3 rounds" in text for text in shown(study(random.Random(6), rounds=2)).sentences)


def test_one_profile_has_no_answer_and_its_figures():
    section = shown({"dram": study(random.Random(7))["dram"]})
    assert section.answer == "There is nothing to compare: dram was measured, and a comparison needs two profiles."
    assert len(table(section, "throughput of one").rows) == 4


def test_the_first_profile_is_the_baseline_whatever_its_name():
    arms = study(random.Random(8), spread=0.0)
    section = shown({"zram": arms["zram"], "dram": arms["dram"]})
    assert section.answer.startswith("Of the operations per second of zram, dram reaches 143 %")


def test_the_chart_has_a_line_for_each_profile_and_its_units():
    chart = shown(study(random.Random(9))).charts[0]
    assert [each["name"] for each in chart.series] == ["dram", "zram"]
    assert (chart.x, chart.y) == ("memory in use, MB", "SETs per second")
    assert [each["points"][-1][0] for each in chart.series] == [1200.0, 7200.0]


@pytest.fixture
def two_machines(tmp_path):
    """Machine B has DRAM alone, machine A stretched memory."""
    for name, arms in (
        ("b", {"dram": arm("dram", SAME, [1.0, 1.01, 0.99], lambda: 1.0, "boot b", "b")}),
        ("a", {"imdt": arm("imdt", STUDY, [1.02, 1.0, 1.01], lambda: 1.0, "boot a", "a")}),
    ):
        experiments.keep(RunDirectory(str(tmp_path), name), "throughput_benchmark", document(arms))
    return tmp_path


def test_results_of_two_machines_are_compared(two_machines):
    compared = throughput_comparison.measured(str(two_machines), ["b", "a"])
    directory, lines = RunDirectory(str(two_machines), "both"), []
    throughput_comparison.publish(directory, compared, lines.append, write=True)

    text = "\n".join(lines)
    assert "Of the operations per second of dram, imdt reaches 86 % (84 to 88) of the SETs" in text
    assert "The profiles were measured with different hosts (b, a)." in text
    assert "There is no control" in text
    assert (two_machines / "both" / "report.html").exists()
    assert not throughput_comparison.publish(directory, compared, lines.append, write=True)[1]


def test_results_with_the_same_profiles_get_the_name_of_their_run(two_machines):
    other = RunDirectory(str(two_machines), "c")
    experiments.keep(other, "throughput_benchmark", document({"dram": arm("dram", SAME, [1.0] * 3, lambda: 1.0)}))
    compared = throughput_comparison.measured(str(two_machines), ["b", "c"])
    assert throughput_comparison.combined(compared)["expected"] == ["b/dram", "c/dram"]


def test_a_comparison_neither_mixes_kinds_nor_replaces_a_result(two_machines):
    path = str(two_machines)
    (two_machines / "run").mkdir()
    (two_machines / "run" / "run.json").write_text("{}", encoding="utf-8")

    assert throughput_comparison.measured(path, ["run", "run"]) == []
    with pytest.raises(RunError, match="^runs: a has a result of throughput_benchmark and no run, the others do not"):
        throughput_comparison.measured(path, ["run", "a"])
    with pytest.raises(RunError, match="^runs: a, a; a comparison needs different results"):
        throughput_comparison.measured(path, ["a", "a"])
    compared = throughput_comparison.measured(path, ["b", "a"])
    with pytest.raises(RunError, match="^comparison: a is a measured result"):
        throughput_comparison.publish(RunDirectory(path, "a"), compared, print, write=True)
