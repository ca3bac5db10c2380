# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a case, what limited it, and the doubts that follow."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.throughput import figures

STEP = {"case": "curve", "op": "SET", "value_size": 1000, "key_count": 1000}
ABOUT = {"arm": "zram", "profile": "zram", "round": 2, "host": "kvm01", "left_out": [], "dram": "", "settings": {}}


def measured(counts=(400, 300, 300), seconds=2.0, cpu=1.9, client=0.4, page_ins=0):
    server = {"redis_version": "7.0.15", "used_memory": 10**6, "cpu_s": 5.0}
    return {
        "machine": "boot",
        "latency": {"response": {"p99_us": 2000.0, "max_us": 61000.0}},
        "seconds": seconds,
        "requests": {"ok": sum(counts)},
        "server": {
            "before": server,
            "after": {**server, "used_memory": 3 * 10**6, "cpu_s": None if cpu is None else 5.0 + cpu},
        },
        "health": {"cpu_share": client},
        "pressure": {"counters": {"pswpin": page_ins, "pswpout": 7}},
        "series": {"interval_s": 0.75, "points": [[count, 1, 1, 1] for count in counts]},
    }


def test_figures_of_a_case():
    found = figures.figures(STEP, measured(page_ins=120))

    assert {
        name: found[name]
        for name in ("ops_per_second", "p99_ms", "max_ms", "redis_cpu_share", "page_ins", "page_outs", "requests")
    } == {
        "ops_per_second": 500.0,
        "p99_ms": 2.0,
        "max_ms": 61.0,
        "redis_cpu_share": 0.95,
        "page_ins": 120,
        "page_outs": 7,
        "requests": 1000,
    }


@pytest.mark.parametrize(
    "options, limit",
    [
        ({"cpu": 2.0}, "Redis"),
        ({"cpu": 1.0, "page_ins": 10, "counts": (4000, 3000, 3000)}, "memory"),
        ({"cpu": 1.0, "page_ins": 9, "counts": (4000, 3000, 3000)}, "unknown"),
        ({"cpu": 1.0, "page_ins": 1, "client": 0.99, "counts": (4000, 3000, 3000)}, "client"),
        ({"cpu": 1.0, "client": 0.99}, "client"),
        ({"cpu": 1.0}, "unknown"),
        ({"cpu": None, "page_ins": 10}, "unknown"),
    ],
)
def test_what_limited_a_case(options, limit):
    assert figures.figures(STEP, measured(**options))["limit"] == limit


def test_figures_are_doubtful_if_redis_was_not_the_limit():
    def doubts(**options):
        return figures.doubts([figures.cell(ABOUT, [STEP], [measured(**options)])])

    assert doubts() == []
    assert doubts(cpu=1.0, page_ins=1) == []
    assert doubts(cpu=1.0, client=0.99) == [
        "round 2, curve SET of 1,000 bytes: Redis had 0.50 of a CPU, 0.95 is needed, and the client was the limit"
    ]
    assert "does not report its CPU time" in doubts(cpu=None)[0]


def doubts_of(name, **options):
    return figures.doubts([figures.cell(ABOUT, [{**STEP, "case": name}], [measured(**options)])])


def test_hot_requests_that_page_in_are_doubtful():
    assert doubts_of("hot") == doubts_of("cold", page_ins=300) == []
    assert doubts_of("hot", page_ins=3, counts=(1999, 1999, 2)) == []
    assert doubts_of("hot", page_ins=4, counts=(1999, 1999, 2)) == [
        "round 2, hot SET of 1,000 bytes: 1.0 page-ins per 1,000 requests, so the part was not hot; choose a smaller "
        "throughput_benchmark_hot"
    ]


def test_a_short_case_is_doubtful_once_for_all_rounds():
    rounds = [
        figures.cell({**ABOUT, "round": number}, [STEP], [measured(seconds=seconds, cpu=seconds)])
        for number, seconds in enumerate((0.5, 0.25, 1.5))
    ]
    assert figures.doubts(rounds) == [
        "curve SET of 1,000 bytes: took 0.25 s, 1 s are needed; choose more throughput_benchmark_data"
    ]
    assert figures.doubts(rounds[2:]) == []


def test_the_stolen_share_is_that_of_all_cpus_while_the_client_ran():
    results = [measured(seconds=2.0), measured(seconds=3.0)]
    for each, ticks in zip(results, (4, 6)):
        each["health"]["steal_ticks"] = ticks

    assert figures.cell({**ABOUT, "cpus": "2"}, [STEP, STEP], results)["stolen"] == 0.01
    assert figures.cell(ABOUT, [STEP, STEP], results)["stolen"] is None
    assert figures.cell({**ABOUT, "cpus": 2}, [STEP], [measured()])["stolen"] is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_without_the_memory_before_and_after_there_is_no_curve(when):
    result = measured()
    result["server"][when] = None
    assert figures.figures(STEP, result)["curve"] is None
    result["server"][when] = {"cpu_s": None, "used_memory": None}
    assert figures.figures(STEP, result)["curve"] is None


def test_rounds_that_were_measured_on_different_boots_are_doubtful():
    first = figures.cell(ABOUT, [STEP], [measured()])
    assert figures.doubts([first, {**first, "machine": "another"}]) == [
        "the boot of the host is not the same in all rounds"
    ]


def test_the_curve_has_equal_steps_of_memory():
    curve = figures.figures(STEP, measured())["curve"]

    assert len(curve) == figures.CURVE_POINTS
    assert curve[0][0] == round(10**6 + 2 * 10**6 / 24) and curve[-1][0] == 3 * 10**6
    # The first 400 keys took 0.75 s, the next 300 as long, and the last 300 the rest of 2 s, 0.5 s.
    assert curve[0][1] == pytest.approx(400 / 0.75, rel=0.01)
    assert curve[12][1] == pytest.approx(300 / 0.75, rel=0.01)
    assert curve[-1][1] == pytest.approx(300 / 0.5, rel=0.01)


def test_a_stall_is_in_the_curve():
    """Nothing was written for 1.5 s."""
    rates = [rate for _used, rate in figures.figures(STEP, measured((500, 0, 0, 500), seconds=3.0))["curve"]]
    assert min(rates) < 100 < 600 < max(rates)


def test_only_sequential_writes_have_a_curve():
    assert figures.figures({**STEP, "case": "cold"}, measured())["curve"] is None
    assert figures.figures({**STEP, "op": "GET"}, measured())["curve"] is None


def test_rounds_are_brought_together_in_their_order():
    cells = {
        figures.cell_name(arm, number): figures.cell({**ABOUT, "arm": arm, "round": number}, [STEP], [measured()])
        for arm, number in (("zram", 2), ("dram", 1), ("zram", 1), ("dram", 2))
    }
    assert {arm: [each["round"] for each in found["rounds"]] for arm, found in figures.by_arm(cells).items()} == {
        "dram": [1, 2],
        "zram": [1, 2],
    }
