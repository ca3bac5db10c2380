# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench of A/A pairs: what it states, and that its load is still accepted. `make bench` measures."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

_BENCH = pathlib.Path(__file__).parents[1] / "bench"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(_BENCH))
    spec = importlib.util.spec_from_file_location("aa_pairs", _BENCH / "aa_pairs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_count_has_the_interval_of_clopper_and_pearson(bench):
    """Values of printed tables."""
    assert bench.binomial_interval(95, 100) == pytest.approx((0.8872, 0.9836), abs=1e-4)
    assert bench.binomial_interval(0, 10) == pytest.approx((0, 0.3085), abs=1e-4)
    assert bench.binomial_interval(10, 10) == pytest.approx((0.6915, 1), abs=1e-4)
