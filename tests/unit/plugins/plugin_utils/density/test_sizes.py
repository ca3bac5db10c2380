# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_ramps import definition, dram, ramp, tier

from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer
from ansible_collections.memstretch.density.plugins.plugin_utils.density.sizes import (
    first_round,
    fitting,
    found,
    grid,
    is_capacity,
    next_round,
    planned,
    to_hold,
)


def test_the_first_round_is_coarse_and_begins_before_the_tier_matters():
    sizes = first_round(20, 200, "zram 1")
    assert 19 <= sizes[0] <= 21 and sizes[-1] == 200 and len(sizes) < 45


def test_a_ramp_with_a_tier_begins_while_dram_carries_its_fleet():
    for found_before in ([], [54], [300]):
        sizes = planned(found_before, 20, 400, 0.1, "zram 1").sizes
        assert sizes[0] == 16 and sizes == sorted(set(sizes))
    assert planned([20], 20, 400, 0.1, "slow 2").sizes[0] == 14, "a ramp that begins below it does so anyway"
    assert planned([20], None, 400, 0.1, "slow 2").sizes[0] == 14
    assert planned([3], 1, 400, 0.1, "large servers 2").sizes[0] == 1


def test_later_rounds_look_closely_where_the_first_ended():
    sizes = next_round([54], 200, "zram 2")
    assert 36 <= sizes[0] <= 39 and sizes[-1] == 66
    steps = list(zip(sizes, sizes[1:]))
    assert all(1 <= later - size <= 3 for size, later in steps if size >= 46)
    assert (
        all(3 <= later - size <= 5 for size, later in steps if later < 46)
        and 1 <= sum(later < 46 for _size, later in steps) <= 2
    )


def test_a_ramp_on_a_flat_curve_begins_below_the_smallest_that_was_found():
    """Rounds found 65 and 54 servers there, and a third that began at 46 missed the objective at once."""
    sizes = next_round([65, 54], 200, "zram_swap 3")
    assert 36 <= sizes[0] <= 39 and sizes[-1] == 79
    assert next_round([54, 54], 200, "a") == next_round([54], 200, "a"), "rounds that agree cost no step"


def test_where_capacity_decided_small_fleets_are_not_looked_at_again():
    assert next_round([19], 200, "dram 2", 0.85) == [16, 17, 18, 19, 20, 21, 22, 23, 24]
    ramps = [*dram((1,)), *tier("zram", (1,), 20.5)]
    seen = answer(definition(("dram", "zram")), ramps)
    assert is_capacity(seen, "dram") and not is_capacity(seen, "zram") and not is_capacity(seen, "swap")
    assert planned([19], 19, 100, 0.2, "dram 2", True).sizes[0] == 16


def test_grids_of_rounds_differ_and_those_of_a_seed_do_not():
    assert next_round([54], 200, "a") == next_round([54], 200, "a")
    assert len({tuple(next_round([200], 500, str(seed))) for seed in range(20)}) > 5


def test_a_grid_grows_by_whole_hosts_up_to_the_maximum():
    for start, maximum in ((1, 5), (0.2, 1), (30, 20), (3, 40)):
        sizes = grid(start, maximum, 0.04, "seed")
        assert sizes == sorted(set(sizes)) and sizes[0] >= 1 and sizes[-1] == maximum


def test_a_first_ramp_without_knowledge_leaves_its_sizes_to_the_machine():
    assert planned([], None, 100, 0.2, "s") == ([], 0.2)


def test_what_earlier_ramps_found_chooses_the_sizes():
    ramps = [*dram((1,)), *tier("zram", (1,), 20.5)]
    seen = answer(definition(("dram", "zram")), ramps)
    assert fitting(ramps, "dram") == 10 and found(seen, ramps, "zram") == [20]
    assert found(seen, ramps, "swap") == [] and fitting(ramps, "swap") is None
    first = planned([], 10, 100, 0.2, "s")
    assert first.sizes[0] == 8 and first.sizes[1] in (9, 10, 11) and first.sizes[-1] == 100 and first.growth == 0.2
    later = planned([20], 10, 100, 0.2, "s")
    assert later.sizes[0] == 8 and 13 <= later.sizes[1] <= 15 and later.sizes[-1] == 25 and later.growth == 0.2


def test_the_largest_fleet_stands_in_for_a_density_that_is_unknown():
    ramps = [ramp("dram", 1, [3, 4], wall=5), ramp("dram", 1, [9], kind="hold")]
    seen = answer(definition(("dram",)), ramps)
    assert seen["arms"] == [] and found(seen, ramps, "dram") == [4]


@pytest.mark.parametrize(
    ("density", "interval", "holds", "size"),
    [
        (None, None, [], None),
        (50, [47, 53], [], 47),
        (50, None, [], 45),
        (0, [0, None], [], 1),
        (50, [47, 53], [(47, "held")], None),
        (50, [47, 53], [(47, "undecided")], None),
        (50, [47, 53], [(47, "died")], 43),
        (50, [47, 53], [(47, "died"), (43, "missed")], 39),
        (50, [47, 53], [(47, "died"), (43, "held")], None),
        (3, [3, 3], [(3, "died"), (2, "died"), (1, "died")], None),
        (50, [47, 53], [(47, "died"), (43, "died"), (39, "died"), (36, "died")], None),
    ],
)
def test_a_hold_that_fails_is_followed_by_one_of_fewer(density, interval, holds, size):
    hold = [{"size": each, "state": state} for each, state in holds]
    assert to_hold({"density": density, "interval": interval, "span": [45, 55], "hold": hold}) == size
