# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of one arm in one round of the throughput benchmark, and what limited each of them."""

from __future__ import annotations

import typing as t

# A program that had less of a CPU than this did not limit the throughput.
FULL_CPU = 0.95
REDIS, MEMORY, CLIENT, UNKNOWN = "Redis", "memory", "client", "unknown"
# Fewer page-ins per request than this are chance: they limit nothing, and do not make requests cold.
PAGING = 0.001
# A case that took less time than this, in seconds, shows the start of programs and one moment of the machine.
LEAST_SECONDS = 1.0
TICKS_PER_SECOND = 100  # of the stolen time; the same on all platforms of Linux
# The cases whose SETs per second are kept over the memory in use.
_CURVES = ("sequential", "curve")
CURVE_POINTS = 24


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
    found = {
        **{name: step[name] for name in ("case", "op", "value_size")},
        "keys": step["key_count"],
        "requests": measured["requests"]["ok"],
        "ops_per_second": round(measured["requests"]["ok"] / seconds, 1),
        "seconds": seconds,
        "p99_ms": round(latency["p99_us"] / 1000, 3),
        "max_ms": round(latency["max_us"] / 1000, 3),
        "redis_cpu_share": None if cpu is None else round(cpu / seconds, 3),
        "client_cpu_share": (measured.get("health") or {}).get("cpu_share"),
        "page_ins": counters.get("pswpin", 0) + counters.get("zswpin", 0),
        "page_outs": counters.get("pswpout", 0) + counters.get("zswpout", 0),
        "used_memory": after and after["used_memory"],
        "curve": _curve(measured) if step["case"] in _CURVES and step["op"] == "SET" else None,
    }
    return {**found, "limit": _limit(found)}


def _limit(figures_of_case: t.Mapping[str, t.Any]) -> str:
    """Find what kept Redis from being faster.

    With page-ins in at least one of 1,000 requests and CPU time to spare, Redis waits for pages of its memory.
    """
    if (figures_of_case["redis_cpu_share"] or 0) >= FULL_CPU:
        return REDIS
    if figures_of_case["redis_cpu_share"] is not None and pages_in(figures_of_case):
        return MEMORY
    return CLIENT if (figures_of_case["client_cpu_share"] or 0) >= FULL_CPU else UNKNOWN


def pages_in(case: t.Mapping[str, t.Any]) -> bool:
    """Decide whether the requests of a case paged in, and not only a page or two by chance."""
    return bool(case["page_ins"] >= max(1, PAGING * case["requests"]))


def _curve(measured: t.Mapping[str, t.Any]) -> list[list[float]] | None:
    """Return points [bytes in use, SETs per second] of equal steps of memory, so that rounds can be compared.

    Each new key adds the same number of bytes. None if Redis did not report its memory before or after them.
    """
    start, end = ((measured["server"][when] or {}).get("used_memory") for when in ("before", "after"))
    if start is None or end is None:
        return None
    interval, points = measured["series"]["interval_s"], measured["series"]["points"]
    counts = [count for count, *_latencies in points]
    ends = [min((number + 1) * interval, measured["seconds"]) for number in range(len(counts))]
    keys = sum(counts) / CURVE_POINTS
    reached = [_time_of(number * keys, counts, ends) for number in range(CURVE_POINTS + 1)]
    return [
        [round(start + (end - start) * number / CURVE_POINTS), round(keys / (reached[number] - reached[number - 1]), 1)]
        for number in range(1, CURVE_POINTS + 1)
        if reached[number] > reached[number - 1]
    ]


def _time_of(key: float, counts: t.Sequence[int], ends: t.Sequence[float]) -> float:
    """Find the time at which this many keys were written, from the number of keys in each interval and its end."""
    done, began = 0.0, 0.0
    for count, ended in zip(counts, ends):
        if done + count >= key and count:
            return began + (ended - began) * (key - done) / count
        done, began = done + count, ended
    return began


def cell(
    about: t.Mapping[str, t.Any],
    steps: t.Sequence[t.Mapping[str, t.Any]],
    results: t.Sequence[t.Mapping[str, t.Any]],
) -> dict[str, t.Any]:
    """Return the result of one arm in one round.

    Args:
        about: C(arm), C(profile), C(round), C(host), C(date), C(kernel), C(cpu), C(cpus), C(dram), C(left_out) and
            C(settings).
        steps: as steps.select() returned them.
        results: what C(solotest) returned for each step, in order.
    """
    cases = [figures(step, measured) for step, measured in zip(steps, results) if step["op"]]
    version = next((each["server"]["after"]["redis_version"] for each in results if each["server"]["after"]), None)
    return {
        **about,
        "machine": next((each["machine"] for each in results if each.get("machine")), None),
        "redis_version": version,
        "stolen": _stolen(results, about.get("cpus")),
        "cases": cases,
    }


def _stolen(results: t.Sequence[t.Mapping[str, t.Any]], cpus: t.Any) -> float | None:
    """Return the share of all CPUs' time that was stolen while the client ran; None if it is unknown."""
    known = [(each["health"]["steal_ticks"], each["seconds"]) for each in results if _knows_stolen(each)]
    seconds = sum(length for _ticks, length in known)
    return (
        round(sum(ticks for ticks, _length in known) / TICKS_PER_SECOND / seconds / int(cpus), 5)
        if known and cpus
        else None
    )


def _knows_stolen(measured: t.Mapping[str, t.Any]) -> bool:
    """Decide whether a result has its length and the stolen time."""
    return bool(measured.get("seconds")) and (measured.get("health") or {}).get("steal_ticks") is not None


def cell_name(arm: str, round_number: int) -> str:
    """Return the name of the result of an arm in a round."""
    return f"{arm}, round {round_number}"


def by_arm(cells: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    """Return results by their arm, each with its C(rounds) in order.

    Args:
        cells: the results, by name.
    """
    arms: dict[str, dict[str, t.Any]] = {}
    for each in sorted(cells.values(), key=lambda found: found["round"]):
        arms.setdefault(each["arm"], {"profile": each["profile"], "host": each["host"], "rounds": []})
        arms[each["arm"]]["rounds"].append(dict(each))
    return arms


def doubts(rounds: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Explain why figures of an arm are doubtful.

    Neither Redis nor its memory was the limit, hot requests were not hot, a case was short, or the rounds differ.
    """
    found = []
    for each in rounds:
        for case in each["cases"]:
            if case["limit"] not in (REDIS, MEMORY):
                found.append(f"round {each['round']}, {case_title(case)}: {_not_proven(case)}")
            if case["case"] == "hot" and pages_in(case):
                found.append(
                    f"round {each['round']}, {case_title(case)}: {1000 * case['page_ins'] / case['requests']:,.1f} "
                    f"page-ins per 1,000 requests, so the part was not hot; choose a smaller throughput_benchmark_hot"
                )
    found += _short(rounds)
    for name, what in (("machine", "boot of the host"), ("dram", "DRAM budget"), ("redis_version", "version of Redis")):
        if len({each.get(name) for each in rounds}) > 1:
            found.append(f"the {what} is not the same in all rounds")
    return found


def _short(rounds: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the cases that were over too soon, each with its shortest round."""
    shortest: dict[str, float] = {}
    for each in rounds:
        for case in each["cases"]:
            shortest[case_title(case)] = min(case["seconds"], shortest.get(case_title(case), case["seconds"]))
    return [
        f"{title}: took {seconds:.2g} s, {LEAST_SECONDS:g} s are needed; choose more throughput_benchmark_data"
        for title, seconds in shortest.items()
        if seconds < LEAST_SECONDS
    ]


def _not_proven(case: t.Mapping[str, t.Any]) -> str:
    """Return the sentence for a result that does not show Redis to be the limit."""
    if case["redis_cpu_share"] is None:
        return "this Redis does not report its CPU time, so it is not proven that it was the limit"
    client = ", and the client was the limit" if case["limit"] == CLIENT else ""
    return f"Redis had {case['redis_cpu_share']:.2f} of a CPU, {FULL_CPU} is needed{client}"


def case_title(case: t.Mapping[str, t.Any]) -> str:
    """Return a case as text, such as "hot GET of 1,000 bytes"."""
    return f"{case['case']} {case['op']} of {case['value_size']:,} bytes"
