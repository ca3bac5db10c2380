# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    RESULTS_DIR,
    RESUME,
    ControllerAction,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.plan import plan_of
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import profile_arms
from ansible_collections.memstretch.density.plugins.plugin_utils.study.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import Sequence, choose

FILE = "ramps.json"


class ActionModule(ControllerAction):
    """Run a ramp under each profile, round after round, and restore the hosts."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "density_id": {"type": "str"},
        "resume": RESUME,
        "profiles": {"type": "raw", "required": True},
        "rounds": {"type": "raw", "default": 1},
        "plan": {"type": "dict", "default": {}},
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        arms = profile_arms("profiles", options["profiles"], at_least=1)
        rounds = number("density_rounds", options["rounds"], RANGES["density_rounds"])
        hypervisors = task_vars["groups"].get("hypervisors", [])
        if len(hypervisors) != 1:
            raise SettingError(
                f"hypervisors: the group has {len(hypervisors)} hosts; a ramp of instances needs exactly one, on which "
                "they run"
            )
        plan = plan_of(options["plan"], task_vars["groups"].get("fleet", []), task_vars["hostvars"])
        definition = {"arms": [arm._asdict() for arm in arms], "rounds": rounds, "plan": plan}
        directory, document = choose(
            options["results_dir"], FILE, "ramps", options["density_id"], definition, options["resume"]
        )
        result = {"id": document["id"], "directory": directory.path}
        Display().display(f"Ramps of {', '.join(arm.name for arm in arms)}; results in {directory.path}")
        if self._task.check_mode:
            return {"changed": False, "ramps": result}
        with Sequence(directory, FILE, document, bool(hypervisors), quiet=True) as sequence:
            os.makedirs(directory.file("ramps"), exist_ok=True)
            for round_number in range(1, rounds + 1):
                for arm in arms:
                    _conduct(sequence, directory, plan, arm.name, arm.variables, round_number)
        document["finished"] = True
        directory.write_json(FILE, document)
        return {"changed": True, "ramps": result}


def _conduct(
    sequence: Sequence,
    directory: RunDirectory,
    plan: t.Mapping[str, t.Any],
    arm: str,
    variables: t.Mapping[str, t.Any],
    round_number: int,
) -> None:
    """Conduct a ramp, unless an earlier session did."""
    file = f"ramps/{arm}-{round_number}.json"
    if _is_finished(directory, file):
        return
    sequence.announce(f"Round {round_number}, {arm}")
    given = {"arm": arm, "round": round_number, "directory": directory.path, "file": file, "plan": dict(plan)}
    sequence.prepare("parts/ramp", {**variables, "density_ramp": given}, f"the ramp of {arm} failed")


def _is_finished(directory: RunDirectory, file: str) -> bool:
    if not os.path.exists(directory.file(file)):
        return False
    end = directory.read_json(file)["end"]
    return bool(end) and end["kind"] not in ("interrupted", "error")
