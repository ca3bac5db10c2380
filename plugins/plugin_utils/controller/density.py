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
from ansible_collections.memstretch.density.plugins.plugin_utils.density.together import OfMachine, publish_all
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.machines import Machine
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.machines import machines as machines_of_density
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.plan import (
    has_vms,
    machines_of,
    plan_of,
    references_of,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted, listed
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration, site_check
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
_MACHINE, _CONTAINER, _VM = "Redis server", "Redis container", "VM"
# Options that the plan of a ramp is made of; density_ and the name is the variable of the playbook.
_PLAN = (
    *("budget", "max", "references", "growth", "window", "settle", "wait", "max_stolen"),
    *("hold", "touch", "factor", "written", "image"),
)


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Let the fleet grow under each profile, round after round; say what fits, and restore the hosts."""
    paid = cost.prices("prices", options["prices"], options["cost_example"])
    arms = profile_arms("profiles", options["profiles"], at_least=1)
    definition = _definition(arms, options, task.variables)
    directory, document = choose(
        options["results_dir"], FILE, "density", options["density_id"], definition, options["resume"]
    )
    machines = machines_of_density(directory, document, task.variables["groups"]["hypervisors"])
    # Not of a task that only checks, because the one that measures follows in the same playbook.
    if not task.check_mode or task.variables.get("ansible_check_mode"):
        for line in [*_opening(directory, document, machines), *site_check.added(document, options["site"])]:
            Display().display(line)
    if task.check_mode:
        # A finished density starts no server any more.
        plans = {} if document.get("finished") else {machine.name: machine.plan for machine in machines}
        return {"changed": False, "profiles": [arm.variables["profile"] for arm in arms], "plans": plans}
    with Sequence(directory, FILE, document, True, quiet=True, sets_up=False) as sequence:
        _Ramps(sequence, arms, machines).run()
    document["finished"] = True
    found = _published(directory, document, machines, paid)
    if not any(density for machine in machines for density in machine.found().values()):
        raise RunError(sentence.sentence(machines[0].document))
    return {"changed": True, "density": {"id": document["id"], "directory": directory.path, "found": found}}


def _definition(
    arms: t.Sequence[Arm], options: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """Return what a density is of. All settings are checked here, before anything is touched."""
    hostvars = task_vars["hostvars"]
    given = {"slo": options["slo"], **{f"density_{name}": options[name] for name in _PLAN}}
    groups = task_vars["groups"]
    plans = {
        machine: plan_of(given, fleet, hostvars, references_of(groups, hostvars, machine))
        for machine, fleet in machines_of(groups, hostvars).items()
    }
    (first, plan), *others = plans.items()
    for machine, other in others:
        for name in ("load", "objective"):
            if other[name] != plan[name]:
                raise SettingError(
                    f"fleet: the {name} of the servers on {machine} is not that of those on {first} "
                    f"({'; '.join(configuration.differences(plan[name], other[name])[:3])}); a density has one"
                )
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
        "machine": _VM if has_vms(plan["servers"]) else _CONTAINER if "image" in plan else _MACHINE,
        **({"plans": plans} if others else {"plan": plan}),
    }


def _once(given: t.Any, names: t.Sequence[str]) -> list[str]:
    """Return the profiles that have one ramp."""
    once = split_names("density_once", given) if given else []
    unknown = [name for name in once if name not in names]
    if unknown:
        raise SettingError(f"density_once: {unknown[0]} is not allowed; it must be of the profiles {', '.join(names)}")
    return once


def _published(
    directory: RunDirectory,
    document: dict[str, t.Any],
    machines: t.Sequence[Machine],
    paid: t.Mapping[str, t.Any] | None,
) -> dict[str, t.Any]:
    """Publish the answer of the only machine, or those of several and their sum; return the densities."""
    if len(machines) == 1:
        publish.publish(directory, document, Display().display, paid)
        return machines[0].found()
    answers = {machine.name: OfMachine(machine.directory, machine.document) for machine in machines}
    publish_all(directory, document, answers, Display().display, paid)
    return {machine.name: machine.found() for machine in machines}


def _opening(directory: RunDirectory, document: t.Mapping[str, t.Any], machines: t.Sequence[Machine]) -> list[str]:
    definition = document["definition"]
    done = sum(len(machine.records()) for machine in machines)
    return [
        f"{'Resuming density' if done else 'Density'} {document['id']}: {', '.join(definition['arms'])}",
        *(
            f"  {machine.label}up to {counted(len(machine.plan['servers']), definition['machine'])} under each "
            f"profile, in {counted(definition['rounds'], 'round')}"
            for machine in machines
        ),
        f"{counted(done, 'ramp')} done; results in {directory.path}, all output in log.txt there",
    ]


class _Ramps:
    """The ramps of a density. All machines conduct theirs at the same time, and each as its own earlier ones suggest.

    Args:
        sequence: of its playbooks.
        arms: the profiles.
        machines: the hypervisors.
    """

    def __init__(self, sequence: Sequence, arms: t.Sequence[Arm], machines: t.Sequence[Machine]) -> None:
        self._sequence, self._arms, self._machines = sequence, arms, machines
        self._definition = sequence.document["definition"]

    def run(self) -> None:
        """Conduct the ramps that no earlier session has finished, then the holds, and keep what is known after each."""
        for machine in self._machines:
            machine.directory.make()
            os.makedirs(machine.directory.file("ramps"), exist_ok=True)
        self._judge()
        once = self._definition["once"]
        planned = schedule(self._arms, "interleaved", self._definition["rounds"])
        order = [(arm, number_) for arm, number_ in planned if number_ == 1 or arm.name not in once]
        for place, (arm, number_) in enumerate(order, 1):
            file = _file(arm.name, number_)
            left = [machine for machine in self._machines if not machine.has(file)]
            if left:
                self._sequence.announce(f"Ramp {place} of {len(order)}: {arm.name}, round {number_}")
                self._conduct(arm, [self._ramp(machine, arm, number_) for machine in left])
        if any(machine.plan.get("hold_seconds") for machine in self._machines):
            for arm in self._arms:
                self._hold(arm)

    def _ramp(self, machine: Machine, arm: Arm, number_: int) -> _Job:
        """Return a ramp on a machine, with its sizes."""
        records = machine.records()
        planned = sizes.planned(
            sizes.found(machine.document, records, arm.name),
            sizes.fitting(records, self._arms[0].name),
            len(machine.plan["servers"]),
            machine.plan["growth"],
            f"{machine.document['id']} {arm.name} {number_}",
            sizes.is_capacity(machine.document, arm.name),
        )
        plan = {**machine.plan, "hold_seconds": 0, "sizes": planned.sizes, "growth": planned.growth}
        return _Job(machine, number_, _file(arm.name, number_), plan)

    def _hold(self, arm: Arm) -> None:
        """Hold the lower end of what was found; a smaller fleet where that did not hold."""
        while True:
            to_hold = [(machine, sizes.to_hold(machine.entry(arm.name))) for machine in self._machines]
            jobs = [self._held(machine, arm, size) for machine, size in to_hold if size is not None]
            if not jobs:
                return
            held = listed([str(job.plan["sizes"][-1]) for job in jobs])
            self._sequence.announce(f"Hold of {held} under {arm.name}")
            self._conduct(arm, jobs)

    @staticmethod
    def _held(machine: Machine, arm: Arm, size: int) -> _Job:
        tried = len(machine.entry(arm.name)["hold"]) + 1
        plateau = machine.document["plateau"]
        planned = sizes.after_idle([size], plateau and plateau["fits"])
        plan = {**machine.plan, "servers": machine.plan["servers"][:size], "sizes": planned}
        return _Job(machine, tried, _file(arm.name, f"hold-{tried}"), plan)

    def _conduct(self, arm: Arm, jobs: t.Sequence[_Job]) -> None:
        """Conduct ramps, each on its machine, and show and keep what is known then."""
        given = {"arm": arm.name, "of": {job.machine.name: job.variables() for job in jobs}}
        self._sequence.prepare("parts/ramp", {**arm.variables, "density_ramp": given}, f"the ramp of {arm.name} failed")
        self._judge()
        for machine in self._machines:
            self._sequence.say(machine.label + live.known(machine.document))

    def _judge(self) -> None:
        """Add to the documents what the finished ramps say."""
        for machine in self._machines:
            machine.document.update(answer(machine.document["definition"], machine.records()))
        self._sequence.save()
        for machine in self._machines:
            if machine.document["arms"]:
                publish.write(machine.directory, machine.document)


class _Job(t.NamedTuple):
    """A ramp on a machine: its number, the file of its record, and its plan."""

    machine: Machine
    number: int
    file: str
    plan: t.Mapping[str, t.Any]

    def variables(self) -> dict[str, t.Any]:
        """Return it for parts/ramp.yml."""
        aim, plateau = dict(self.plan["objective"]), self.machine.document["plateau"]
        if aim["kind"] == RELATIVE and plateau:
            aim["plateau"] = {name: plateau[name] for name in (*FIGURES, "fits")}
        plan = {**self.plan, "objective": aim}
        return {"round": self.number, "directory": self.machine.directory.path, "file": self.file, "plan": plan}


def _file(arm: str, name: t.Any) -> str:
    return f"ramps/{arm}-{name}.json"
