# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import summarise


def test_the_final_table(record):
    directory = record()[0]
    text = "\n".join(report_text.table(summarise(directory), directory.path))
    assert "Verdict: PASS (host not tuned)" in text
    assert "indicative" in text
    assert "3 of 3" in text
    assert "Service time as the brief of 2018 gives it" in text


@pytest.mark.parametrize(
    "slo, sentence",
    [
        ({"avg_us": 55.7, "p99_us": 289}, "SLO: avg <= 55.7 us and p99 <= 289 us for every host"),
        ({"avg_us": 1e9, "p99_us": 1e9}, "SLO: none, this run only measures"),
        ({"avg_us": 1e9, "p99_us": 300}, "SLO: avg <= 1e+09 us and p99 <= 300 us for every host"),
    ],
)
def test_the_objective(record, slo, sentence):
    directory = record()[0]
    lines = report_text.table({**summarise(directory), "slo": slo}, directory.path)
    assert [line for line in lines if line.startswith("SLO")] == [f"{sentence}; fewer than 10 iterations: indicative"]


@pytest.mark.parametrize("seconds, text", [(0, "0:00"), (65, "1:05"), (7265.4, "2:01:05"), (-3, "0:00")])
def test_durations(seconds, text):
    assert report_text.clock(seconds) == text
