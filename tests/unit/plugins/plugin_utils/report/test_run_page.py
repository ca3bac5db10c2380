# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.report import run_page
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import unsteady


@pytest.mark.parametrize(
    "later, sentence",
    [
        (20, "No cell left its steady state. The smallest change that would be noticed: the average 5 %, the p99 5 %."),
        (
            26,
            "influence 0, 100 % GET: not in a steady state; the average rose by 30 % in a step at 50 % of iteration 1.",
        ),
    ],
)
def test_the_page_tells_whether_latency_was_steady(record, later, sentence):
    points = [[100, 20 if at < 30 else later, 60, 90] for at in range(60)]
    directory = record(lambda phase, host, result: {**result, "series": {"interval_s": 0.1, "points": points}})[0]
    summary = publish(directory, lambda line: None)[0]
    assert summary["cells"][0]["steady"]["avg_us"]["steady"] == (later == 20)
    assert summary["verdict"] == "pass", "it is a warning"
    assert sentence in pathlib.Path(directory.path, "report.html").read_text(encoding="utf-8")
    text = pathlib.Path(directory.path, "report.txt").read_text(encoding="utf-8")
    assert (f"Warning: {sentence}" in text) == (later != 20)


def test_page_ins_that_changed_are_named():
    rose = {"steady": False, "change": 0.2, "step_at": None, "p_value": 0.0, "smallest_change": 0.1}
    steady = {"page_ins_within": {**rose, "iteration": 2}, "page_ins": {**rose, "change": -0.4}}
    cell = {"influence": 0, "read_mix": 100, "steady": {"avg_us": None, **steady}}
    assert unsteady([cell]) == [
        "influence 0, 100 % GET: not in a steady state; page-ins per second rose by 20 % during iteration 2.",
        "influence 0, 100 % GET: not in a steady state; the page-ins of an iteration fell by 40 % from the first to "
        "the last iteration.",
    ]


@pytest.mark.parametrize(
    ("shares", "fine", "text"),
    [
        ([0, 0], True, "No CPU time was stolen by a hypervisor."),
        ([], True, "No CPU time was stolen by a hypervisor."),
        ([0.0001, 0.001], True, "stole up to 0.1 % of the time of a CPU in an iteration; up to 0.1 % is too little"),
        ([0.02, 0.0011, 0], False, "stole up to 2 % of the time of a CPU in an iteration, which may explain a part of"),
        ([0.0011], False, "stole up to 0.11 % of the time"),
    ],
)
def test_only_stolen_time_that_can_change_a_p99_is_a_doubt(shares, fine, text):
    is_fine, sentence = run_page._stolen_time([{"stolen": share} for share in shares])
    assert is_fine is fine and text in sentence, sentence
