# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The throughput of one large Redis: the steps of the measurement, and its figures.

The cases are those of a study of 2018 (docs/experiments.md). For each size of values, the same amount of data is
written and read in sequence. With the smallest values, random keys are updated and read. Then more data is written and
read in sequence (cold), and a part of it, as large as before, again and again (hot).
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

RANGES: Ranges = {
    "stretch": Range(float, 1, 1000, "times the data; 1 leaves out the cold and hot cases"),
    "connections": CLIENT["connections"],
    "pipeline": CLIENT["pipeline"],
    "compressibility": CLIENT["compressibility"],
}
# What Redis needs for each value in addition to its bytes: entry, key, object and string header. Measured: 1.09 MB for
# 1,000 values of 1,000 bytes.
OVERHEAD = 96
ONLY_SETS, ONLY_GETS = -1, 100
# If Redis had less of its CPU than this, something else limited the throughput.
MIN_CPU_SHARE = 0.95

# The study's comparisons: name, case, the case in DRAM that it is compared with, operations. The study's 85 % for hot
# and 27 % for cold data only result from a comparison with random updates, its 70 % for new keys only from one with
# sequential writes.
RATIOS = (
    ("hot data", "hot", "random", ("SET", "GET")),
    ("cold data", "cold", "random", ("SET", "GET")),
    ("new keys", "sequential", "sequential", ("SET",)),
)


def make_steps(settings: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the steps in order, each with its own options of the module C(solotest).

    C(case) and C(op) name what is measured; steps without C(op) are preparations. C(bytes) is what Redis holds after
    the step.

    Args:
        settings: C(data), C(value_sizes), C(stretch), C(connections), C(pipeline), C(compressibility), as the user gave
            them.

    Raises:
        SettingError: a setting is not allowed.
    """
    prefix = "throughput_benchmark_"
    sizes: list[int] = sorted(numbers(f"{prefix}value_sizes", settings["value_sizes"], CLIENT["value_size"]))
    data = size_in_bytes(f"{prefix}data", settings["data"])
    stretch = check_numbers(settings, RANGES, prefix)["stretch"]
    if data < 10 * sizes[-1]:
        raise SettingError(
            f"{prefix}data: {settings['data']!r} is too small; it must be at least {10 * sizes[-1]:,} bytes, "
            f"ten values of {sizes[-1]:,}"
        )
    steps = []
    for size in sizes:
        steps += _empty(size) + _both("sequential", size, data // size, "sequential")
        if size == sizes[0]:
            steps += _both("random", size, data // size, "uniform")
    if stretch > 1:
        hot, keys = data // sizes[0], int(data * stretch) // sizes[0]
        steps += _empty(sizes[0]) + _both("cold", sizes[0], keys, "sequential")
        # The first pass brings the hot keys back to DRAM. Its figures are discarded.
        steps += [{**_step("warm-up", None, sizes[0], hot, "sequential", ONLY_GETS), "keys": keys}]
        steps += [{**each, "keys": keys} for each in _both("hot", sizes[0], hot, "sequential")]
    return [{**step, "index": index} for index, step in enumerate(steps, 1)]


def _step(case: str, op: str | None, size: int, keys: int, pattern: str, read_mix: int) -> dict[str, t.Any]:
    return {
        "case": case,
        "op": op,
        "mode": "test",
        "value_size": size,
        "key_count": keys,
        "pattern": pattern,
        "read_mix": read_mix,
        "keys": keys,
        "bytes": keys * (size + OVERHEAD),
    }


def _both(case: str, size: int, keys: int, pattern: str) -> list[dict[str, t.Any]]:
    """Return a step that SETs, and one that GETs."""
    return [_step(case, op, size, keys, pattern, mix) for op, mix in (("SET", ONLY_SETS), ("GET", ONLY_GETS))]


def _empty(size: int) -> list[dict[str, t.Any]]:
    """Return the step that empties Redis: a fill of one key, which refuses a Redis with foreign data."""
    return [{**_step("empty", None, size, 1, "sequential", ONLY_GETS), "mode": "fill"}]


def largest(steps: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    """Return the largest number of bytes that Redis holds in any step."""
    return max(step["bytes"] for step in steps)


def figures(step: t.Mapping[str, t.Any], measured: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the figures of one step, from the result of the module C(solotest)."""
    latency, seconds = measured["latency"]["response"], measured["seconds"]
    before, after = measured["server"]["before"], measured["server"]["after"]
    cpu = (
        after["cpu_s"] - before["cpu_s"]
        if after and before and None not in (after.get("cpu_s"), before.get("cpu_s"))
        else None
    )
    counters = measured["pressure"]["counters"]
    return {
        **{name: step[name] for name in ("case", "op", "value_size")},
        "keys": step["key_count"],
        "ops_per_second": round(measured["requests"]["ok"] / seconds, 1),
        "seconds": seconds,
        "p99_ms": round(latency["p99_us"] / 1000, 3),
        "max_ms": round(latency["max_us"] / 1000, 3),
        "redis_cpu_share": None if cpu is None else round(cpu / seconds, 3),
        "page_ins_per_second": round((counters.get("pswpin", 0) + counters.get("zswpin", 0)) / seconds, 1),
        "used_memory": after and after["used_memory"],
        "curve": _curve(measured) if (step["case"], step["op"]) == ("cold", "SET") else None,
    }


def _curve(measured: t.Mapping[str, t.Any]) -> list[list[float]]:
    """Return points [bytes in use, SETs per second]. Each new key adds the same number of bytes."""
    interval, points = measured["series"]["interval_s"], measured["series"]["points"]
    start, end = (measured["server"][when]["used_memory"] for when in ("before", "after"))
    each = (end - start) / measured["requests"]["ok"]
    curve, done = [], 0
    for count, *_latencies in points[:-1] or points:  # the last interval may be incomplete
        done += count
        curve.append([round(start + done * each), round(count / interval, 1)])
    return curve


def document(
    profile: str,
    host: str,
    steps: t.Sequence[t.Mapping[str, t.Any]],
    results: t.Sequence[t.Mapping[str, t.Any]],
    settings: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """Return the result of one profile.

    Args:
        steps: as make_steps() returned them.
        results: what C(solotest) returned for each step, in order.
    """
    cases = [figures(step, measured) for step, measured in zip(steps, results) if step["op"]]
    doubts = [
        f"{each['case']} {each['op']} of {each['value_size']:,} bytes: "
        f"Redis had {each['redis_cpu_share']:.2f} of a CPU, {MIN_CPU_SHARE} is needed"
        for each in cases
        if each["redis_cpu_share"] is not None and each["redis_cpu_share"] < MIN_CPU_SHARE
    ]
    unknown = sum(1 for each in cases if each["redis_cpu_share"] is None)
    if unknown:
        doubts.append(f"{unknown} cases: this Redis does not report its CPU time")
    version = next((each["server"]["after"]["redis_version"] for each in results if each["server"]["after"]), None)
    return {
        "profile": profile,
        "host": host,
        "settings": dict(settings),
        "redis_version": version,
        "cases": cases,
        "doubts": doubts,
    }


def ratios(results: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the throughput of each profile relative to the first profile, with the study's comparisons.

    RATIOS names the first profile's case that each case is compared with. All data of that case is in DRAM, and its
    values have the same size.
    """
    names = list(results)
    if not names:
        return []
    baseline = _by_case(results[names[0]])
    found: list[dict[str, t.Any]] = []
    for name in names[1:]:
        mine = _by_case(results[name])
        if not mine:
            continue
        smallest = min(size for _case, _op, size in mine)
        for words, case, base_case, ops in RATIOS:
            for op in ops:
                own, base = mine.get((case, op, smallest)), baseline.get((base_case, op, smallest))
                if own and base:
                    ratio = round(own / base, 4)
                    found.append({"profile": name, "baseline": names[0], "words": words, "op": op, "ratio": ratio})
    return found


def _by_case(result: t.Mapping[str, t.Any]) -> dict[tuple[str, str, int], float]:
    return {(each["case"], each["op"], each["value_size"]): each["ops_per_second"] for each in result["cases"]}
