# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of the writeback experiment: medians of each setting, ratios to the baseline, and the knee.

The baseline is the host's own setting. If nothing was written back under it, because its dirty limit is larger than any
flood that fits, the baseline is the first setting with write-back: the one with the largest vm.dirty_bytes.
"""

from __future__ import annotations

import math
import os
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.experiment import knee

_TIMES = ("write_avg_ms", "avg_ms", "p95_ms", "p99_ms")
_RATES = ("writeback_per_second", "device_per_second")
_PEAKS = ("dirty_max", "writeback_max")
# A cell without a complete write counts as this part of one, since a share must be above 0.
_PART_OF_A_WRITE = 0.5
# Cells of one setting whose floods were written back at rates further apart than this did not meet the same flood.
MOST_FLOOD_SPREAD = 2.0


class Measured(t.Protocol):
    """A setting with its repetitions: writeback.Setting."""

    dirty_bytes: int
    queue: t.Mapping[str, t.Any]
    refined: bool
    repetitions: list[dict[str, t.Any]]


def facts(settings: t.Sequence[Measured]) -> dict[str, t.Any]:
    """Return the figures of each setting, the host's own first, the knee and the baseline."""
    usable = [place for place, setting in enumerate(settings) if not _reason(setting)]
    answer, chosen = _knee(settings, usable)
    baseline = usable[0] if usable else None
    shown = [_figures(setting, settings[baseline or 0]) for setting in settings]
    return {
        "settings_measured": shown,
        "baseline": None if baseline is None else shown[baseline],
        "chosen": None if chosen is None else shown[chosen],
        "reason": answer.reason,
        "knee": {
            "level": knee.LEVEL,
            "repetitions": len(settings[0].repetitions),
            "limits": answer.limits,
            "gain": answer.gain and [round(each, 3) for each in answer.gain],
        },
    }


def around_the_knee(settings: t.Sequence[Measured], count: int) -> list[tuple[int, t.Mapping[str, t.Any]]]:
    """Return values of dirty_bytes between the knee and its neighbours, in logarithmic steps, and the knee's queue."""
    usable = [place for place, setting in enumerate(settings) if not _reason(setting)]
    _answer, chosen = _knee(settings, usable)
    if chosen is None:
        return []
    queue = settings[chosen].queue
    limits = {place: _limit(settings[place]) for place in usable if settings[place].queue == queue}
    larger = [limit for limit in limits.values() if limit > limits[chosen]]
    smaller = [limit for limit in limits.values() if limit < limits[chosen]]
    neighbours = ([min(larger)] if larger else []) + ([max(smaller)] if smaller else [])
    values = {value for neighbour in neighbours for value in _steps(limits[chosen], neighbour, count)}
    return [(value, queue) for value in sorted(values - set(limits.values()), reverse=True)]


def _steps(start: int, end: int, count: int) -> list[int]:
    """Return values between two others, at equal distances on a logarithmic scale, in whole pages."""
    ratio = (end / start) ** (1 / (count + 1))
    page = os.sysconf("SC_PAGE_SIZE")
    return [int(start * ratio**number) // page * page for number in range(1, count + 1)]


def _knee(settings: t.Sequence[Measured], usable: t.Sequence[int]) -> tuple[knee.Knee, int | None]:
    """Return the knee of the settings under which write-back ran, and its place among all settings."""
    if len(usable) < 2:
        reasons = " ".join(filter(None, (_reason(setting) for setting in settings[:1])))
        text = f"write-back ran under {len(usable)} of {len(settings)} settings, two are needed; {reasons}"
        return knee.Knee(None, text.strip("; "), None, None), None
    answer = knee.find([_trial(settings[place]) for place in usable])
    return answer, None if answer.place is None else usable[answer.place]


def _trial(setting: Measured) -> knee.Trial:
    return knee.Trial(
        limit=_limit(setting),
        queue=tuple(sorted(setting.queue.items())),
        sequential=tuple(each["sequential"] for each in setting.repetitions),
        recovered=tuple(
            min(_iops(cell) / _iops(each["idle"][name]) for name, cell in each["cells"].items())
            for each in setting.repetitions
        ),
    )


def _iops(cell: t.Mapping[str, t.Any]) -> float:
    """Return the writes per second, at least a part of a write in the time that the cell really took."""
    return float(max(cell["iops"], _PART_OF_A_WRITE / cell["seconds"]))


def _limit(setting: Measured) -> int:
    """Return the dirty limit in bytes: the host's own varies a little with its free memory."""
    return setting.dirty_bytes or int(statistics.median(each["limit"] for each in setting.repetitions))


def _reason(setting: Measured) -> str:
    """Explain why a setting does not count; empty if write-back ran in each of its cells."""
    for each in setting.repetitions:
        for (size, threads), cell in each["cells"].items():
            if not cell["valid"]:
                writers = "1 writer" if threads == 1 else f"{threads} writers"
                return f"{writers} of {size:,} bytes: {cell['reason']}"
    return ""


def _doubt(setting: Measured) -> str:
    """Explain why the figures of a setting are doubtful; empty if its cells met about the same flood."""
    names = setting.repetitions[0]["cells"]
    rates = [
        statistics.median(each["cells"][name]["writeback_per_second"] for each in setting.repetitions) for name in names
    ]
    if max(rates) <= MOST_FLOOD_SPREAD * min(rates):
        return ""
    return (
        f"its cells met different floods, written back at {min(rates) / 1e6:,.0f} to {max(rates) / 1e6:,.0f} MB/s, "
        f"more than {MOST_FLOOD_SPREAD:g} times apart"
    )


def _figures(setting: Measured, baseline: Measured) -> dict[str, t.Any]:
    reason = _reason(setting)
    return {
        "dirty_bytes": setting.dirty_bytes,
        "limit": _limit(setting),
        "queue": dict(setting.queue),
        "refined": setting.refined,
        "valid": not reason,
        "reason": reason,
        "doubt": "" if reason else _doubt(setting),
        "sequential": _spread([each["sequential"] for each in setting.repetitions], 0),
        "sequential_share": _paired(
            [each["sequential"] for each in setting.repetitions], [each["sequential"] for each in baseline.repetitions]
        ),
        "cells": [_cell(name, setting, baseline) for name in setting.repetitions[0]["cells"]],
    }


def _cell(name: tuple[int, int], setting: Measured, baseline: Measured) -> dict[str, t.Any]:
    """Return the figures of one size of writes and number of writers."""
    cells = [each["cells"][name] for each in setting.repetitions]
    idle = [each["idle"][name] for each in setting.repetitions]
    iops = [each["iops"] for each in cells]
    return {
        "write_size": name[0],
        "threads": name[1],
        "seconds": _spread([each["seconds"] for each in cells], 3),
        "fsyncs": _spread([each["fsyncs"] for each in cells], 0),
        "flood_iops": _spread(iops, 2),
        "idle_iops": _spread([each["iops"] for each in idle], 2),
        "of_idle": _paired(iops, [each["iops"] for each in idle]),
        "gain": _paired(iops, [each["cells"][name]["iops"] for each in baseline.repetitions]),
        **{kind: _spread([each[kind] for each in cells], 3) for kind in _TIMES},
        "max_ms": round(max(each["max_ms"] for each in cells), 3),
        "idle_avg_ms": _spread([each["avg_ms"] for each in idle], 3),
        "idle_p95_ms": _spread([each["p95_ms"] for each in idle], 3),
        "idle_max_ms": round(max(each["max_ms"] for each in idle), 3),
        **{kind: _spread([each[kind] for each in cells], 0) for kind in _RATES},
        **{kind: max(each[kind] for each in cells) for kind in _PEAKS},
        "samples": cells[-1]["samples"],
    }


def _spread(values: t.Sequence[float], digits: int) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), digits),
        "min": round(min(values), digits),
        "max": round(max(values), digits),
    }


def _paired(values: t.Sequence[float], base: t.Sequence[float]) -> float | None:
    """Return the median ratio of pairs; None if a value of the base is 0."""
    if not all(base):
        return None
    ratio = statistics.median(value / of for value, of in zip(values, base))
    return round(ratio, 4) if math.isfinite(ratio) else None
