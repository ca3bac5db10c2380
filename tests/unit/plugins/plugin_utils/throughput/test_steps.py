# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases of the throughput benchmark: which they are, what they need, and which are left out."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.throughput import steps

SETTINGS = {
    "data": "10M",
    "value_sizes": [1000, 10000, 100000],
    "stretch": 3,
    "seconds": 2,
    "connections": 8,
    "pipeline": 16,
    "compressibility": 0,
}


def names(found):
    return [(step["case"], step["op"], step["value_size"]) for step in found]


def by_name(found):
    return {(step["case"], step["op"], step["value_size"]): step for step in found}


def test_the_cases_are_those_of_the_study():
    assert names(steps.make_steps(SETTINGS)) == [
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
        ("curve", "SET", 1000),
        ("cold", "SET", 1000),
        ("cold", "GET", 1000),
        ("warm-up", None, 1000),
        ("warm-up", None, 1000),
        ("hot", "SET", 1000),
        ("hot", "GET", 1000),
    ]


def test_cold_is_random_over_all_data_and_hot_over_a_part_as_large_as_the_data_of_the_baseline():
    found = by_name(steps.make_steps(SETTINGS))

    for op in ("SET", "GET"):
        assert {found[case, op, 1000]["pattern"] for case in ("random", "cold", "hot")} == {"uniform"}
        assert found["cold", op, 1000]["key_count"] == found["curve", "SET", 1000]["key_count"] == 31457
        assert found["hot", op, 1000]["key_count"] == found["random", op, 1000]["key_count"] == 10485
        assert {found[case, op, 1000]["duration"] for case in ("random", "cold", "hot")} == {2}
    assert found["curve", "SET", 1000]["pattern"] == "sequential" and found["curve", "SET", 1000]["duration"] is None


def test_the_hot_part_is_read_whole_and_then_at_random_before_it_is_measured():
    once, again = [step for step in steps.make_steps(SETTINGS) if step["case"] == "warm-up"]

    assert (once["pattern"], once["requests"], once["key_count"]) == ("sequential", None, 10485)
    assert (again["pattern"], again["requests"], again["key_count"]) == ("uniform", 3 * 10485, 10485)


DRAM = 40 * 2**20


def hot_keys(dram, **changed):
    settings = {**SETTINGS, **changed}
    found = by_name(steps.with_hot_part(steps.make_steps(settings), dram, settings))
    assert found["hot", "SET", 1000]["key_count"] == found["hot", "GET", 1000]["key_count"]
    assert found["cold", "GET", 1000]["key_count"] == int(2**20 * 10 * settings["stretch"]) // 1000
    return found["hot", "GET", 1000]["key_count"]


def test_the_hot_part_fills_the_dram_budget_with_a_margin():
    keys = hot_keys(str(DRAM))
    alone = steps.make_steps({**SETTINGS, "data": keys * 1000, "stretch": 1})[3]["bytes"]  # the random SETs

    assert keys > 1.3 * 10485  # more than the data
    table = 8 * 2**15  # of the keys that are not hot: random requests touch all of it
    assert alone + table == pytest.approx(steps.HOT_SHARE * DRAM, rel=0.02)


def test_the_hot_part_is_warmed_up_whatever_its_size():
    found = steps.with_hot_part(steps.make_steps(SETTINGS), str(DRAM), SETTINGS)
    once, again = [step for step in found if step["case"] == "warm-up"]

    assert (once["requests"], once["key_count"]) == (None, hot_keys(str(DRAM)))
    assert (again["requests"], again["key_count"]) == (3 * hot_keys(str(DRAM)), hot_keys(str(DRAM)))
    assert [step["bytes"] for step in found] == [step["bytes"] for step in steps.make_steps(SETTINGS)]


def test_the_size_of_the_hot_part_can_be_chosen():
    assert hot_keys("") == 10485  # without a budget, the data
    assert hot_keys(str(DRAM), hot="2M") == hot_keys("", hot="2M") == 2097
    assert hot_keys("1G") == 31457  # no more than all keys
    for wrong in ("much", "100", "100M"):
        with pytest.raises(SettingError, match="^throughput_benchmark_hot: "):
            steps.make_steps({**SETTINGS, "hot": wrong})


def test_gets_in_sequence_read_enough_and_sets_write_new_keys_only():
    found = by_name(steps.make_steps({**SETTINGS, "data": "300M"}))

    for size in SETTINGS["value_sizes"]:
        read = found["sequential", "GET", size]
        assert read["requests"] == 21 * read["key_count"]
        assert found["sequential", "SET", size]["requests"] is None
    assert (
        by_name(steps.make_steps({**SETTINGS, "data": "6G"}))["sequential", "GET", 1000]["requests"]
        == 6 * 2**30 // 1000
    )
    little = by_name(steps.make_steps({**SETTINGS, "data": "1M"}))["sequential", "GET", 1000]
    assert little["requests"] == 100 * little["key_count"], "the benchmark alone would take a minute"


def test_each_size_of_values_has_the_same_bytes():
    found = by_name(steps.make_steps(SETTINGS))

    assert [found["sequential", "SET", size]["key_count"] for size in (1000, 10000, 100000)] == [10485, 1048, 104]
    assert all(step["read_mix"] == (-1 if op == "SET" else 100) for (_case, op, _size), step in found.items() if op)


def test_the_memory_of_a_step_is_what_redis_allocates():
    """1,000 bytes take 1,024, and 1,024 bytes with their header take 1,280: measured with Redis 7."""
    sizes = {size: steps.make_steps({**SETTINGS, "value_sizes": [size]})[1] for size in (1000, 1024)}

    assert sizes[1000]["bytes"] == pytest.approx(10485 * 1096 * 1.05 + 2 * 128 * 1000 + 2**24, rel=0.01)
    assert sizes[1024]["bytes"] == pytest.approx(10240 * 1352 * 1.05 + 2 * 128 * 1024 + 2**24, rel=0.01)


def test_without_stretch_there_are_no_curve_and_no_cold_and_hot_cases():
    found = steps.make_steps({**SETTINGS, "stretch": 1})
    assert {case for case, _op, _size in names(found)} == {"empty", "sequential", "random"}


def test_cases_that_do_not_fit_are_left_out_and_named():
    found = steps.make_steps({**SETTINGS, "pipeline": 1})  # else the replies in flight need more than the values
    needed = by_name(found)["cold", "GET", 1000]["bytes"]
    fitting, left_out = steps.select(found, needed - 1)

    assert [(each["case"], each["op"]) for each in left_out] == [
        ("curve", "SET"),
        ("cold", "SET"),
        ("cold", "GET"),
        ("hot", "SET"),
        ("hot", "GET"),
    ]
    assert {each["bytes"] for each in left_out} == {needed}
    assert names(step for step in fitting if step["op"]) == names(step for step in found if step["op"])[:8]
    assert [step["index"] for step in fitting] == list(range(1, len(fitting) + 1))
    assert steps.select(found, needed) == (found, [])


def test_it_is_refused_if_no_case_fits():
    with pytest.raises(SettingError, match=r"^throughput_benchmark_data: no case fits: .* choose less data$"):
        steps.select(steps.make_steps(SETTINGS), 2**20)


def test_room_is_the_dram_budget_and_swap():
    assert steps.room(8 * 2**30, 2**30, "") == 9 * 2**30
    assert steps.room(8 * 2**30, 2**30, "2G") == 3 * 2**30
    assert steps.room(2**30, 0, "2G") == 2**30
    with pytest.raises(SettingError, match="^throughput_benchmark_dram: "):
        steps.room(2**30, 0, "much")


@pytest.mark.parametrize(
    "name, value",
    [
        ("data", "much"),
        ("data", "900K"),
        ("value_sizes", []),
        ("value_sizes", [0]),
        ("stretch", 0.5),
        ("seconds", 0),
        ("connections", 513),
        ("pipeline", 0),
        ("compressibility", 2),
    ],
)
def test_the_message_names_a_setting_that_is_not_allowed(name, value):
    with pytest.raises(SettingError, match=f"^throughput_benchmark_{name}: "):
        steps.make_steps({**SETTINGS, name: value})
