# SPDX-License-Identifier: GPL-3.0-or-later
"""What followed when all servers of a held fleet were touched at once."""

from __future__ import annotations

import random

import pytest
from synthetic_ramps import dram, ramp, tier

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.touched import touched
from ansible_collections.memstretch.density.plugins.plugin_utils.density.windows import windows

from .judging import ROUNDS, judged

IDLE_US, REQUESTS = 60.0, 3000


def second(chance, times):
    """What a fleet has answered in a second, so many times as slow as idle DRAM; nothing if that is None."""
    values = [
        round(1000 * IDLE_US * (times or 1) * (0.6 + 0.4 * chance.expovariate(1)))
        for _number in range(REQUESTS if times else 0)
    ]
    return dict.fromkeys(("upper", "lower", "punctual"), Histogram.from_values(values).figures())


def held(times, beside=1):
    """A hold of 20 servers, then seconds in which they and the references beside are so many times as slow.

    None: nobody answers.
    """
    chance = random.Random(1)
    record = ramp("zram", 1, [20, 20, 20], kind="hold")
    for window in record["windows"][1:]:
        window["kind"] = "hold"
    seconds = [{"fleet": second(chance, each), "references": second(chance, beside)} for each in times]
    return {**record, "touch": {"n": 20, "started_at": 1.0, "touched_seconds": 0.8, "seconds": seconds}}


def found(times, beside=1):
    record = held(times, beside)
    return touched(record, windows(record)[1:])


@pytest.mark.parametrize(
    ("times", "back"),
    [
        ([9, 5, 3, 1, 1, 1, 1], 3),
        ([None, None, 9, 1, 1, 1], 3),
        ([9, 1, 9, 9, 1, 1, 1], 4),
        ([1, 1, 1, 1], 0),
        ([9, 9, 9, 9, 9], None),
        ([9, 1, 1], None),
    ],
)
def test_the_p99_is_back_when_it_stays_near_what_it_was(times, back):
    answer = found(times)
    assert answer["back_seconds"] == back and answer["seconds"] == len(times)
    slowest = max(each for each in times if each)
    assert answer["worst_p99_us"] == pytest.approx(slowest * answer["before_p99_us"], rel=0.25)


@pytest.mark.parametrize(("beside", "back"), [(1.6, 1), (1, None)])
def test_what_slows_the_references_too_is_not_of_the_touch(beside, back):
    assert found([200, *[1.6] * 5], beside)["back_seconds"] == back


def test_a_touch_that_slows_the_references_as_much_is_not_over():
    assert found([200, *[9] * 5], 9)["back_seconds"] is None


def test_servers_that_never_answer_have_no_p99():
    answer = found([None, None, None])
    assert answer["worst_p99_us"] is None and answer["back_seconds"] is None


def test_a_hold_without_a_touch_or_without_a_clean_window_says_nothing():
    record = held([9, 1, 1, 1])
    assert touched({**record, "touch": None}, windows(record)) is None
    assert touched(record, []) is None


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([9, 1, 1, 1], " us at worst, and was back after 1 s"),
        ([9, 2, None, None, None, None], " us at worst, and there was no answer after 6 s"),
        ([None] * 4, "met the objective. When all its servers were touched at once, none answered within 4 s"),
    ],
)
def test_the_note_of_a_hold_says_when_it_was_over(times, words):
    notes = sentence.notes(judged([*dram(ROUNDS), *tier("zram", ROUNDS, 28.5), held(times)]))
    (note,) = [note for note in notes if "held for longer" in note]
    assert note.startswith("zram: held for longer, a fleet of 20 met the objective. When all its") and words in note


def test_the_note_of_a_hold_says_what_is_left_in_the_end():
    touched_hold = held([200, *[2] * 20])
    end = found([200, *[2] * 20])["end_p99_us"]
    assert end == pytest.approx(2 * found([1])["before_p99_us"], rel=0.25)
    notes = sentence.notes(judged([*dram(ROUNDS), *tier("zram", ROUNDS, 28.5), touched_hold]))
    (note,) = [note for note in notes if "held for longer" in note]
    assert note.endswith(f" us at worst, and was still {end:,.0f} after 21 s")
