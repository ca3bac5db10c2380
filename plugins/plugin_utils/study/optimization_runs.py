# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runs of an optimization: each is a site.yml under a profile file of its own."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import charged_dram
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import Arm, run_names
from ansible_collections.memstretch.density.plugins.plugin_utils.study.attempts import FAILED, FINISHED, Ledger
from ansible_collections.memstretch.density.plugins.plugin_utils.study.candidates import (
    Candidate,
    changed_profile,
    profile_name,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization import (
    BASELINE,
    FIGURES,
    Changes,
    Outcome,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import Sequence

_TOGETHER = "all together"


def opening(directory: RunDirectory, document: t.Mapping[str, t.Any], tried: t.Sequence[Candidate]) -> list[str]:
    """Return the lines that a search begins with."""
    definition = document["definition"]
    by_setting: dict[str, list[str]] = {}
    for each in tried:
        by_setting.setdefault(each.setting, []).append(str(each.value))
    return [
        f"{'Resuming the search' if document['runs'] else 'Search'} {document['id']}: {len(tried)} candidates of "
        f"{len(by_setting)} settings of the profile {definition['profile']}",
        *(f"  {setting}: {', '.join(values)}" for setting, values in by_setting.items()),
        f"  screening: {definition['screening_rounds']} rounds before the slower half is dropped; confirmation: "
        f"{definition['rounds']} new rounds; at most {definition['minutes']:g} minutes",
        f"{len(document['runs'])} runs are done; results in {directory.path}",
    ]


class OptimizationRuns:
    """Measures runs, and returns those of an earlier session without measuring them again.

    Args:
        sequence: that runs the playbooks.
        profile: name or path of the profile.
        data: content of the profile.
        candidates: all that the search may try.
        limit: the most invalid attempts at a run.
    """

    def __init__(
        self,
        sequence: Sequence,
        profile: str,
        data: t.Mapping[str, t.Any],
        candidates: t.Sequence[Candidate],
        limit: int,
    ) -> None:
        self._sequence = sequence
        self._profile = profile
        self._data = data
        self._candidates = {each.name: each for each in candidates}
        self._limit = limit
        names = ["baseline", *self._candidates, _TOGETHER]
        arms = [(Arm(name, {}), 1) for name in names]
        self._run_names = dict(zip(names, run_names(sequence.document["id"], arms)))
        self._files = {name: profile_name(profile, f"c{place:02d}") for place, name in enumerate(names)}

    def measure(self, changes: Changes, round_: int, stage: str) -> Outcome:
        """Return the outcome of a run: see C(Measure) in optimization.py.

        Raises:
            RunError: the run of the unchanged profile ended with an error, lost a host, or does not fit.
        """
        document = self._sequence.document
        name = _arm_name(changes)
        run_id = f"{self._run_names[name]}-{round_}"
        entry = next((each for each in document["runs"] if each["arm"] == name and each["round"] == round_), None)
        if entry is None:
            self._sequence.announce(f"Round {round_}, {stage}: {name}")
            about = {"arm": name, "round": round_}
            # Without all of its cells a run could not be compared.
            variables = {"profile": self._profile_of(changes), "latency_benchmark_stop_when_failed": False}
            measured = self._sequence.measure_until_valid(run_id, about, variables, self._limit)
            entry = {**about, "stage": stage, **measured, "cells": None, "unfit": ""}
            entry.update(self._judged(changes, entry))
            document["runs"].append(entry)
            self._sequence.save()
        seconds = sum(each["seconds"] or 0 for each in Ledger(document).of(run_id))
        return Outcome(entry["cells"], seconds, entry["unfit"])

    def _profile_of(self, changes: Changes) -> str:
        """Return the profile with changes: the path of a file, which is written."""
        if not changes:
            return self._profile
        directory, name = self._sequence.directory, self._files[_arm_name(changes)]
        os.makedirs(directory.file("profiles"), exist_ok=True)
        about = f"{self._profile} with {', '.join(changes)}."
        tried = [(self._candidates[each], "A candidate that is being measured.") for each in changes]
        text = changed_profile(self._profile, self._data, name, about, tried)
        directory.write_text(os.path.join("profiles", f"{name}.yml"), text)
        return directory.file("profiles", f"{name}.yml")

    def _judged(self, changes: Changes, entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the figures of a run by cell, or why its changes must not be measured again."""
        unchanged = f"the run of {self._profile}, unchanged,"
        if entry["state"] == FAILED:
            if changes == BASELINE:
                self._forget_failures(entry["round"])
                raise RunError(f"{unchanged} failed: {entry['note']}. Run the same command again to continue")
            return {"unfit": f"the run failed: {entry['note']}"}
        if entry["state"] != FINISHED:
            return {}
        directory = RunDirectory(self._sequence.directory.results_dir, entry["run_id"])
        unfit = _unfit(directory.read_json("summary.json"))
        if unfit and changes == BASELINE:
            raise RunError(
                f"{unchanged} cannot be compared, because {unfit}; choose a smaller fleet (fleet_size), or begin a new "
                f"search (resume=false)"
            )
        unfit = unfit or self._without_effect(changes, directory)
        return {"unfit": unfit} if unfit else {"cells": _cells(directory)}

    def _forget_failures(self, round_: int) -> None:
        """Forget what failed in the round in which the unchanged profile failed too: the reason may be the same."""
        document = self._sequence.document
        document["runs"] = [each for each in document["runs"] if each["round"] != round_ or each["state"] != FAILED]
        self._sequence.save()

    def _without_effect(self, changes: Changes, directory: RunDirectory) -> str:
        """Explain why a candidate repeats the unchanged profile: all hosts have the same value in both, or none."""
        runs = [each for each in self._sequence.document["runs"] if each["arm"] == "baseline" and each["cells"]]
        candidate = self._candidates[changes[0]] if len(changes) == 1 else None
        if not runs or candidate is None or candidate.section == "swap":
            return ""
        unchanged = RunDirectory(directory.results_dir, runs[0]["run_id"])
        mine, other = (_effective(each, candidate) for each in (directory, unchanged))
        if not mine or set(mine.values()) == {None}:
            return "no host has such a setting"
        return "the hosts have the same value without it" if mine == other else ""


def _unfit(summary: t.Mapping[str, t.Any]) -> str:
    """Explain why a finished run must not be compared with others; an empty text if it may be."""
    if charged_dram.is_too_large(summary):
        return "its fleet does not fit into the DRAM budget"
    lost = summary["fleet"]["failed"]
    return f"it lost {', '.join(lost)}" if lost else ""


def _arm_name(changes: Changes) -> str:
    return "baseline" if not changes else changes[0] if len(changes) == 1 else _TOGETHER


def _effective(directory: RunDirectory, candidate: Candidate) -> dict[tuple[str, str], str | None]:
    """Return the value of a setting by host and label, as read from the kernel."""
    return {
        (host, setting["name"]): setting["effective"]
        for host, record in directory.read_json("run.json")["hosts"].items()
        for setting in (record.get("tuning") or {}).get("settings", [])
        if setting["section"] == candidate.section
        and (setting["name"] == candidate.setting or setting["name"].endswith(f" {candidate.setting}"))
    }


def _cells(directory: RunDirectory) -> dict[str, dict[str, float]] | None:
    """Return average and p99 of each cell; None if a cell has none."""
    cells: dict[str, dict[str, float]] = {}
    for name, details in evaluate(directory)[1].items():
        (figures,) = details.runs.values() if details.runs else ({},)
        if not all(figures.get(key) for key in FIGURES):
            return None
        cells[name] = {key: figures[key] for key in FIGURES}
    return cells or None
