# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/bench/plan_tiers.py makes of a run and its plan."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

_BENCH = pathlib.Path(__file__).parents[1] / "bench"


@pytest.fixture(name="bench")
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(_BENCH))
    spec = importlib.util.spec_from_file_location("bench_plan_tiers", _BENCH / "plan_tiers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_forecast_meets_its_bar_within_15_percent(bench):
    tier = bench.Tier("drive", "swap", 100)
    cell = {"influence": 0, "read_mix": 100, "response": {"avg_us": 100.0, "p99_us": 1000.0}, "achieved_rate_ratio": 1}
    summary = {"cells": [{**cell, "pressure": {"m": {"page_ins": 50 * bench.SERVERS}}}]}
    forecast = {"influence": 0.0, "read_mix": 100, "page_ins_per_request": 0.5, "avg_us": 114, "p99_us": 800}
    load = {"rate": 100}
    plan = {"load": load, "fleets": [{"cells": [forecast]}], "tiers": {"devices": {"avg_us": 150.0, "p99_us": 500.0}}}
    rows = bench.rows_of(tier, summary, plan)
    assert [(row[2], row[5], row[6]) for row in rows] == [
        ("page-ins for each request", "+0.0%", "yes"),
        ("average in us", "+14.0%", "yes"),
        ("p99 in us", "-20.0%", "NO"),
    ]
    assert bench.tier_row(tier, plan) == ["drive", "swap", "106, 400", "150.0, 500.0"]
