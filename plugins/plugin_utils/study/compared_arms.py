# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runs of a study that compares arms: which are left, what each showed, and what is concluded from them."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study import attempts as study_attempts
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import Arm, repeated, run_names
from ansible_collections.memstretch.density.plugins.plugin_utils.study.attempts import FINISHED, INVALID
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import ArmRuns, publish
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import DONE, PENDING, SKIPPED, Sequence


def enter_runs(document: dict[str, t.Any], runs: t.Sequence[tuple[Arm, int]]) -> None:
    """Enter the runs into a new document."""
    if not document["runs"]:
        document["runs"] = [
            {"run_id": name, "arm": arm.name, "round": round_, "state": PENDING, "verdict": None, "note": ""}
            for (arm, round_), name in zip(runs, run_names(document["id"], runs))
        ]


def opening(directory: RunDirectory, document: t.Mapping[str, t.Any]) -> list[str]:
    """Return the lines that a study begins with."""
    definition, runs = document["definition"], document["runs"]
    left = [run for run in runs if run["state"] not in DONE]
    rounds = f", {definition['rounds']} runs of each, {definition['order']}" if definition["rounds"] > 1 else ""
    return [
        f"{'Study' if len(left) == len(runs) else 'Resuming study'} {document['id']}: "
        f"{len(definition['arms'])} arms{rounds}",
        f"  {', '.join(arm['name'] for arm in definition['arms'])}",
        f"{len(left)} of {len(runs)} runs to measure; results in {directory.path}",
    ]


def run_all(sequence: Sequence, arms: t.Mapping[str, Arm], limit: int) -> None:
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
    """Explain why an arm of an ablation would repeat another one: no host has its setting, or all hosts had the value
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


def conclude(
    directory: RunDirectory,
    file_name: str,
    document: dict[str, t.Any],
    paid: t.Mapping[str, t.Any] | None,
    say: t.Callable[[str], None],
) -> dict[str, t.Any]:
    """Compare the measured runs, and name the others.

    Args:
        directory: of the study.
        file_name: name of its document.
        document: the study.
        paid: prices, if the cost is shown.
        say: shows a line.

    Returns:
        What the action returns.
    """
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
    directory.write_json(file_name, {**document, "attempts_summary": ledger})
    if len(arms) > 1:
        publish(directory, arms, say, paid, ledger=ledger, site=document["site_checks"])
        say(f"Comparison: {directory.file('comparison.html')}")
    else:
        for line in study_attempts.lines(ledger):
            say(line)
    wrong = [f"{run['run_id']} {run['state']}: {run['note']}" for run in document["runs"] if run["state"] not in DONE]
    if wrong:
        share = f"{len(wrong)} of {len(document['runs'])} runs are not valid"
        advice = (
            "run the same command again to continue with those that have attempts left; a larger "
            "study_attempts allows more, and resume=false begins a new study"
        )
        result.update(failed=True, msg=f"{share}; {advice}. {' | '.join(wrong)}")
    return result
