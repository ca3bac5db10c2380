# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_model
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_model import (
    Posterior,
    Shape,
    chance,
    grid,
    log_size_of,
    ratio_bound,
)


def test_the_prior_is_a_probability():
    assert sum(shape.prior for shape in density_model.shapes()) == pytest.approx(1)
    assert sum(grid(8).prior) == pytest.approx(1)


def test_the_probability_to_pass_is_the_published_formula():
    shape = Shape(softness=0.25, lapse=0.02, sick=0.01, prior=1)
    at_middle = 0.98 * 0.99**20 * 0.5
    assert chance(math.log(20), math.log(20), shape) == pytest.approx(at_middle)
    # One softness below the middle, where the normal distribution is 0.8413.
    assert chance(math.log(20) - 0.25, math.log(20), shape) == pytest.approx(
        0.98 * 0.99 ** (20 * math.exp(-0.25)) * 0.841345, rel=1e-5
    )


@pytest.mark.parametrize("target", [0.9, 0.5])
@pytest.mark.parametrize("shape", [Shape(0.03, 0.05, 0, 1), Shape(2, 0, 0, 1), Shape(0.1, 0, 0.05, 1)])
def test_n90_and_n50_are_the_sizes_that_pass_so_often(target, shape):
    assert chance(log_size_of(target, math.log(30), shape), math.log(30), shape) == pytest.approx(target, abs=1e-3)


def test_probes_move_and_narrow_what_is_known():
    before = Posterior(grid(8))
    passed, failed = before.with_probe(4, True), before.with_probe(4, False)
    assert failed.n90.median < before.n90.median < passed.n90.median
    after = before
    for _probe in range(20):
        after = after.with_probe(3, True).with_probe(4, False)
    assert 3 <= after.n90.low <= after.n90.high < 4 and 3 <= after.n50.low <= after.n50.high < 4


def test_a_ratio_is_wide_where_little_is_known_and_open_where_nothing_is():
    few, many = Posterior(grid(8)), Posterior(grid(8))
    for _probe in range(20):
        few, many = few.with_probe(3, True).with_probe(4, False), many.with_probe(6, True).with_probe(7, False)
    assert (ratio_bound(many, few, upper=False), ratio_bound(many, few, upper=True)) == (2, 2)
    unknown = Posterior(grid(8))
    assert (ratio_bound(unknown, few, upper=False), ratio_bound(unknown, few, upper=True)) == (0, math.inf)
    assert (ratio_bound(few, unknown, upper=False), ratio_bound(few, unknown, upper=True)) == (0, math.inf)
