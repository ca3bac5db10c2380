# SPDX-License-Identifier: GPL-3.0-or-later
"""A fill, and MSETs, next to pipelined SETs, in tests/bench/client/fill.py."""

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


@pytest.mark.parametrize(
    ("singly", "filled", "first", "second"),
    [(10, 100, "yes", ""), (20, 100, "", "yes"), (20, 94, "", "NO")],
)
def test_a_fill_meets_its_bar_by_either_of_two_ratios(bench, singly, filled, first, second):
    """They are 10 times one at a time, and 0.95 of the fastest redis-benchmark."""
    fill, common = bench
    table = common.Table()
    rates = {"fill": filled, fill.CONSTANT: 120, "one at a time": singly, "set": 100, "mset": 110}
    rates.update(dict.fromkeys(fill.REFERENCES, 50) | {"8 x 16": 100})
    fill.report(table, "same CPU", {name: [1000 * rate] * 7 for name, rate in rates.items()})
    rows = {row[0]: row for row in table.rows}
    assert rows["fill, same CPU: relative to one at a time"][3] == first
    row = rows["fill, same CPU: relative to redis-benchmark, 8 x 16"]
    assert row[3] == second and "(" in row[1], "an interval"
    assert rows["keys per second of MSETs of 10, relative to pipelined SETs, same CPU"][1].startswith("1.100 (")
