# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, choice, number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    Task,
    refuse_options_of_others,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.study import compared_arms, optimized_profile
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import (
    ORDERS,
    Arm,
    ablation_arms,
    profile_arms,
    schedule,
    split_names,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.candidates import Candidate, candidates
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization import (
    FIGURES,
    Optimization,
    SearchSettings,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization_runs import (
    OptimizationRuns,
    opening,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import Sequence, choose, common_settings

Options = t.Mapping[str, t.Any]

# What each kind of study reads, in addition to what all kinds do.
OPTIONS_OF = {
    "profiles": ("profiles", "order", "prices", "cost_example"),
    "ablation": ("profile", "data", "settings", "put_back", "reboot", "prices", "cost_example"),
    "optimize": ("profile", "data", "settings", "figure", "screening_rounds", "minutes"),
}
COMPARED, OPTIMIZED = "study.json", "optimize.json"


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Run site.yml many times, compare the runs or search for better values, and restore the hosts."""
    kind = options["kind"]
    refuse_options_of_others("kind", kind, task.given, OPTIONS_OF)
    if kind != "profiles" and not (options["profile"] and options["data"]):
        raise SettingError(f"profile, data: both are needed with kind={kind}, the name and content of a profile")
    return _optimize(options, task) if kind == "optimize" else _compare(options, task)


def _compare(options: Options, task: Task) -> dict[str, t.Any]:
    """Compare profiles, or the settings of one."""
    paid = cost.prices("prices", options["prices"], options["cost_example"])
    order = choice("study_order", options["order"], ORDERS)
    rounds = number("study_rounds", 5 if options["rounds"] is None else options["rounds"], RANGES["study_rounds"])
    limit = number("study_attempts", options["attempts"], RANGES["study_attempts"])
    ablation = options["kind"] == "ablation"
    arms = _ablation(options) if ablation else profile_arms("profiles", options["profiles"])
    definition = {
        "arms": [arm._asdict() for arm in arms],
        "order": order,
        "rounds": rounds,
        **common_settings(options["run"]),
    }
    directory, document = choose(
        options["results_dir"],
        COMPARED,
        "ablation" if ablation else "study",
        options["study_id"],
        definition,
        options["resume"],
    )
    compared_arms.enter_runs(document, schedule(arms, order, rounds))
    _open(task, compared_arms.opening(directory, document) + site_check.added(document, options["site"]))
    if task.check_mode:
        profiles = list(dict.fromkeys(arm.variables["profile"] for arm in arms))
        return {"changed": False, "study": {"id": document["id"], "directory": directory.path, "profiles": profiles}}
    with Sequence(directory, COMPARED, document, _has_hypervisors(task)) as sequence:
        for arm in arms[:1] if ablation else arms:
            sequence.check(arm.name, arm.variables)
        compared_arms.run_all(sequence, {arm.name: arm for arm in arms}, limit)
    return {
        "changed": True,
        **compared_arms.conclude(directory, COMPARED, document, paid, Display().display),
    }


def _optimize(options: Options, task: Task) -> dict[str, t.Any]:
    """Search the candidates of a profile's settings for those that beat the profile."""
    limit = number("study_attempts", options["attempts"], RANGES["study_attempts"])
    definition = _search(options)
    if not _has_hypervisors(task):
        raise SettingError("hypervisors: this group is empty, so there is no host to tune; add the hosts to it")
    directory, document = choose(
        options["results_dir"], OPTIMIZED, "optimize", options["study_id"], definition, options["resume"]
    )
    tried = [Candidate(**each) for each in definition["candidates"]]
    _open(task, opening(directory, document, tried) + site_check.added(document, options["site"]))
    found = {"id": document["id"], "directory": directory.path}
    if task.check_mode:
        return {"changed": False, "study": found}
    with Sequence(directory, OPTIMIZED, document, _has_hypervisors(task)) as sequence:
        sequence.check(options["profile"], {"profile": options["profile"]})
        runs = OptimizationRuns(sequence, definition["profile"], definition["data"], tried, limit)
        how = SearchSettings(
            definition["figure"], definition["screening_rounds"], definition["rounds"], 60 * definition["minutes"]
        )
        settings = {each.name: each.setting for each in tried}
        document["result"] = Optimization(settings, runs.measure, how, sequence.say).run()
    document["finished"] = True  # only now, so that the same command restores the hosts if this one was killed
    path = optimized_profile.publish(directory, OPTIMIZED, document, Display().display)
    return {"changed": True, "study": {**found, "profile": path, "proposed": document["result"]["proposed"]}}


def _open(task: Task, lines: t.Iterable[str]) -> None:
    """Show the lines; not of a task that only checks, because the one that measures follows in the same playbook."""
    if not task.check_mode or task.variables.get("ansible_check_mode"):
        for line in lines:
            Display().display(line)


def _has_hypervisors(task: Task) -> bool:
    return bool(task.variables["groups"].get("hypervisors"))


def _wanted(options: Options) -> list[str]:
    return split_names("study_settings", options["settings"]) if options["settings"] else []


def _ablation(options: Options) -> list[Arm]:
    """Return the arms of an ablation."""
    data = options["data"]
    if not options["reboot"]:
        data = {**data, "kernel_cmdline": {}}
    return ablation_arms(options["profile"], data, _wanted(options), options["put_back"])


def _search(options: Options) -> dict[str, t.Any]:
    """Return the settings of a search."""
    given = {**options, "rounds": 12 if options["rounds"] is None else options["rounds"]}
    ranges = {
        "screening_rounds": RANGES["study_screening_rounds"],
        "rounds": RANGES["study_confirmation_rounds"],
        "minutes": RANGES["study_minutes"],
    }
    data = json.loads(json.dumps(options["data"]))  # plain values, as they come back from the document
    profile = str(options["profile"])
    return {
        "profile": profile,
        "data": data,
        "candidates": [each._asdict() for each in candidates(profile, data, _wanted(options))],
        "figure": choice("study_figure", options["figure"], FIGURES),
        **{name: number(f"study_{name}", given[name], allowed) for name, allowed in ranges.items()},
        **common_settings(options["run"]),
    }
