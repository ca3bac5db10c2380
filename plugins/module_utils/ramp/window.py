# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of a ramp: as its record has it, and in short, for what the conductor decides."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.ramp import decisions
from ansible_collections.memstretch.density.plugins.module_utils.ramp.machine import Moment
from ansible_collections.memstretch.density.plugins.module_utils.ramp.members import BOUNDS, load_of
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram, encode


def was_steady(window: t.Mapping[str, t.Any]) -> bool:
    """Return whether reclaim was steady in a window of a hold, before which nobody waits for that."""
    machine = window["machines"][""]
    ins, outs = ((machine[name] or 0) / window["seconds"] for name in ("page_ins", "page_outs"))
    return decisions.is_steady(ins, outs)


def encoded(load: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a load with its histograms as the record of a ramp has them."""
    result = dict(load)
    for name in BOUNDS.values():
        counts = load[name]["counts"]
        result[name] = {
            "count": sum(counts.values()),
            **{figure: load[name][figure] for figure in ("sum_ns", "min_ns", "max_ns")},
            "histogram": encode(counts),
        }
    return result


_Seconds = t.Sequence[t.Mapping[int, t.Mapping[str, t.Any]]]


def second_of(second: int, fleet: _Seconds, references: _Seconds) -> dict[str, t.Any]:
    """Return what the clients of all servers together have reported for one second.

    Args:
        second: since 1970.
        fleet, references: what each of their clients has reported, by second.
    """
    loads = (encoded(load_of([each[second] for each in of if second in each])) for of in (fleet, references))
    of_fleet, beside = ({name: load[name] for name in BOUNDS.values()} for load in loads)
    return {"fleet": of_fleet, "references": beside}


def _merged(loads: t.Iterable[t.Mapping[str, t.Any]], bound: str) -> Histogram:
    merged = Histogram()
    for load in loads:
        for slot, count in load[bound]["counts"].items():
            merged.counts[slot] = merged.counts.get(slot, 0) + count
        merged.sum_ns += load[bound]["sum_ns"]
        highest = load[bound]["max_ns"]
        if highest is not None:
            merged.max_ns = highest if merged.max_ns is None else max(merged.max_ns, highest)
    return merged


def figures(
    hosts: t.Mapping[str, t.Any],
    references: t.Mapping[str, t.Any],
    machine: t.Mapping[str, t.Any],
    moments: t.Sequence[Moment],
) -> decisions.Figures:
    """Return a window in short, by its lower bounds."""
    took = moments[-1].clock - moments[0].clock
    fleet, beside = (_average_and_p99(_merged(loads.values(), "lower")) for loads in (hosts, references))
    return decisions.Figures(
        *fleet, *beside, (machine["page_ins"] or 0) / took, (machine["tier_cpu_seconds"] or 0.0) / took
    )


def _average_and_p99(histogram: Histogram) -> tuple[float | None, float | None]:
    """Return them in nanoseconds; None if nothing is known: without requests, and where a lower bound is 0."""
    if not histogram.count:
        return None, None
    return histogram.sum_ns / histogram.count or None, histogram.percentiles([99.0])[0] or None
