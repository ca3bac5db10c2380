# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When each phase of a run begins: its schedule, worked out before any client is launched."""

from __future__ import annotations

import math
import typing as t

# Nothing is sent in the last part of a gap.
QUIET_SECONDS = 0.05
# The decision whether a host can still meet its SLO takes place in the gap.
GAP_TO_DECIDE_SECONDS = 0.75
# After the warm-up the limit of a DRAM budget is set again, and then stays.
REFIT_SECONDS = 8.0
# Nothing begins after the last phase, so it may take longer.
LAST_SECONDS = 10.0
# To release a host takes a connection that is open, and a shell.
_PER_HOST_SECONDS, _PER_ROUND_SECONDS, _LEAST_LEAD_SECONDS = 0.02, 0.3, 0.5
# Machines on which the launch took long are slow in this, too. A launch that waited for a fill says little.
_SHARE_OF_LAUNCH, _MOST_ROUNDS = 0.25, 12


def plan(run: t.Mapping[str, t.Any], gap: float, has_budget: bool, now: float) -> dict[str, t.Any]:
    """Return the schedule of the phases that are left of a run.

    Args:
        run: what the action C(benchmark_run) returned.
        gap: seconds between two phases.
        has_budget: whether a host has a DRAM budget, whose limit is set again after the first warm-up.
        now: the time, in seconds since the epoch.

    Returns:
        C(session); C(planned_at); C(phases), each as in the run with C(at), the seconds from the start to its
        beginning, C(max_seconds), after which it is cut off, and C(refit), the seconds for which its beginning waits
        for the limit; C(seconds), the length of all; and C(stop), after which a host can no longer pass, if the run
        stops early then.
    """
    config = run["config"]
    stops = bool(config.get("stop_when_failed"))
    gap = max(gap, GAP_TO_DECIDE_SECONDS) if stops else gap
    todo = [phase for phase in run["phases"] if not phase["finished"] and phase["kind"] != "fill"]
    first_iteration = next((phase["index"] for phase in todo if phase["kind"] == "iteration"), None)
    entries: list[dict[str, t.Any]] = []
    at = 0.0
    for phase in todo:
        refit = REFIT_SECONDS if has_budget and entries and phase["index"] == first_iteration else 0.0
        at += refit
        if entries:
            entries[-1]["max_seconds"] = round(at - entries[-1]["at"] - QUIET_SECONDS, 6)
        entries.append({**phase, "at": round(at, 6), "max_seconds": phase["seconds"] + LAST_SECONDS, "refit": refit})
        at += phase["seconds"] + gap
    load, matrix = config["load"], config["matrix"]
    total = matrix["iterations"] * load["requests"]
    stop = {"slo": config["slo"], "total": total, "hosts": len(run["expected"])} if stops else None
    return {
        "session": run["session"],
        "planned_at": now,
        "phases": entries,
        "seconds": round(at - gap, 6) if entries else 0.0,
        "stop": stop,
    }


def lead(hosts: int, forks: int, launch_seconds: float) -> float:
    """Return the seconds from the release to the start, enough for every host to learn of it.

    Args:
        hosts: their number.
        forks: how many are reached at once.
        launch_seconds: what the launch took, with Python on each host, and the fill.
    """
    usual = _PER_HOST_SECONDS * hosts + _PER_ROUND_SECONDS * math.ceil(hosts / forks)
    return _LEAST_LEAD_SECONDS + max(usual, min(_SHARE_OF_LAUNCH * launch_seconds, _MOST_ROUNDS * usual))
