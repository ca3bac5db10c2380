# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.density.sizes import first_round, grid, next_round


def test_the_first_round_is_coarse_and_begins_at_half_of_what_fits():
    sizes = first_round(20, 200, "zram 1")
    assert 9 <= sizes[0] <= 11 and sizes[-1] == 200 and len(sizes) < 45


def test_later_rounds_look_closely_where_the_first_ended():
    sizes = next_round(54, 200, "zram 2")
    assert 36 <= sizes[0] <= 39 and sizes[-1] == 66
    assert all(1 <= later - size <= 3 for size, later in zip(sizes, sizes[1:]))


def test_grids_of_rounds_differ_and_those_of_a_seed_do_not():
    assert next_round(54, 200, "a") == next_round(54, 200, "a")
    assert len({tuple(next_round(200, 500, str(seed))) for seed in range(20)}) > 5


def test_a_grid_grows_by_whole_hosts_up_to_the_maximum():
    for start, maximum in ((1, 5), (0.2, 1), (30, 20), (3, 40)):
        sizes = grid(start, maximum, 0.04, "seed")
        assert sizes == sorted(set(sizes)) and sizes[0] >= 1 and sizes[-1] == maximum
