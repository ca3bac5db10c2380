# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    SettingError,
    check_numbers,
    number,
    numbers,
    size_in_bytes,
    size_text,
    yes_or_no,
)

KEYS = Range(int, 1, 4_000_000_000, "keys")
RATE = Range(float, 0.001, 10_000_000, "requests per second")
BIAS = Range(float, -1000, 1000, "influence")


@pytest.mark.parametrize(
    "allowed, value, expected",
    [
        (RATE, "2500", 2500.0),
        (RATE, 0.5, 0.5),
        (KEYS, "65535", 65535),
        (KEYS, 70.0, 70),
        (BIAS, "-1", -1.0),
    ],
)
def test_a_number_or_its_text_is_accepted(allowed, value, expected):
    found = number("option", value, allowed)

    assert found == expected and isinstance(found, allowed.kind)


@pytest.mark.parametrize("allowed", [KEYS, RATE, BIAS])
def test_both_ends_are_allowed_and_nothing_beyond(allowed):
    assert number("option", allowed.low, allowed) == allowed.low
    assert number("option", allowed.high, allowed) == allowed.high
    for beyond in (allowed.low - 1, allowed.high + 1):
        with pytest.raises(SettingError, match="option: .* is out of range"):
            number("option", beyond, allowed)


@pytest.mark.parametrize("value", ["many", "", None, True, [], {}, "1.5", 1.5, "nan", float("nan"), "1e400"])
def test_a_message_names_option_value_and_range(value):
    with pytest.raises(SettingError) as caught:
        number("latency_benchmark_key_count", value, KEYS)
    assert "latency_benchmark_key_count" in str(caught.value)
    assert repr(value) in str(caught.value)
    assert "a whole number from 1 to 4,000,000,000 (keys)" in str(caught.value)


@pytest.mark.parametrize("value", ["inf", "nan", float("inf")])
def test_infinity_and_nan_are_refused(value):
    with pytest.raises(SettingError):
        number("rate", value, RATE)


@pytest.mark.parametrize("value, expected", [([0, 10], [0, 10]), ("0,10, 25", [0, 10, 25]), (5, [5]), (["-1"], [-1])])
def test_lists(value, expected):
    assert numbers("influences", value, BIAS) == expected


@pytest.mark.parametrize("value, why", [([], "empty"), ([1, 1], "twice"), ("1,x", "'x'"), ([5000], "range")])
def test_lists_that_are_refused(value, why):
    with pytest.raises(SettingError, match=f"influences: .*{why}"):
        numbers("influences", value, BIAS)


def test_a_table_of_ranges_checks_its_options_only():
    given = {"keys": "7", "rate": 5, "name": "any"}

    assert check_numbers(given, {"keys": KEYS, "rate": RATE}) == {"keys": 7, "rate": 5.0}
    with pytest.raises(SettingError, match="^benchmark_rate: 0 is out of range"):
        check_numbers({**given, "rate": 0}, {"keys": KEYS, "rate": RATE}, "benchmark_")


@pytest.mark.parametrize(
    "value, truth",
    [(True, True), ("true", True), ("Yes", True), (1, True), (False, False), ("no", False), ("0", False)],
)
def test_yes_or_no(value, truth):
    assert yes_or_no("stop", value) is truth


@pytest.mark.parametrize("value", ["maybe", "", None, 2])
def test_neither_yes_nor_no(value):
    with pytest.raises(SettingError, match="stop: .* is not allowed; it must be true or false"):
        yes_or_no("stop", value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        (4096, 4096),
        ("1K", 1024),
        ("1k", 1024),
        ("1.5G", 3 * 2**29),
        ("1GiB", 2**30),
        ("1 GB", 2**30),
        ("2T", 2**41),
        ("10B", 10),
    ],
)
def test_sizes(text, size):
    assert size_in_bytes("option", text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1X", "1.G", "ten", "50%", "1e9", None])
def test_sizes_that_are_refused(text):
    with pytest.raises(
        SettingError, match="^option: .* is not a size; it must be bytes, or a number with K, M, G or T"
    ):
        size_in_bytes("option", text)


def test_a_share_of_a_total():
    assert size_in_bytes("option", "50%", 8 * 2**30) == 4 * 2**30
    with pytest.raises(SettingError, match="or a share of the memory such as 50%"):
        size_in_bytes("option", "half", 8 * 2**30)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (128 * 2**20, "128 MiB"), (375083606016, "349.3 GiB"), (2**50, "1024 TiB")],
)
def test_sizes_as_text(size, text):
    assert size_text(size) == text
