# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of the throughput benchmark.

The cases are those of a study of 2018 (docs/experiments.md). For each size of values, the same amount of data is
written and read in sequence. With the smallest values, random keys are updated and read. Then several times as much
data is written in sequence (the curve), and random keys are updated and read: over all of it (cold), and over a part of
it, as large as DRAM holds, that was made hot by reading it again and again.

A sequential SET case must write new keys, so it cannot be repeated: the amount of data decides how long it takes. GETs
in sequence go over the same keys again until they have read READ_AT_LEAST bytes, but at most MOST_PASSES times.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    Ranges,
    SettingError,
    check_numbers,
    numbers,
    size_in_bytes,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import RANGES as CLIENT

PREFIX = "throughput_benchmark_"
RANGES: Ranges = {
    "stretch": Range(float, 1, 1000, "times the data; 1 leaves out the curve and the cold and hot cases"),
    "seconds": Range(float, 0.001, 86_400, "seconds of each random case"),
    "connections": CLIENT["connections"],
    "pipeline": CLIENT["pipeline"],
    "compressibility": CLIENT["compressibility"],
}
ONLY_SETS, ONLY_GETS = -1, 100
# How often each key of the hot part is read at random, on average, before it is measured.
HOT_ACCESSES = 3
READ_AT_LEAST = 6 * 2**30
MOST_PASSES = 100  # with so little data, the size of the data and not the benchmark decides how long a case takes
# The hot part fills this share of a DRAM budget: the kernel's choice of pages to keep is not exact.
HOT_SHARE = 0.8

# The size of the data if the user names none: this share of the memory, at most this many bytes.
SHARE_BY_DEFAULT = 48
MOST_BY_DEFAULT = 256 * 2**20

# What Redis 7 holds for each value in addition to its allocation: entry, key, object, and its place in the table.
# Measured: 1.09 MB for 1,000 values of 1,000 bytes, of which 1,024 bytes each are the allocation of the value.
_OVERHEAD = 72
_VALUE_HEADER = 4
# Redis itself, and a margin for its growing table and for fragmentation.
_REDIS_BYTES = 16 * 2**20
_MARGIN = 1.05
# A bucket of the table of keys. It has between one and two buckets for each key, and random keys touch all of them.
_BUCKET = 8


def with_data(settings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the settings for make_steps(): without C(data), it is a share of C(total_bytes), the host's memory."""
    total = settings.get("total_bytes") or 0
    default = f"{min(MOST_BY_DEFAULT, total // SHARE_BY_DEFAULT) // 2**20}M"
    complete = {name: value for name, value in settings.items() if name != "total_bytes"}
    return {**complete, "data": settings["data"] or default}


def make_steps(settings: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the steps in order, each with its own options of the module C(solotest).

    C(case) and C(op) name what is measured; steps without C(op) are preparations. C(bytes) is the memory that Redis
    needs for the step. C(requests) and C(duration) are None for the default of the client.

    Args:
        settings: C(data), C(value_sizes), C(stretch), C(hot) (may be empty: as large as the data), C(seconds),
            C(connections), C(pipeline), C(compressibility), as the user gave them.

    Raises:
        SettingError: a setting is not allowed.
    """
    sizes: list[int] = sorted(set(numbers(f"{PREFIX}value_sizes", settings["value_sizes"], CLIENT["value_size"])))
    data = size_in_bytes(f"{PREFIX}data", settings["data"])
    checked = check_numbers(settings, RANGES, PREFIX)
    if data < 10 * sizes[-1]:
        raise SettingError(
            f"{PREFIX}data: {settings['data']!r} is too small; it must be at least {10 * sizes[-1]:,} bytes, "
            f"ten values of {sizes[-1]:,}"
        )
    seconds, smallest = checked["seconds"], sizes[0]
    passes = min(-(-READ_AT_LEAST // data), MOST_PASSES)
    steps = []
    for size in sizes:
        keys = data // size
        written, read = _both("sequential", size, keys)
        steps += [_empty(size), written, {**read, "requests": passes * keys}]
        if size == smallest:
            steps += _both("random", size, keys, seconds)
    if checked["stretch"] > 1:
        keys = int(data * checked["stretch"]) // smallest
        hot = size_in_bytes(f"{PREFIX}hot", settings["hot"]) if settings.get("hot") else data
        if not smallest <= hot <= keys * smallest:
            raise SettingError(
                f"{PREFIX}hot: {settings['hot']!r} is not allowed; it must be at least one value and at most the "
                f"stretched data, {keys * smallest:,} bytes"
            )
        steps += _stretched(smallest, hot // smallest, keys, seconds)
    in_flight = checked["connections"] * checked["pipeline"]
    return [
        {**step, "index": index, "bytes": _memory(step["keys"], step["value_size"], in_flight)}
        for index, step in enumerate(steps, 1)
    ]


def _stretched(size: int, hot: int, keys: int, seconds: float) -> list[dict[str, t.Any]]:
    """Return the steps with more data than DRAM holds.

    The warm-up reads each hot key once, so that all of them are in DRAM, and then at random, so that the kernel finds
    them in use.
    """
    warm_up = [
        _step("warm-up", None, size, hot, "sequential", ONLY_GETS),
        {**_step("warm-up", None, size, hot, "uniform", ONLY_GETS), "requests": HOT_ACCESSES * hot},
    ]
    of_part = [*warm_up, *_both("hot", size, hot, seconds)]
    return [
        _empty(size),
        _step("curve", "SET", size, keys, "sequential", ONLY_SETS),
        *_both("cold", size, keys, seconds),
        *({**step, "keys": keys} for step in of_part),
    ]


def with_hot_part(
    steps: t.Sequence[dict[str, t.Any]], dram: t.Any, settings: t.Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """Return the steps with a hot part as large as a DRAM budget holds, unless the user chose its size.

    Args:
        steps: as make_steps() returned them.
        dram: the DRAM budget, as the user gave it; empty if there is none.
        settings: those of make_steps().

    Raises:
        SettingError: dram is not a size.
    """
    if not dram or settings.get("hot"):
        return list(steps)
    checked = check_numbers(settings, RANGES, PREFIX)
    budget, in_flight = size_in_bytes(f"{PREFIX}dram", dram), checked["connections"] * checked["pipeline"]
    found = []
    for step in steps:
        if step["case"] in ("hot", "warm-up"):
            keys = max(1, min(step["keys"], _hot_keys(budget, step["value_size"], step["keys"], in_flight)))
            requests = step["requests"] and HOT_ACCESSES * keys
            step = {**step, "key_count": keys, "requests": requests}
        found.append(step)
    return found


def _hot_keys(budget: int, size: int, keys: int, in_flight: int) -> int:
    """Count how many keys a DRAM budget holds, with a margin, on top of what all keys need in DRAM at any time."""
    table = _BUCKET * 2 ** (keys - 1).bit_length()
    room = HOT_SHARE * budget - _REDIS_BYTES - table - 2 * in_flight * size
    return int(room / (_MARGIN * (_allocation(size + _VALUE_HEADER) + _OVERHEAD)))


def _step(case: str, op: str | None, size: int, keys: int, pattern: str, read_mix: int) -> dict[str, t.Any]:
    return {
        "case": case,
        "op": op,
        "mode": "test",
        "value_size": size,
        "key_count": keys,
        "pattern": pattern,
        "read_mix": read_mix,
        "requests": None,
        "duration": None,
        "keys": keys,
    }


def _both(case: str, size: int, keys: int, seconds: float | None = None) -> list[dict[str, t.Any]]:
    """Return a step that SETs and one that GETs: for this many seconds at random, or all keys in sequence."""
    pattern = "sequential" if seconds is None else "uniform"
    return [
        {**_step(case, op, size, keys, pattern, mix), "duration": seconds}
        for op, mix in (("SET", ONLY_SETS), ("GET", ONLY_GETS))
    ]


def _empty(size: int) -> dict[str, t.Any]:
    """Return the step that empties Redis: a fill of one key, which refuses a Redis with foreign data."""
    return {**_step("empty", None, size, 1, "sequential", ONLY_GETS), "mode": "fill"}


def _memory(keys: int, size: int, in_flight: int) -> int:
    """Return the bytes that Redis needs for this many values, with the requests and replies in flight."""
    values = keys * (_allocation(size + _VALUE_HEADER) + _OVERHEAD)
    return int(_MARGIN * (values + 2 * in_flight * size)) + _REDIS_BYTES


def _allocation(size: int) -> int:
    """Compute what Redis' allocator takes for this many bytes.

    jemalloc has four classes of sizes for each doubling, at multiples of 16 bytes (jemalloc(3), "size classes").
    """
    spacing = max(16, 2 ** ((size - 1).bit_length() - 3))
    return -(-size // spacing) * spacing


def select(steps: t.Sequence[dict[str, t.Any]], room: int) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """Return the steps that need at most this many bytes, and the cases of the others.

    Raises:
        SettingError: no case is left.
    """
    fitting = [step for step in steps if step["bytes"] <= room]
    left_out = [
        {name: step[name] for name in ("case", "op", "value_size", "bytes")}
        for step in steps
        if step["op"] and step not in fitting
    ]
    if not any(step["op"] for step in fitting):
        needed = min(each["bytes"] for each in left_out)
        raise SettingError(
            f"{PREFIX}data: no case fits: Redis needs at least {needed / 2**20:,.0f} MiB, but it may use "
            f"{room / 2**20:,.0f} MiB of free memory and swap; choose less data"
        )
    return [{**step, "index": index} for index, step in enumerate(fitting, 1)], left_out


def room(available: int, swap: int, dram: t.Any) -> int:
    """Compute how much memory Redis may use, in bytes.

    Args:
        available: memory that the host has available.
        swap: swap that is free.
        dram: the DRAM that Redis may use at most, such as a DRAM budget, as the user gave it; empty for all of it.

    Raises:
        SettingError: dram is not a size.
    """
    limit = size_in_bytes(f"{PREFIX}dram", dram) if dram else available
    return min(available, limit) + swap
