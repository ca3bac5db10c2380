# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    RANGES,
    SettingError,
    number,
    numbers,
    yes_or_no,
)


@pytest.mark.parametrize(
    "option, value, expected",
    [
        ("rate", "2500", 2500.0),
        ("rate", 0.5, 0.5),
        ("port", "65535", 65535),
        ("read_mix", 70.0, 70),
        ("influence", "-1", -1.0),
    ],
)
def test_a_number_or_its_text_will_do(option, value, expected):
    assert number(option, value) == expected


@pytest.mark.parametrize("option", sorted(RANGES))
def test_both_ends_are_allowed_and_nothing_beyond(option):
    allowed = RANGES[option]
    assert number(option, allowed.low) == allowed.low
    assert number(option, allowed.high) == allowed.high
    for beyond in (allowed.low - 1, allowed.high * 2 + 1):
        with pytest.raises(SettingError, match="out of range"):
            number(option, beyond)


@pytest.mark.parametrize("value", ["many", "", None, True, [], {}, "1.5", 1.5, "nan", float("nan"), "1e400"])
def test_a_message_names_option_value_and_range(value):
    with pytest.raises(SettingError) as caught:
        number("latency_benchmark_key_count", value, "key_count")
    assert "latency_benchmark_key_count" in str(caught.value)
    assert repr(value) in str(caught.value)
    assert "a whole number from 1 to 4,000,000,000 (keys)" in str(caught.value)


@pytest.mark.parametrize("value", ["inf", "nan", float("inf")])
def test_numbers_that_are_none_are_refused(value):
    with pytest.raises(SettingError):
        number("rate", value)


@pytest.mark.parametrize("value, expected", [([0, 10], [0, 10]), ("0,10, 25", [0, 10, 25]), (5, [5]), (["-1"], [-1])])
def test_lists(value, expected):
    assert numbers("influences", value, "influence") == expected


@pytest.mark.parametrize("value, why", [([], "empty"), ([1, 1], "twice"), ("1,x", "'x'"), ([5000], "range")])
def test_lists_that_cannot_be_used(value, why):
    with pytest.raises(SettingError, match=why):
        numbers("influences", value, "influence")


@pytest.mark.parametrize(
    "value, truth",
    [(True, True), ("true", True), ("Yes", True), (1, True), (False, False), ("no", False), ("0", False)],
)
def test_yes_or_no(value, truth):
    assert yes_or_no("stop", value) is truth


@pytest.mark.parametrize("value", ["maybe", "", None, 2])
def test_what_is_neither_yes_nor_no(value):
    with pytest.raises(SettingError, match="stop: .* is not allowed; it takes true or false"):
        yes_or_no("stop", value)
