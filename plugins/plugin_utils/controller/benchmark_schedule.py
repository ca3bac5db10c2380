# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import Task
from ansible_collections.memstretch.density.plugins.plugin_utils.run import timetable
from ansible_collections.memstretch.density.plugins.plugin_utils.run.charged_dram import (
    check_groups,
    hosts_with_budget,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import RANGES


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Tell the callback how far a run is in its schedule; it then waits, collects or writes."""
    state, run, now = options["state"], options["run"], time.time()
    moment: dict[str, t.Any] = {"moment": state, "at": now}
    if state == "planned":
        check_groups(options["released"])
        unfilled = (phase for phase in run["phases"] if phase["kind"] == "fill" and not phase["finished"])
        moment["fill"] = next(unfilled, None)
        gap = _number(options, "gap_seconds")
        moment["plan"] = timetable.plan(run, gap, bool(hosts_with_budget(run)), now)
    elif state == "started":
        lead = options["lead_seconds"]
        moment["start_at"] = round(
            now
            + (
                timetable.lead(options["hosts"], task.variables["ansible_forks"], now - options["plan"]["planned_at"])
                if lead in (None, "")
                else _number(options, "lead_seconds")
            ),
            6,
        )
    elif state == "resumed":
        moment["plan"] = options["plan"]
    return {"changed": False, "benchmark_schedule": moment}


def _number(options: t.Mapping[str, t.Any], name: str) -> t.Any:
    return number(options["option_prefix"] + name, options[name], RANGES[name])
