# SPDX-License-Identifier: GPL-3.0-or-later
"""The key chooser against the formula, by chi-square over a grid. Seeds are fixed: no test is a lottery."""

from __future__ import annotations

import collections
import math
import pathlib
import subprocess

import pytest

PRINT_KEYS = pathlib.Path(__file__).parent / "build" / "print_keys"
DRAWS = 200000


def choose(seed, keys, pattern, bias, read_mix=100, draws=DRAWS):
    """What the program's chooser draws: (key, is a SET)."""
    output = subprocess.run(
        [PRINT_KEYS, str(seed), str(keys), pattern, str(bias), str(read_mix), str(draws)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    words = output.split()
    return list(zip(map(int, words[::2]), map(int, words[1::2])))


def pulled(key, keys, bias, x):
    """Where the formula moves a base key when floor(100 V) is x."""
    if bias == 0:
        return key
    g = math.exp(-((x - 50) ** 2) / (2 * bias**2))
    half = keys // 2
    if key > half:
        return key + math.trunc(g * (half - key))
    return key - math.trunc(g * (key - half))


def probabilities(keys, bias):
    """Each key's probability: every base key and every x < 100 is equally likely."""
    chances = collections.Counter()
    for key in range(keys):
        for x in range(100):
            chances[pulled(key, keys, bias, x)] += 1 / (keys * 100)
    return chances


def chi_square_deviation(observed, expected):
    """How many standard deviations chi-square is from what chance gives (Wilson and Hilferty's cube root).

    Neighbouring keys are put together until each group is expected at least ten times.
    """
    groups, seen, wanted = [], 0, 0.0
    for key in sorted(expected):
        seen += observed.get(key, 0)
        wanted += expected[key]
        if wanted >= 10:
            groups.append((seen, wanted))
            seen, wanted = 0, 0.0
    if wanted > 0 and groups:
        last = groups.pop()
        groups.append((last[0] + seen, last[1] + wanted))
    freedom = len(groups) - 1
    if freedom < 1:
        return 0.0
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in groups)
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


@pytest.mark.parametrize("keys", [1, 2, 7, 100, 1001])
@pytest.mark.parametrize("bias", [0, -1, 0.5, 2, 10, 25, 100, -25])
def test_keys_follow_the_formula(keys, bias):
    observed = collections.Counter(key for key, _is_set in choose(1, keys, "gaussian", bias))
    expected = {key: chance * DRAWS for key, chance in probabilities(keys, bias).items()}
    assert set(observed) <= set(expected)
    assert abs(chi_square_deviation(observed, expected)) < 4.5


def test_chi_square_would_notice():
    """A bell three percent wider than asked for must not pass."""
    observed = collections.Counter(key for key, _is_set in choose(1, 1001, "gaussian", 10.3))
    expected = {key: chance * DRAWS for key, chance in probabilities(1001, 10).items()}
    assert chi_square_deviation(observed, expected) > 4.5


def test_uniform_keys_are_flat_whatever_the_bias():
    observed = collections.Counter(key for key, _is_set in choose(1, 100, "uniform", 25))
    assert abs(chi_square_deviation(observed, dict.fromkeys(range(100), DRAWS / 100))) < 4.5


@pytest.mark.parametrize("read_mix, share", [(100, 0), (99, 0), (70, 0.29), (50, 0.49), (0, 0.99)])
def test_share_of_sets(read_mix, share):
    sets = sum(is_set for _key, is_set in choose(3, 1000, "gaussian", 10, read_mix))
    deviation = math.sqrt(DRAWS * share * (1 - share))
    assert abs(sets - DRAWS * share) <= 4.5 * deviation


def test_hot_set_is_that_of_the_requests_sent(solotest, filled):
    """The program replays its chooser; here the same seed's draws are simply counted."""
    report = solotest.run(
        "--json",
        "--seed",
        5,
        "--pacing",
        "none",
        "--pipeline",
        32,
        "--requests",
        50000,
        "test",
        filled.port,
        100,
        1000,
        25,
        1,
    ).json
    accesses = sorted(
        collections.Counter(key for key, dummy in choose(5, 1000, "gaussian", 25, draws=50000)).values(), reverse=True
    )
    hot = report["test"]["hot_set"]
    assert hot["accesses"] == 50000 and hot["distinct_keys"] == len(accesses)
    for name, permille in (("p50", 500), ("p90", 900), ("p99", 990)):
        covered, keys = 0, 0
        while covered < 50000 * permille // 1000:
            covered += accesses[keys]
            keys += 1
        assert hot[f"{name}_keys"] == keys and hot[f"{name}_bytes"] == keys * 100
