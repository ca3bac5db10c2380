# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The throughput of one large Redis: what is run, and what its figures mean.

The cases are those of a study of 2018 (docs/experiments.md): for each size of values the same bytes of data are written and read in sequence;
with the smallest values some keys are updated and read at random; then so many times more data are written and read through (cold), and of
them as much as before again and again (hot).
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    SettingError,
    number,
    numbers,
    size_in_bytes,
)

# What Redis takes beside a value, in bytes: entry, key, object and string header. Measured: 1.09 MB for 1,000 values of 1,000 bytes.
OVERHEAD = 96
ONLY_SETS, ONLY_GETS = -1, 100
# Below this Redis was not what limited the throughput.
MIN_CPU_SHARE = 0.95

# Words of the study: each compares a case with one of the same operation on the same size of values, all in DRAM. That hot data reach 85 % and cold
# data 27 % comes out only beside the random updates, that new keys reach 70 % only beside those in sequence.
RATIOS = (
    ("hot data", "hot", "random", ("SET", "GET")),
    ("cold data", "cold", "random", ("SET", "GET")),
    ("new keys", "sequential", "sequential", ("SET",)),
)


def plan(settings: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the steps in their order, each with the options of the module C(solotest) that it differs in.

    C(case) and C(op) name what is measured; steps without C(op) are preparations. C(bytes) is what Redis holds after it.

    Args:
        settings: C(data), C(value_sizes), C(stretch), C(connections), C(pipeline), C(compressibility), as the user gave them.

    Raises:
        SettingError: one cannot be used.
    """
    sizes = sorted(numbers("throughput_benchmark_value_sizes", settings["value_sizes"], "value_size"))
    data = size_in_bytes("throughput_benchmark_data", settings["data"])
    stretch = number("throughput_benchmark_stretch", settings["stretch"], "stretch")
    for name in ("connections", "pipeline", "compressibility"):
        number(f"throughput_benchmark_{name}", settings[name], name)
    if data < 10 * sizes[-1]:
        raise SettingError(
            f"throughput_benchmark_data: {settings['data']!r} is too little; ten values of {sizes[-1]:,} bytes are {10 * sizes[-1]:,}"
        )
    steps = []
    for size in sizes:
        steps += _empty(size) + _both("sequential", size, data // size, "sequential")
        if size == sizes[0]:
            steps += _both("random", size, data // size, "uniform")
    if stretch > 1:
        hot, keys = data // sizes[0], int(data * stretch) // sizes[0]
        steps += _empty(sizes[0]) + _both("cold", sizes[0], keys, "sequential")
        # One pass brings the hot keys back to where they are fast; it is thrown away.
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
    """SET, then GET."""
    return [_step(case, op, size, keys, pattern, mix) for op, mix in (("SET", ONLY_SETS), ("GET", ONLY_GETS))]


def _empty(size: int) -> list[dict[str, t.Any]]:
    """A fill of one key empties Redis, and refuses one that holds what is not ours."""
    return [{**_step("empty", None, size, 1, "sequential", ONLY_GETS), "mode": "fill"}]


def largest(steps: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    """Return the most bytes that Redis holds."""
    return max(step["bytes"] for step in steps)


def figures(step: t.Mapping[str, t.Any], measured: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return what counts of one step: the module's result in a few numbers."""
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
    """Return points [bytes in use, SETs per second]: what Redis takes grows by the same amount with each new key."""
    interval, points = measured["series"]["interval_s"], measured["series"]["points"]
    start, end = (measured["server"][when]["used_memory"] for when in ("before", "after"))
    each = (end - start) / measured["requests"]["ok"]
    curve, done = [], 0
    for count, *dummy in points[:-1] or points:  # the last one is cut off by the end
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
        steps: the plan.
        results: what C(solotest) returned for each of them, in order.
    """
    cases = [figures(step, measured) for step, measured in zip(steps, results) if step["op"]]
    doubts = [
        f"{each['case']} {each['op']} of {each['value_size']:,} bytes: Redis had {each['redis_cpu_share']:.2f} of a CPU, {MIN_CPU_SHARE} is needed"
        for each in cases
        if each["redis_cpu_share"] is not None and each["redis_cpu_share"] < MIN_CPU_SHARE
    ]
    unknown = sum(1 for each in cases if each["redis_cpu_share"] is None)
    if unknown:
        doubts.append(f"{unknown} cases: this Redis does not tell its CPU time")
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
    """Return what each profile but the first reaches of the first one's throughput, in the study's words.

    The first profile's random case is the yardstick, and for new keys its sequential one: all its data are in DRAM, and its size of values is the same.
    """
    names = list(results)
    if not names:
        return []
    yardstick = _by_case(results[names[0]])
    found = []
    for name in names[1:]:
        mine = _by_case(results[name])
        smallest = min((size for dummy, dummy, size in mine), default=None)
        for words, case, beside, ops in RATIOS:
            for op in ops:
                own, other = mine.get((case, op, smallest)), yardstick.get((beside, op, smallest))
                if own and other:
                    found.append(
                        {
                            "profile": name,
                            "baseline": names[0],
                            "words": words,
                            "op": op,
                            "ratio": round(own / other, 4),
                        }
                    )
    return found


def _by_case(result: t.Mapping[str, t.Any]) -> dict[tuple[str, str, int], float]:
    return {(each["case"], each["op"], each["value_size"]): each["ops_per_second"] for each in result["cases"]}
