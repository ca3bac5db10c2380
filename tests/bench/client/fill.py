# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a fill is, compared with one request at a time and with what this Redis takes from redis-benchmark.

A fill sends MSETs. How much that helps is measured with redis-benchmark alone, which sends SETs as well: with as many
keys in flight, and so as many bytes. redis-benchmark makes one value and sends it again and again; what it costs to
make a fresh one for each key shows in a fill of constant bytes.
"""

from __future__ import annotations

import functools
import re
import statistics

from common import REDIS_CPU, VALUE_SIZE, Redis, interleaved, pinned, places, solotest

REFERENCES = {"1 x 64": (1, 64), "8 x 16": (8, 16), "50 x 16": (50, 16)}  # connections x requests in flight
ENOUGH_FACTOR = 10  # times as fast as one at a time
CONSTANT = "fill of constant bytes"
ONE_AT_A_TIME = 30  # a fraction of the keys
MSET_KEYS = 10  # of one MSET of redis-benchmark
# Of SET and of MSET, connections x requests in flight.
MSET_PAIR = {"set": (8, 20), "mset": (8, 2)}


def filling(server, cpu, keys, compressibility=0):
    server.command("FLUSHALL")
    report = solotest("--compressibility", compressibility, "fill", server.port, VALUE_SIZE, keys, cpu=cpu)
    assert report["fill"]["dbsize"] == keys
    return report["fill"]["keys_per_second"]


def singly(server, cpu, keys):
    server.command("FLUSHALL")
    report = solotest(
        *("--pacing", "none", "--pattern", "sequential", "--requests", keys // ONE_AT_A_TIME),
        *("test", server.port, VALUE_SIZE, keys, 0, 1, -1),
        cpu=cpu,
    )
    return report["test"]["rate"]["achieved"]


def redis_benchmark(server, cpu, keys, connections, pipeline, command="set"):
    """Count how many keys a second are written."""
    keys_each = MSET_KEYS if command == "mset" else 1
    server.command("FLUSHALL")
    output = pinned(
        [
            *("redis-benchmark", "-p", server.port, "-t", command, "-c", connections, "-P", pipeline),
            *("-n", keys // keys_each, "-r", keys, "-d", VALUE_SIZE, "--csv"),
        ],
        cpu,
    )
    return requests_per_second(output, command) * keys_each


def requests_per_second(output, command):
    """Return the figure of redis-benchmark's CSV. It calls MSET by its number of keys, too."""
    name, rate = re.search(r'^"(M?SET)(?: \(10 keys\))?","([0-9.]+)"', output, re.M).groups()
    if name != command.upper():
        raise RuntimeError(f"redis-benchmark measured {name}, not {command}")
    return float(rate)


def bench_fill(table, options):
    keys = options.requests * 3
    for place, cpu in places(table, "fill"):
        with Redis(cpu=REDIS_CPU) as server:
            runs = {"fill": functools.partial(filling, server, cpu, keys)}
            runs[CONSTANT] = functools.partial(filling, server, cpu, keys, compressibility=1)
            runs["one at a time"] = functools.partial(singly, server, cpu, keys)
            for name, shape in REFERENCES.items():
                runs[name] = functools.partial(redis_benchmark, server, cpu, keys, *shape)
            for command, shape in MSET_PAIR.items():
                runs[command] = functools.partial(redis_benchmark, server, cpu, keys, *shape, command)
            results = interleaved(max(6, options.repetitions // 3), runs)
        report(table, place, results)


def report(table, place, results):
    """A fill meets its bar by either of two ratios: the first is decided by the machine where waiting costs little."""
    report_mset(table, place, {name: results.pop(name) for name in MSET_PAIR})
    for name, rates in results.items():
        table.note(f"keys per second, {place}, {name}", [round(rate) for rate in rates])
    medians = {name: statistics.median(rates) for name, rates in results.items()}
    best = max(REFERENCES, key=medians.get)
    for name, rate in medians.items():
        client = name if name not in REFERENCES else f"redis-benchmark, {name}"
        table.add(f"keys per second, {place}: {client}", f"{rate:,.0f}", "", None)
    factor = medians["fill"] / medians["one at a time"]
    enough = factor >= ENOUGH_FACTOR
    name = f"fill, {place}: relative to one at a time"
    table.add(name, f"{factor:.1f}", f">= {ENOUGH_FACTOR}, or the next row", True if enough else None)
    for ours, theirs, least in (
        ("fill", best, None if enough else 0.95),
        (CONSTANT, best, None),
        ("fill", CONSTANT, None),
    ):
        ratios = [one / other for one, other in zip(results[ours], results[theirs])]
        client = theirs if theirs == CONSTANT else f"redis-benchmark, {theirs}"
        table.add_ratio(f"{ours}, {place}: relative to {client}", ratios, least)


def report_mset(table, place, results):
    """Report how many keys a second MSETs write, relative to pipelined SETs."""
    for name, rates in results.items():
        table.note(f"keys per second, {place}, redis-benchmark, {name.upper()}", [round(rate) for rate in rates])
    ratios = [msets / sets for sets, msets in zip(results["set"], results["mset"])]
    table.add_ratio(f"keys per second of MSETs of {MSET_KEYS}, relative to pipelined SETs, {place}", ratios)
