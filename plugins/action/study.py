# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, choice, number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    ATTEMPTS,
    CHECKED_RUN,
    COST_EXAMPLE,
    PRICES,
    RESULTS_DIR,
    RESUME,
    SITE,
    ControllerAction,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study import attempts as study_attempts
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import (
    ORDERS,
    Arm,
    ablation_arms,
    profile_arms,
    repeated,
    run_names,
    schedule,
    split_names,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.attempts import FINISHED, INVALID
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, publish
from ansible_collections.memstretch.density.plugins.plugin_utils.study.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import (
    DONE,
    PENDING,
    SKIPPED,
    Sequence,
    choose,
    common_settings,
)

FILE = "study.json"


class ActionModule(ControllerAction):
    """Run site.yml under one profile after another, compare the runs, and restore the hosts."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "study_id": {"type": "str"},
        "resume": RESUME,
        "profiles": {"type": "raw"},
        "ablation": {
            "type": "dict",
            "options": {
                "profile": {"type": "str", "required": True},
                "data": {"type": "dict", "required": True},
                "settings": {"type": "raw"},
                "put_back": {"type": "bool", "default": False},
                "reboot": {"type": "bool", "default": False},
            },
        },
        "order": {"type": "str", "default": "interleaved"},
        "rounds": {"type": "raw", "default": 5},
        "attempts": ATTEMPTS,
        "run": CHECKED_RUN,
        "site": SITE,
        "prices": PRICES,
        "cost_example": COST_EXAMPLE,
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        paid = cost.prices("prices", options["prices"], options["cost_example"])
        order = choice("study_order", options["order"], ORDERS)
        rounds = number("study_rounds", options["rounds"], RANGES["study_rounds"])
        limit = number("study_attempts", options["attempts"], RANGES["study_attempts"])
        if options["ablation"] and order != "interleaved":
            raise SettingError(
                f"study_order: {order!r} is not allowed for an ablation; it must be interleaved, since an ablation "
                f"repeats its first arm in each round"
            )
        arms = _arms(options)
        definition = {
            "arms": [arm._asdict() for arm in arms],
            "order": order,
            "rounds": rounds,
            **common_settings(options["run"]),
        }
        kind = "ablation" if options["ablation"] else "study"
        directory, document = choose(
            options["results_dir"], FILE, kind, options["study_id"], definition, options["resume"]
        )
        _enter_runs(document, schedule(arms, order, rounds))
        for line in _opening(directory, document) + site_check.added(document, options["site"]):
            Display().display(line)
        if self._task.check_mode:
            return {"changed": False, "study": {"id": document["id"], "directory": directory.path}}
        with Sequence(directory, FILE, document, bool(task_vars["groups"].get("hypervisors"))) as sequence:
            for arm in arms if kind == "study" else arms[:1]:
                sequence.check(arm.name, arm.variables)
            _run_all(sequence, {arm.name: arm for arm in arms}, limit)
        return {"changed": True, **_conclude(directory, document, paid)}


def _arms(options: t.Mapping[str, t.Any]) -> list[Arm]:
    ablation = options["ablation"]
    if not ablation:
        return profile_arms("profiles", options["profiles"])
    data = ablation["data"]
    if not ablation["reboot"]:
        data = {**data, "kernel_cmdline": {}}
    wanted = split_names("ablation_settings", ablation["settings"]) if ablation["settings"] else []
    return ablation_arms(ablation["profile"], data, wanted, ablation["put_back"])


def _enter_runs(document: dict[str, t.Any], runs: t.Sequence[tuple[Arm, int]]) -> None:
    """Enter the runs into a new document."""
    if not document["runs"]:
        document["runs"] = [
            {"run_id": name, "arm": arm.name, "round": round_, "state": PENDING, "verdict": None, "note": ""}
            for (arm, round_), name in zip(runs, run_names(document["id"], runs))
        ]


def _opening(directory: RunDirectory, document: t.Mapping[str, t.Any]) -> list[str]:
    definition, runs = document["definition"], document["runs"]
    left = [run for run in runs if run["state"] not in DONE]
    rounds = f", {definition['rounds']} runs of each, {definition['order']}" if definition["rounds"] > 1 else ""
    return [
        f"{'Study' if len(left) == len(runs) else 'Resuming study'} {document['id']}: "
        f"{len(definition['arms'])} arms{rounds}",
        f"  {', '.join(arm['name'] for arm in definition['arms'])}",
        f"{len(left)} of {len(runs)} runs to measure; results in {directory.path}",
    ]


def _run_all(sequence: Sequence, arms: t.Mapping[str, Arm], limit: int) -> None:
    """Measure all runs that are not done, with at most C(limit) invalid attempts at each."""
    runs, total = sequence.document["runs"], sequence.document["definition"]["rounds"]

    def is_open(run: t.Mapping[str, t.Any]) -> bool:
        return run["state"] not in DONE and sequence.invalid_attempts(run["run_id"]) < limit

    for position, run in enumerate(runs):
        if not is_open(run):
            continue
        arm = arms[run["arm"]]
        why = _without_effect(sequence, arm)
        if why:
            sequence.say(f"== {arm.name}: skipped, {why}")
            run.update(state=SKIPPED, note=why)
        else:
            left = sum(1 for each in runs[position:] if is_open(each))
            rounds = f", run {run['round']} of {total}" if total > 1 else ""
            sequence.announce(f"Run {position + 1} of {len(runs)}: {arm.name}{rounds}", left)
            about = {"arm": arm.name, "round": run["round"]}
            run.update(sequence.measure_until_valid(run["run_id"], about, arm.variables, limit))
        sequence.save()
    sequence.document["finished"] = all(run["state"] in DONE for run in runs)


def _without_effect(sequence: Sequence, arm: Arm) -> str:
    """Return why an arm of an ablation would repeat another one: no host has its setting, or all hosts had the value
    before.

    The original values are known once the arm with the whole profile has run.
    """
    first = sequence.document["runs"][0]
    if arm.setting is None or first["state"] not in (FINISHED, INVALID):
        return ""
    run = RunDirectory(sequence.directory.results_dir, first["run_id"]).read_json("run.json")
    found = [
        setting
        for record in run["hosts"].values()
        for setting in (record.get("tuning") or {}).get("settings", [])
        if arm.setting in (setting["name"], setting["section"]) or setting["name"].endswith(f" {arm.setting}")
    ]
    if found and all(setting["absent"] for setting in found):
        return "no host has such a setting"
    if found and all(setting["absent"] or setting["original"] == setting["effective"] for setting in found):
        return "the hosts already had this value"
    return ""


def _conclude(
    directory: RunDirectory, document: dict[str, t.Any], paid: t.Mapping[str, t.Any] | None
) -> dict[str, t.Any]:
    """Compare the measured runs, and name the others."""
    measured = [run for run in document["runs"] if run["state"] in (FINISHED, INVALID)]
    repeats = repeated([(arm["name"], arm["variables"]) for arm in document["definition"]["arms"]])
    arms = []
    for arm in document["definition"]["arms"]:
        own = [run for run in measured if run["arm"] == arm["name"]]
        # The figures of an invalid run prove nothing, so it is shown only where an arm has no other.
        own = [run for run in own if run["state"] == FINISHED] or own
        runs = [RunDirectory(directory.results_dir, run["run_id"]) for run in own]
        arms += [ArmRuns(arm["name"], runs, repeats.get(arm["name"]), [run["round"] for run in own])] if runs else []
    result: dict[str, t.Any] = {"study": {"id": document["id"], "directory": directory.path}}
    ledger = study_attempts.summary(document.get("attempts", []))
    directory.write_json(FILE, {**document, "attempts_summary": ledger})
    if len(arms) > 1:
        publish(directory, arms, Display().display, paid, ledger=ledger, site=document["site_checks"])
        Display().display(f"Comparison: {directory.file('comparison.html')}")
    else:
        for line in study_attempts.lines(ledger):
            Display().display(line)
    wrong = [f"{run['run_id']} {run['state']}: {run['note']}" for run in document["runs"] if run["state"] not in DONE]
    if wrong:
        share = f"{len(wrong)} of {len(document['runs'])} runs are not valid"
        advice = (
            "run the same command again to continue with those that have attempts left; a larger "
            "study_attempts allows more, and resume=false begins a new study"
        )
        result.update(failed=True, msg=f"{share}; {advice}. {' | '.join(wrong)}")
    return result
