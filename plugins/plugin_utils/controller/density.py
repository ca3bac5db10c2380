# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, choice, number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import Task
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.density import live, publish, sentence, sizes
from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import (
    DRAM,
    EVERY,
    FLEET_ONLY,
    answer,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.density.objective import FIGURES, RELATIVE
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp import record
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.plan import plan_of, refuse_other_fleets
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import (
    Arm,
    profile_arms,
    schedule,
    split_names,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import Sequence, choose

FILE = "density.json"
# What the fleet consists of, as the answer names one of it.
_MACHINE = "Redis server"
# Options that the plan of a ramp is made of; density_ and the name is the variable of the playbook.
_PLAN = ("budget", "max", "references", "growth", "window", "settle", "wait", "hold", "touch", "factor", "written")


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Let the fleet grow under each profile, round after round; say what fits, and restore the hosts."""
    paid = cost.prices("prices", options["prices"], options["cost_example"])
    arms = profile_arms("profiles", options["profiles"], at_least=1)
    definition = _definition(arms, options, task.variables)
    if task.check_mode:
        return {"changed": False, "profiles": [arm.variables["profile"] for arm in arms]}
    directory, document = choose(
        options["results_dir"], FILE, "density", options["density_id"], definition, options["resume"]
    )
    for line in [*_opening(directory, document, arms), *site_check.added(document, options["site"])]:
        Display().display(line)
    with Sequence(directory, FILE, document, True, quiet=True, sets_up=False) as sequence:
        _Ramps(sequence, arms).run()
    document["finished"] = True
    publish.publish(directory, document, Display().display, paid)
    found = {arm["name"]: arm["density"] for arm in document["arms"]}
    if not any(found.values()):
        raise RunError(sentence.sentence(document))
    return {"changed": True, "density": {"id": document["id"], "directory": directory.path, "found": found}}


def _definition(
    arms: t.Sequence[Arm], options: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """Return what a density is of. All settings are checked here, before anything is touched."""
    refuse_other_fleets(task_vars["groups"], task_vars["hostvars"])
    given = {"slo": options["slo"], **{f"density_{name}": options[name] for name in _PLAN}}
    plan = plan_of(given, task_vars["groups"].get("fleet", []), task_vars["hostvars"])
    if plan["objective"]["kind"] == RELATIVE and arms[0].name != DRAM:
        raise SettingError(
            f"profiles: {', '.join(arm.name for arm in arms)} is not allowed; with slo={RELATIVE} the first must be "
            f"{DRAM}, whose ramps say how fast a server in DRAM is"
        )
    return {
        "arms": [arm.name for arm in arms],
        "profiles": {arm.name: arm.variables for arm in arms},
        "once": _once(options["once"], [arm.name for arm in arms]),
        "rounds": number("density_rounds", options["rounds"], RANGES["density_rounds"]),
        "objective": plan["objective"],
        "scope": choice("slo_scope", options["scope"], (EVERY, FLEET_ONLY)),
        "budget_bytes": plan["budget_bytes"],
        "load": plan["load"],
        "machine": _MACHINE,
        "plan": plan,
    }


def _once(given: t.Any, names: t.Sequence[str]) -> list[str]:
    """Return the profiles that have one ramp."""
    once = split_names("density_once", given) if given else []
    unknown = [name for name in once if name not in names]
    if unknown:
        raise SettingError(f"density_once: {unknown[0]} is not allowed; it must be of the profiles {', '.join(names)}")
    return once


def _opening(directory: RunDirectory, document: t.Mapping[str, t.Any], arms: t.Sequence[Arm]) -> list[str]:
    definition = document["definition"]
    done = len(_records(directory))
    return [
        f"{'Resuming density' if done else 'Density'} {document['id']}: {', '.join(arm.name for arm in arms)}",
        f"  up to {counted(len(definition['plan']['servers']), definition['machine'])} under each profile, in "
        f"{counted(definition['rounds'], 'round')}",
        f"{counted(done, 'ramp')} done; results in {directory.path}, all output in log.txt there",
    ]


class _Ramps:
    """The ramps of a density.

    Args:
        sequence: of its playbooks.
        arms: the profiles.
    """

    def __init__(self, sequence: Sequence, arms: t.Sequence[Arm]) -> None:
        self._sequence, self._arms = sequence, arms
        self._directory, self._document = sequence.directory, sequence.document
        self._definition = self._document["definition"]

    def run(self) -> None:
        """Conduct the ramps that no earlier session has finished, then the holds, and keep what is known after each."""
        os.makedirs(self._directory.file("ramps"), exist_ok=True)
        self._judge()
        once = self._definition["once"]
        planned = schedule(self._arms, "interleaved", self._definition["rounds"])
        order = [(arm, number_) for arm, number_ in planned if number_ == 1 or arm.name not in once]
        for place, (arm, number_) in enumerate(order, 1):
            if not _is_finished(self._directory, _file(arm.name, number_)):
                self._sequence.announce(f"Ramp {place} of {len(order)}: {arm.name}, round {number_}")
                self._conduct(arm, number_, _file(arm.name, number_), self._plan(arm, number_))
        if self._definition["plan"].get("hold_seconds"):
            for arm in self._arms:
                self._hold(arm)

    def _plan(self, arm: Arm, number_: int) -> dict[str, t.Any]:
        """Return the plan of a ramp, with its sizes."""
        plan = self._definition["plan"]
        planned = sizes.planned(
            sizes.found(self._document, _records(self._directory), arm.name),
            sizes.fitting(_records(self._directory), self._arms[0].name),
            len(plan["servers"]),
            plan["growth"],
            f"{self._document['id']} {arm.name} {number_}",
            sizes.is_capacity(self._document, arm.name),
        )
        return {**plan, "hold_seconds": 0, "sizes": planned.sizes, "growth": planned.growth}

    def _hold(self, arm: Arm) -> None:
        """Hold the lower end of what was found; a smaller fleet where that did not hold."""
        while (size := sizes.to_hold(self._entry(arm))) is not None:
            tried = len(self._entry(arm)["hold"]) + 1
            self._sequence.announce(f"Hold of {size} under {arm.name}")
            file = _file(arm.name, f"hold-{tried}")
            plan = self._definition["plan"]
            self._conduct(arm, tried, file, {**plan, "servers": plan["servers"][:size], "sizes": [size]})

    def _entry(self, arm: Arm) -> dict[str, t.Any]:
        return next((each for each in self._document["arms"] if each["name"] == arm.name), {"density": None})

    def _conduct(self, arm: Arm, number_: int, file: str, plan: t.Mapping[str, t.Any]) -> None:
        """Conduct a ramp, and show and keep what is known then."""
        aim = dict(plan["objective"])
        if aim["kind"] == RELATIVE and self._document["plateau"]:
            aim["plateau"] = {figure: self._document["plateau"][figure] for figure in FIGURES}
        given = {
            "arm": arm.name,
            "round": number_,
            "directory": self._directory.path,
            "file": file,
            "plan": {**plan, "objective": aim},
        }
        self._sequence.prepare("parts/ramp", {**arm.variables, "density_ramp": given}, f"the ramp of {arm.name} failed")
        self._judge()
        self._sequence.say(live.known(self._document))

    def _judge(self) -> None:
        """Add to the document what the finished ramps say."""
        self._document.update(answer(self._definition, _records(self._directory)))
        self._sequence.save()
        if self._document["arms"]:
            publish.write(self._directory, self._document)


def _file(arm: str, name: t.Any) -> str:
    return f"ramps/{arm}-{name}.json"


def _is_finished(directory: RunDirectory, file: str) -> bool:
    return os.path.exists(directory.file(file)) and record.is_finished(directory.read_json(file))


def _records(directory: RunDirectory) -> list[dict[str, t.Any]]:
    """Return the records of the finished ramps."""
    root = directory.file("ramps")
    files = [f"ramps/{name}" for name in sorted(os.listdir(root) if os.path.isdir(root) else ())]
    return [directory.read_json(file) for file in files if file.endswith(".json") and _is_finished(directory, file)]
