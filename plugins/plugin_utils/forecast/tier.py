# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tier a fleet needs: how slow a page-in may be for every VM to meet the SLO, by the model of the plan."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.plan import (
    NO_FIT,
    UNKNOWN,
    ArmForecast,
    CellDemand,
)

# The shapes of a drive's latency: p99 over average. A lognormal distribution cannot have more than 14.9.
TAILS = (2, 4, 8)
# The search ends at limits this close, as a factor.
_PRECISION = 1.005
_FASTEST_US, _SLOWEST_US = 0.01, 1e6

AVERAGE, P99, RATE = "average", "p99", "rate"


def needed(arm: ArmForecast, size: int) -> dict[str, t.Any]:
    """Return the slowest tier with which a fleet of this size meets the SLO, on the machine with the worst figures.

    The tier is the last one of the profile: under zswap, the drive behind it.

    Returns:
        C(profile), C(size), C(machine), C(tier), and C(cells), each with C(influence), C(read_mix),
        C(page_ins_per_second) that the tier must deliver, and C(limits): for each of TAILS C(tail), and the largest
        C(avg_us) and C(p99_us), with C(decided_by), the part of the SLO that decides. C(limits) is None if no request
        waits for the tier, and empty if no tier is fast enough. C(all_cells) has the limits of all cells together.
        C(reasons) explains why there are no cells: the fleet does not fit, whatever the latency of the tier.
    """
    forecast = arm.fleet(size)
    found = {"profile": arm.profile, "size": size, "machine": forecast["machine"], "tier": forecast["tier"]}
    if forecast["verdict"] in (UNKNOWN, NO_FIT):
        return {**found, "cells": [], "all_cells": [], "reasons": forecast["reasons"]}
    host = next(each for each in arm.hosts if each.name == forecast["machine"])
    demands = arm.demands(host, forecast["on_machine"])
    *_faster, kind = demands[0].waiting or ["none"]
    cells = [_of_cell(arm, demand, kind) for demand in demands]
    waiting = [cell["limits"] for cell in cells if cell["limits"] is not None]
    return {**found, "tier": kind, "cells": cells, "all_cells": _smallest(waiting), "reasons": []}


def _of_cell(arm: ArmForecast, demand: CellDemand, kind: str) -> dict[str, t.Any]:
    limits = None
    if demand.waiting.get(kind):
        limits = [limit for limit in (_limit(arm, demand, kind, tail) for tail in TAILS) if limit]
    return {**demand.cell, "page_ins_per_second": round(demand.page_ins.get(kind, 0.0), 1), "limits": limits}


def _limit(arm: ArmForecast, demand: CellDemand, kind: str, tail: float) -> dict[str, t.Any] | None:
    """Return the slowest tier whose p99 is this multiple of its average; None if even the fastest misses the SLO."""

    def estimate(average: float) -> dict[str, t.Any]:
        tiers = {**arm.options["tiers"], kind: {"avg_us": average, "p99_us": tail * average}}
        return arm.latency(demand, tiers)

    low, high = _FASTEST_US, _SLOWEST_US
    if not arm.meets_slo(estimate(low)):
        return None
    while high / low > _PRECISION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if arm.meets_slo(estimate(middle)) else (low, middle)
    return {
        "tail": tail,
        "avg_us": round(low, 1),
        "p99_us": round(tail * low, 1),
        "decided_by": _decided_by(arm, estimate(high)),
    }


def _decided_by(arm: ArmForecast, beyond: t.Mapping[str, t.Any]) -> str:
    """Name the part of the SLO that a slightly slower tier misses."""
    if beyond["busy"] >= 1:
        return RATE
    return AVERAGE if beyond["avg_us"] > arm.config["slo"]["avg_us"] else P99


def _smallest(cells: t.Sequence[t.Sequence[t.Mapping[str, t.Any]]]) -> list[t.Mapping[str, t.Any]]:
    """Return for each tail the smallest limit of all cells; none if no tier is fast enough for one of them."""
    found = []
    for tail in TAILS:
        limits = [limit for cell in cells for limit in cell if limit["tail"] == tail]
        if limits and len(limits) == len(cells):
            found.append(min(limits, key=lambda limit: limit["avg_us"]))
    return found
