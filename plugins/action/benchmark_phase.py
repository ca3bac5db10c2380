# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import ControllerAction
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, progress
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import RANGES

# The lead of the first phase, before any launch has been timed: seconds for each round of forks.
FIRST_ROUND_SECONDS = 2.0
# The lead of later phases is a little more than the last launch took. If a launch is even slower, a host starts late;
# a phase of some seconds can still be valid then, depending on its overlap.
MARGIN = 1.5
MARGIN_SECONDS = 0.4


class ActionModule(ControllerAction):
    """Check that the earlier phases have been written, then choose when this one starts."""

    ARGUMENTS = {
        "run": {"type": "dict", "required": True},
        "phase": {"type": "dict", "required": True},
        "lead_seconds": {"type": "raw"},
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        run, phase = options["run"], options["phase"]
        directory = RunDirectory.at(run["directory"])
        session_started_at = _check_recorded(directory, run)
        futile = progress.futile(directory, run)
        if futile:
            return {"changed": False, "benchmark_stopped": futile}
        last = _last_of_session(directory, run, phase, session_started_at)
        lead = options["lead_seconds"]
        lead = (
            _lead(run, last, task_vars) if lead in (None, "") else number("lead_seconds", lead, RANGES["lead_seconds"])
        )
        now = time.time()
        begun = {
            "phase": phase,
            "begun_at": now,
            "start_at": None if phase["kind"] == "fill" else round(now + lead, 6),  # fills need no common start
        }
        return {"changed": False, "benchmark_phase": begun}


def _check_recorded(directory: RunDirectory, run: t.Mapping[str, t.Any]) -> float:
    """Check that the callback has written run.json, since nothing else would report that it could not.

    Returns:
        When this playbook began or resumed the run.
    """
    try:
        document = directory.read_json("run.json")
    except RunError as error:
        raise RunError(
            f"the callback did not record this run: {error}. Is the disk full? See also the messages above"
        ) from error
    session = document["sessions"][-1]
    if session["id"] != run["session"]:
        raise RunError(f"{directory.path}: another playbook has taken this run over")
    return session["started_at"]


def _last_of_session(
    directory: RunDirectory, run: t.Mapping[str, t.Any], phase: t.Mapping[str, t.Any], session_started_at: float
) -> dict[str, t.Any] | None:
    """Return the document of the phase that this playbook measured last.

    Raises:
        RunError: it was not written, or a host failed in it, so that the run ends.
    """
    before = [each for each in run["phases"] if not each["finished"] and each["index"] < phase["index"]]
    if not before:
        return None
    last = before[-1]
    document = directory.read_phase(last, keep=None)
    if document is None or document["begun_at"] < session_started_at:
        raise RunError(
            f"{directory.file('phases', configuration.file_name(last))} is missing, so its results are lost. "
            f"Is the disk full? Run the same command again; the phases before it are kept"
        )
    if document["failed"]:
        who = "; ".join(f"{host}: {message}" for host, message in document["failed"].items())
        raise RunError(
            f"hosts failed in phase {last['index']} of {last['of']} ({configuration.describe(last)}), "
            f"so the run ends here: {who}. "
            f"Repair them and run the same command again: it begins a new run, and this one is kept"
        )
    return document


def _lead(run: t.Mapping[str, t.Any], last: t.Mapping[str, t.Any] | None, task_vars: t.Mapping[str, t.Any]) -> float:
    """Return how long before the common start the launch begins, so that the slowest host is ready in time."""
    # Observers are launched before the clients. No launch with them has been timed before the first load.
    untimed = last is None or last["phase"]["kind"] == "fill"
    launches = 2 if untimed and any(each.get("observer") for each in run["fleet"].values()) else 1
    if last and last["launch_seconds"] is not None:
        return last["launch_seconds"] * launches * MARGIN + MARGIN_SECONDS
    rounds = math.ceil(len(run["expected"]) / task_vars["ansible_forks"])
    return FIRST_ROUND_SECONDS * rounds * launches
