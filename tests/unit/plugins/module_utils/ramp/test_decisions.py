# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ramp decides from figures alone."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp import decisions
from ansible_collections.memstretch.density.plugins.module_utils.ramp.decisions import (
    Curve,
    Figures,
    Idle,
    Kills,
    Misses,
)

US = 1000.0
QUIET = Figures(100 * US, 200 * US, 90 * US, 180 * US, page_ins=1000.0, tier_cpu=0.1)
RELATIVE = {"kind": "relative", "factor": 2.0, "plateau": None}
PLATEAU = {"avg_us": 30, "p99_us": 120, "fits": 19}
IN_NS = 30 * US, 120 * US


def figures(**changes):
    return QUIET._replace(**changes)


@pytest.mark.parametrize(
    ("page_ins", "page_outs", "steady"),
    [(0, 0, True), (0, 90, True), (0, 110, False), (1000, 1190, True), (1000, 1210, False), (5000, 0, True)],
)
def test_reclaim_is_steady_once_no_more_goes_out_than_comes_in(page_ins, page_outs, steady):
    assert decisions.is_steady(page_ins, page_outs) is steady


@pytest.mark.parametrize(
    ("ticks", "share", "why"),
    [(0, 0.0, ""), (1, 0.01, ""), (2, 0.002, ""), (2, 0.005, "0.5 % of a CPU stolen"), (9, None, "")],
    ids=["none", "one tick says nothing", "below the limit", "above it", "unknown"],
)
def test_a_window_with_stolen_time_is_disturbed(ticks, share, why):
    assert decisions.disturbed({"stolen_ticks": ticks, "stolen_cpu": share}, 0.0025) == why


@pytest.mark.parametrize(
    ("most", "waited", "looks"), [(5, 0, 5), (5, 299, 5), (5, 300, 2), (1, 300, 1)], ids=["new", "hope", "none", "one"]
)
def test_a_machine_that_was_never_quiet_is_not_looked_at_again_and_again(most, waited, looks):
    assert decisions.looks(most, waited, 300) == looks


def curve(windows=3):
    found = Curve()
    for _window in range(windows):
        found.add(20, QUIET, False)
    return found


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (QUIET, False),
        (figures(reference_avg=115 * US, reference_p99=280 * US), False),
        (figures(reference_p99=300 * US), True),
        (figures(reference_avg=120 * US), True),
        (figures(reference_p99=900 * US, page_ins=2100.0), False),
        (figures(reference_p99=900 * US, page_ins=1400.0), True),
        (figures(reference_p99=900 * US, tier_cpu=0.25), False),
        (figures(reference_avg=None, reference_p99=None), False),
    ],
    ids=["same", "its noise", "p99", "average", "page-ins explain it", "too few page-ins", "tier explains it", "none"],
)
def test_references_that_leave_their_curve_without_the_tier_are_a_disturbance(now, left):
    assert bool(curve().left(20, now)) is left


def test_a_curve_needs_some_windows_before_anything_can_leave_it():
    assert not curve(2).left(20, figures(reference_avg=900 * US))


def test_a_curve_says_nothing_about_a_fleet_that_is_much_larger():
    slower = figures(reference_avg=150 * US, reference_p99=330 * US)
    assert curve().left(30, slower) and not curve().left(31, slower)


def test_windows_that_agree_with_one_another_are_the_curve_from_then_on():
    found, slower = curve(), figures(reference_avg=150 * US, reference_p99=330 * US)
    for _window in range(4):
        assert found.left(20, slower)
        found.add(20, slower, True)
    assert found.left(20, slower)
    found.add(20, slower, True)
    assert not found.left(20, slower)


def test_windows_that_are_all_different_never_become_the_curve():
    found = curve()
    for average in (150, 900, 150, 900, 150, 900, 150):
        found.add(20, figures(reference_avg=average * US, reference_p99=900 * US), True)
    assert found.left(20, figures(reference_avg=150 * US, reference_p99=900 * US))


@pytest.mark.parametrize(
    ("objective", "now", "idle", "factor"),
    [
        (RELATIVE, QUIET, None, 100 / 180),
        (RELATIVE, figures(fleet_p99=720 * US), None, 2.0),
        (RELATIVE, figures(fleet_avg=360 * US), None, 2.0),
        (RELATIVE, figures(reference_avg=None, reference_p99=None), None, None),
        (RELATIVE, QUIET, IN_NS, 1.5),
        (RELATIVE, figures(fleet_p99=900 * US), IN_NS, 2.5),
        ({"kind": "absolute", "avg_us": 50, "p99_us": 400}, QUIET, None, 2.0),
    ],
)
def test_a_window_misses_its_objective_at_the_worse_of_average_and_p99(objective, now, idle, factor):
    assert decisions.misses(objective, now, idle) == (None if factor is None else pytest.approx(factor))


def as_slow_as(times, size=15):
    """Return the size and the figures of a fleet that DRAM carries, so many times as slow as the plateau."""
    average, p99 = (times * each for each in IN_NS)
    return size, Figures(average, p99, average, p99, page_ins=0.0, tier_cpu=0.0)


def test_idle_dram_is_that_of_the_ramps_in_dram_until_the_ramp_shows_its_own():
    found, halfway = Idle(PLATEAU), pytest.approx([1.1 * each for each in IN_NS])
    assert found.figures() == IN_NS and Idle(None).figures() is None
    found.add(*as_slow_as(1.1**2))
    assert found.figures() == halfway and not found.look_again, "the plateau counts like one more window"
    found.add(*as_slow_as(9, size=20))
    found.add(15, None)
    found.add(15, figures(reference_avg=None))
    assert found.figures() == halfway, "larger fleets and disturbed windows say nothing"


@pytest.mark.parametrize("times", [1.6, 0.6])
def test_idle_dram_that_differs_much_from_the_plateau_is_looked_at_three_times(times):
    found = Misses({**RELATIVE, "plateau": PLATEAU})
    assert [(found.add(*as_slow_as(times)), found.look_again) for _look in range(3)] == [
        ("", True),
        ("", True),
        ("", False),
    ]


def test_a_single_slow_look_at_idle_dram_does_not_count():
    found = Idle(PLATEAU)
    for times in (2.0, 1.0, 1.1):
        found.add(*as_slow_as(times))
    assert found.figures() == pytest.approx([1.1**0.75 * each for each in IN_NS])


def test_a_machine_that_has_become_slower_since_the_ramps_in_dram_does_not_end_a_ramp():
    """A ramp of zram ended at 37 servers, next to idle DRAM that was 1.6 times as fast five minutes before."""
    slow = figures(fleet_avg=75 * US, fleet_p99=300 * US, reference_avg=70 * US, reference_p99=280 * US)
    own, of_dram = Misses({**RELATIVE, "plateau": PLATEAU}), Misses({**RELATIVE, "plateau": {**PLATEAU, "fits": 1}})
    for _look in range(3):
        own.add(*as_slow_as(1.6))
        of_dram.add(*as_slow_as(1.6))
    assert not any(own.add(size, slow) for size in (40, 42, 44))
    assert of_dram.add(40, slow) == of_dram.add(42, slow) == "" and "at 3 sizes in a row" in of_dram.add(44, slow)


def test_a_ramp_that_misses_clearly_ends_only_if_a_second_look_confirms_it():
    found, slow = Misses(RELATIVE), figures(fleet_p99=900 * US)
    assert not found.add(40, slow) and found.look_again and found.near
    assert "by a factor of 2.5, in two windows" in found.add(40, slow)


def test_a_clear_miss_that_is_not_confirmed_ends_nothing():
    found, slow = Misses(RELATIVE), figures(fleet_p99=900 * US)
    assert not found.add(40, slow) and not found.add(40, QUIET) and not found.look_again and not found.near
    assert not found.add(44, slow) and found.look_again
    assert not found.add(44, None) and not found.look_again, "a disturbed window confirms nothing"


@pytest.mark.parametrize(
    ("p99", "ends"), [(400, False), (420, True)], ids=["by 11 %: a gentle curve just crosses", "by 17 %"]
)
def test_a_ramp_ends_after_three_misses_in_a_row_that_are_no_accident(p99, ends):
    found, slow = Misses(RELATIVE), figures(fleet_p99=p99 * US)
    ended = [bool(found.add(size, each)) for size, each in enumerate((slow, slow, QUIET, slow, slow, slow))]
    assert ended == [False] * 5 + [ends]


def leapt(*p99s):
    """Return the misses of a ramp with a drive after windows with these p99s, in microseconds, and why it ended."""
    found = Misses(RELATIVE, has_drive=True)
    return found, [found.add(size, figures(fleet_p99=p99 * US)) for size, p99 in enumerate(p99s)]


def test_a_drive_that_misses_by_little_calls_for_a_leap_before_the_ramp_ends():
    found, ended = leapt(420, 440, 470)
    assert found.leap and not any(ended)
    found, ended = leapt(420, 440, 470, 440)
    assert "at 3 sizes in a row" in ended[-1] and not found.leap, "the leap has missed, too"
    found, ended = leapt(420, 440, 470, 350, 420, 440)
    assert found.near and not found.leap and not any(ended), "where the leap met it, the ramp goes on"
    found, ended = leapt(420, 440, 470, 350, 420, 440, 470)
    assert found.leap and not any(ended), "and may leap again"


def test_without_a_drive_there_is_no_leap():
    found = Misses(RELATIVE)
    assert [found.add(size, figures(fleet_p99=p99 * US)) for size, p99 in enumerate((420, 440, 470))][-1]
    assert not found.leap


def test_several_windows_at_one_size_are_no_misses_in_a_row():
    found, slow = Misses(RELATIVE), figures(fleet_p99=450 * US)
    assert not any(found.add(40, slow) for _window in range(5))


def test_without_an_objective_only_capacity_ends_a_ramp():
    assert not Misses(None).add(40, figures(fleet_p99=1e12))


@pytest.mark.parametrize(
    ("charged", "within"), [(1000, True), (102 * 2**20, True), (103 * 2**20, False), (None, False)]
)
def test_the_budget_holds_with_two_percent_of_room(charged, within):
    assert decisions.is_within(charged, 100 * 2**20) is within


def test_only_a_server_that_was_killed_twice_while_it_joined_alone_does_not_fit():
    kills = Kills()
    assert [kills.add("redis20", 0), kills.add("redis20", 0)] == [False, True]


def test_a_kill_among_several_newcomers_says_nothing_but_that_they_must_join_alone():
    kills = Kills()
    assert not kills.alone
    assert not any(kills.add("redis19", 1) for _kill in range(3)) and kills.alone
    assert not kills.add("redis19", 0)


def test_each_server_is_tried_once_more():
    kills = Kills()
    assert not any(kills.add(name, 0) for name in ("redis19", "redis20", "redis21"))
