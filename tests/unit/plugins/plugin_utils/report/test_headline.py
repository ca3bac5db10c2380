# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.report import headline
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import Section

SLO = {"avg_us": 50, "p99_us": 300}


def cell(answer, upper, lower=None, within=2, influence=0, lost=0):
    """Return a cell of a summary, with the average and the p99 of both bounds of its worst host."""
    bounds = [dict(zip(("avg_us", "p99_us"), bound)) for bound in (upper, lower or upper)]
    worst = {"name": f"vm{influence}", "answer": answer, "upper": bounds[0], "lower": bounds[1], "lost": lost}
    return {"influence": influence, "read_mix": 70, "hosts_within_slo": within, "worst_host": worst}


def summary(verdict, *cells, expected=3, failed=(), killed=0, reasons=()):
    return {
        "verdict": verdict,
        "slo": SLO,
        "fleet": {"expected": expected, "failed": list(failed), "killed": killed},
        "reasons": list(reasons),
        "cells": list(cells),
    }


@pytest.mark.parametrize(
    "found, sentence",
    [
        (
            summary("pass", cell("pass", (20, 240)), cell("pass", (45, 150), influence=10)),
            "All 3 hosts meet the SLO: the worst, vm10, has an average of 45.0 µs, 90 % of the 50.0 µs allowed",
        ),
        (
            summary("pass", cell("pass", (20, 240)), expected=1),
            "The host meets the SLO: it has a p99 of 240 µs, 80 % of the 300 µs allowed",
        ),
        (
            summary("pass", cell("pass", (0.4, 2)), expected=1),
            "The host meets the SLO: it has an average of 0.4 µs, far below what is allowed",
        ),
        (
            summary("fail", cell("fail", (20, 900), (15, 630)), cell("undecided", (20, 2000), (9, 90), influence=10)),
            "vm0 misses the SLO: it has a p99 of at least 630 µs, 2.1 times the 300 µs allowed; 2 of 3 hosts meet it "
            "in this cell",
        ),
        (
            summary("fail", cell("fail", (60, 100)), expected=1),
            "vm0 misses the SLO: it has an average of at least 60.0 µs, 1.20 times the 50.0 µs allowed",
        ),
        (summary("fail", failed=["a", "b"]), "The SLO is missed: a and b died under the load"),
        (
            summary("fail", failed=["a", "b"], killed=2),
            "The SLO is missed: 2 hosts do not fit: the kernel killed a and b for lack of memory",
        ),
        (
            summary("fail", failed=["a", "b"], killed=1),
            "The SLO is missed: a and b died under the load: the kernel killed 1 of them for lack of memory",
        ),
        (
            summary("fail", cell("pass", (20, 310)), reasons=["influence 0: all hosts together miss the SLO; no host"]),
            "influence 0: all hosts together miss the SLO",
        ),
        (
            summary("undecided", cell("undecided", (20, 450), (15, 90))),
            "Undecided for vm0: with every delay it has a p99 of 450 µs, 1.50 times the 300 µs allowed, without those "
            "of the client it may meet the SLO; 2 of 3 hosts meet it in this cell",
        ),
        (
            summary("undecided", cell("undecided", (20, 90), lost=1), expected=1),
            "Undecided for vm0: 1 request got no reply",
        ),
        (
            summary("invalid", cell("pass", (20, 240)), reasons=["overlap 0.5 in phase 3; see the log. Repeat it"]),
            "This run cannot be judged: overlap 0.5 in phase 3",
        ),
        (summary("fail"), "No host was measured"),
    ],
)
def test_a_run_has_its_verdict_with_the_figure_that_decides(found, sentence):
    assert headline.run(found).replace("\u00a0", " ") == sentence


@pytest.mark.parametrize(
    "average, share",
    [(20, "240 µs, far below what is allowed"), (999_000, "far below what"), (1_000_000, "1 % of the 100,000,000 µs")],
)
def test_a_figure_far_below_a_wide_limit_is_never_0_percent_of_it(average, share):
    wide = {**summary("pass", cell("pass", (average, 240))), "slo": dict.fromkeys(SLO, 100_000_000)}
    said = headline.run(wide).replace("\u00a0", " ")
    assert share in said and " 0 %" not in said


def row(run_id, influence, ratio, interval=None, valid=True):
    return {
        "run_id": run_id,
        "valid": valid,
        "influence": influence,
        "read_mix": 100,
        "ratio": {"avg_us": 1.0, "p99_us": ratio},
        "ratio_interval": interval and {"p99_us": interval},
    }


def compared(*rows):
    names = ("dram-1", "swap-1", "zram-1")
    runs = [{"run_id": name, "name": name.partition("-")[0], "verdict": "pass"} for name in names]
    baseline = [row("dram-1", influence, 1.0) for influence in sorted({0, *(each["influence"] for each in rows)})]
    return {"baseline": "dram-1", "runs": runs, "cells": [*baseline, *rows]}


@pytest.mark.parametrize(
    "rows, sentence",
    [
        (
            [row("swap-1", 0, 4.0, [3.5, 4.6]), row("zram-1", 0, 1.2, [1.1, 1.3])],
            "swap is slower than dram: 4.00 times its p99 (3.50 to 4.60) in influence 0, 100 % GET",
        ),
        (
            [row("swap-1", 0, 0.2), row("swap-1", 10, 1.1)],
            "swap is faster than dram: 0.20 times its p99 (indicative) in the cell where they differ most (influence "
            "0, 100 % GET)",
        ),
        (
            # A large ratio whose interval includes 1 is not a difference; a smaller one may be.
            [row("swap-1", 0, 3.0, [0.5, 18.0]), row("swap-1", 10, 1.5, [1.2, 1.9])],
            "swap is slower than dram: 1.50 times its p99 (1.20 to 1.90) in the cell where they differ most (influence "
            "10, 100 % GET)",
        ),
        (
            [row("swap-1", 0, 1.02, [0.9, 1.15])],
            "swap and dram do not differ significantly: a p99 of 1.02 times (0.90 to 1.15) in influence 0, 100 % GET",
        ),
        ([], "No other arm has a valid measurement in a cell of the baseline"),
    ],
)
def test_a_comparison_names_the_arm_that_differs_most(rows, sentence):
    assert headline.comparison(compared(*rows)) == sentence


def test_an_invalid_run_is_not_compared():
    invalid, valid = row("swap-1", 0, 9.0, [8.0, 9.9], valid=False), row("zram-1", 0, 1.2, [1.1, 1.3])
    assert headline.comparison(compared(invalid, valid)).startswith("zram is slower than dram: 1.20 times")
    assert headline.comparison(compared(invalid)) == "No other arm has a valid measurement in a cell of the baseline"
    document = compared(valid)
    document["runs"][0]["verdict"] = "invalid"
    assert headline.comparison(document) == "Nothing can be compared: the runs of dram are not valid"


def test_each_arm_of_a_comparison_has_its_sentence():
    document = compared(row("swap-1", 0, 4.0, [3.5, 4.6]), row("zram-1", 0, 1.2))
    sentences = [headline.arm(document, run) for run in document["runs"]]
    assert sentences[0] == "" and sentences[1].startswith("swap is slower")
    assert sentences[2] == "zram is slower than dram: 1.20 times its p99 (indicative) in influence 0, 100 % GET"


def test_an_experiment_answers_in_a_sentence():
    silent = Section("a", "Memory bandwidth", [], [], [], [])
    answering = Section("b", "Throughput", [], [], [], [], answer="zram reaches 80 %.")
    assert headline.experiments([answering, silent]) == "zram reaches 80 %."
    assert headline.experiments([silent]) == "Memory bandwidth: measured"
