# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases of the throughput benchmark, and its ratios for the figures of the study of 2018."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import throughput
from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text

SETTINGS = {
    "data": "10M",
    "value_sizes": [1000, 10000, 100000],
    "stretch": 3,
    "connections": 8,
    "pipeline": 16,
    "compressibility": 0,
}


def names(steps):
    return [(step["case"], step["op"], step["value_size"]) for step in steps]


def test_the_cases_are_those_of_the_study():
    assert names(throughput.make_steps(SETTINGS)) == [
        ("empty", None, 1000),
        ("sequential", "SET", 1000),
        ("sequential", "GET", 1000),
        ("random", "SET", 1000),
        ("random", "GET", 1000),
        ("empty", None, 10000),
        ("sequential", "SET", 10000),
        ("sequential", "GET", 10000),
        ("empty", None, 100000),
        ("sequential", "SET", 100000),
        ("sequential", "GET", 100000),
        ("empty", None, 1000),
        ("cold", "SET", 1000),
        ("cold", "GET", 1000),
        ("warm-up", None, 1000),
        ("hot", "SET", 1000),
        ("hot", "GET", 1000),
    ]


def test_each_size_of_values_has_the_same_bytes_and_the_cold_case_has_more():
    steps = {(step["case"], step["op"], step["value_size"]): step for step in throughput.make_steps(SETTINGS)}

    assert [steps["sequential", "SET", size]["key_count"] for size in (1000, 10000, 100000)] == [10485, 1048, 104]
    assert steps["cold", "GET", 1000]["key_count"] == 31457
    assert steps["hot", "GET", 1000]["key_count"] == steps["sequential", "GET", 1000]["key_count"]
    assert throughput.largest(steps.values()) == 31457 * (1000 + throughput.OVERHEAD)
    assert all(step["read_mix"] == (-1 if op == "SET" else 100) for (_case, op, _size), step in steps.items() if op)


def test_without_stretch_there_are_no_cold_and_hot_cases():
    assert {case for case, _op, _size in names(throughput.make_steps({**SETTINGS, "stretch": 1}))} == {
        "empty",
        "sequential",
        "random",
    }


@pytest.mark.parametrize(
    "name, value",
    [
        ("data", "much"),
        ("data", "900K"),
        ("value_sizes", []),
        ("value_sizes", [0]),
        ("stretch", 0.5),
        ("connections", 513),
        ("pipeline", 0),
        ("compressibility", 2),
    ],
)
def test_the_message_names_a_setting_that_is_not_allowed(name, value):
    with pytest.raises(SettingError, match=f"^throughput_benchmark_{name}: "):
        throughput.make_steps({**SETTINGS, name: value})


def measured(ok=1000, seconds=2.0, cpu=1.9):
    server = {"redis_version": "7.0.15", "used_memory": 10**6, "cpu_s": 5.0}
    return {
        "latency": {"response": {"p99_us": 2000.0, "max_us": 61000.0}},
        "seconds": seconds,
        "requests": {"ok": ok},
        "server": {
            "before": server,
            "after": {**server, "used_memory": 3 * 10**6, "cpu_s": None if cpu is None else 5.0 + cpu},
        },
        "pressure": {"counters": {"pswpin": 100, "zswpin": 20}},
        "series": {"interval_s": 0.5, "points": [[400, 1, 1, 1], [300, 1, 1, 1], [300, 1, 1, 1], [0, 1, 1, 1]]},
    }


def document(profile="zram", **options):
    steps = throughput.make_steps(SETTINGS)
    return throughput.document(profile, "kvm01", steps, [measured(**options) for _step in steps], SETTINGS)


def test_figures_of_a_case():
    result = document()
    first = result["cases"][0]

    assert {
        name: first[name] for name in ("ops_per_second", "p99_ms", "max_ms", "redis_cpu_share", "page_ins_per_second")
    } == {"ops_per_second": 500.0, "p99_ms": 2.0, "max_ms": 61.0, "redis_cpu_share": 0.95, "page_ins_per_second": 60.0}
    assert len(result["cases"]) == 12 and result["doubts"] == []


def test_the_curve_starts_and_ends_with_the_memory_in_use():
    curves = {(each["case"], each["op"]): each["curve"] for each in document()["cases"]}

    assert curves["cold", "SET"] == [[1_800_000, 800.0], [2_400_000, 600.0], [3_000_000, 600.0]]
    assert all(curve is None for key, curve in curves.items() if key != ("cold", "SET"))


def test_figures_are_doubtful_if_redis_was_not_the_limit():
    assert "hot GET of 1,000 bytes: Redis had 0.50 of a CPU" in document(cpu=1.0)["doubts"][-1]
    assert document(cpu=None)["doubts"] == ["12 cases: this Redis does not report its CPU time"]


def result_of(**ops):
    """A result with the figures of cases, named case_op."""
    return {
        "cases": [
            {
                "case": name.split("_")[0],
                "op": name.split("_")[1],
                "value_size": 1000,
                "ops_per_second": value,
                "p99_ms": 2.0,
                "max_ms": 61.0,
                "redis_cpu_share": 1.0,
                "page_ins_per_second": 0.0,
                "curve": [[1e6, value]] if name == "cold_SET" else None,
            }
            for name, value in ops.items()
        ],
        "doubts": [],
    }


STUDY = {
    "dram": result_of(sequential_SET=224530, sequential_GET=232694, random_SET=215800, random_GET=229631),
    "imdt": result_of(
        sequential_SET=159887, sequential_GET=180684, cold_SET=58377, cold_GET=61206, hot_SET=184604, hot_GET=196066
    ),
}


def test_the_figures_of_the_study_give_its_ratios():
    found = {(ratio["words"], ratio["op"]): round(ratio["ratio"], 2) for ratio in throughput.ratios(STUDY)}

    assert found == {
        ("hot data", "SET"): 0.86,
        ("hot data", "GET"): 0.85,
        ("cold data", "SET"): 0.27,
        ("cold data", "GET"): 0.27,
        ("new keys", "SET"): 0.71,
    }


def test_the_first_profile_is_the_baseline_whatever_its_name():
    section = experiments.EXPERIMENTS["throughput_benchmark"]({"expected": ["imdt", "dram", "lost"], "hosts": STUDY})
    text = "\n".join(report_text.section(section))

    assert "new keys: dram reaches 140% of the SETs per second of imdt." in text
    assert "224,530" in text and "58,377" in text
    assert [each["name"] for each in section.charts[0].series] == ["imdt"]
