# SPDX-License-Identifier: GPL-3.0-or-later
"""Pipelined SETs next to MSETs, in tests/bench/client/fill.py."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

_BENCH = pathlib.Path(__file__).parents[1] / "bench" / "client"


@pytest.fixture(name="bench")
def load(monkeypatch):
    """Return the modules `fill` and `common`; their names are the bench's own, so nothing of them stays."""
    before = {*sys.modules}
    monkeypatch.syspath_prepend(str(_BENCH))
    spec = importlib.util.spec_from_file_location("bench_fill", _BENCH / "fill.py")
    module = importlib.util.module_from_spec(spec)
    path = [*sys.path]
    spec.loader.exec_module(module)
    yield module, sys.modules["common"]
    sys.path[:] = path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def test_redis_benchmark_calls_mset_by_its_number_of_keys(bench):
    fill, _common = bench
    head = '"test","rps","avg_latency_ms"\n'
    assert fill.requests_per_second(head + '"SET","1234.50","0.1"\n', "set") == 1234.5
    assert fill.requests_per_second(head + '"MSET (10 keys)","99.00","0.1"\n', "mset") == 99
    with pytest.raises(RuntimeError, match="measured SET"):
        fill.requests_per_second(head + '"SET","1.0","0.1"\n', "mset")


def test_both_have_as_many_keys_in_flight(bench):
    fill, _common = bench
    (connections, sets), (others, msets) = fill.MSET_PAIR["set"], fill.MSET_PAIR["mset"]
    assert connections == others and sets == msets * fill.MSET_KEYS


def test_mset_does_not_help_where_sets_are_as_fast(bench):
    fill, common = bench
    for factor, met in ((1, "yes"), (0.8, "NO")):
        table = common.Table()
        fill.report_mset(table, "same CPU", {"set": [factor * 1000] * 7, "mset": [1000] * 7})
        assert table.rows[0][3] == met and "(" in table.rows[0][1], "an interval"
