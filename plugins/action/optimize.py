# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, choice, number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    ATTEMPTS,
    CHECKED_RUN,
    RESULTS_DIR,
    RESUME,
    SITE,
    ControllerAction,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study import optimized_profile
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import split_names
from ansible_collections.memstretch.density.plugins.plugin_utils.study.candidates import Candidate, candidates
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization import (
    FIGURES,
    Optimization,
    SearchSettings,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.optimization_runs import OptimizationRuns
from ansible_collections.memstretch.density.plugins.plugin_utils.study.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import (
    Sequence,
    choose,
    common_settings,
)

FILE = "optimize.json"


class ActionModule(ControllerAction):
    """Search the candidates of a profile's settings for those that beat the profile, and restore the hosts."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "optimize_id": {"type": "str"},
        "resume": RESUME,
        "profile": {"type": "str", "required": True},
        "data": {"type": "dict", "required": True},
        "settings": {"type": "raw"},
        "figure": {"type": "str", "default": FIGURES[0]},
        "screening_rounds": {"type": "raw", "default": 2},
        "rounds": {"type": "raw", "default": 12},
        "minutes": {"type": "raw", "default": 240},
        "attempts": ATTEMPTS,
        "run": CHECKED_RUN,
        "site": SITE,
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        definition, limit = _definition(options)
        if not task_vars["groups"].get("hypervisors"):
            raise SettingError("hypervisors: this group is empty, so there is no host to tune; add the hosts to it")
        directory, document = choose(
            options["results_dir"], FILE, "optimize", options["optimize_id"], definition, options["resume"]
        )
        tried = [Candidate(**each) for each in definition["candidates"]]
        for line in _opening(directory, document, tried) + site_check.added(document, options["site"]):
            Display().display(line)
        search = {"id": document["id"], "directory": directory.path}
        if self._task.check_mode:
            return {"changed": False, "optimize": search}
        with Sequence(directory, FILE, document, hypervisors=True) as sequence:
            sequence.check(options["profile"], {"profile": options["profile"]})
            runs = OptimizationRuns(sequence, definition["profile"], definition["data"], tried, limit)
            how = SearchSettings(
                definition["figure"], definition["screening_rounds"], definition["rounds"], 60 * definition["minutes"]
            )
            settings = {each.name: each.setting for each in tried}
            document["result"] = Optimization(settings, runs.measure, how, sequence.say).run()
        document["finished"] = True  # only now, so that the same command restores the hosts if this one was killed
        path = optimized_profile.publish(directory, FILE, document, Display().display)
        return {"changed": True, "optimize": {**search, "profile": path, "proposed": document["result"]["proposed"]}}


def _definition(options: t.Mapping[str, t.Any]) -> tuple[dict[str, t.Any], int]:
    """Return the settings of the search, and the most invalid attempts at a run."""
    figure = choice("optimize_figure", options["figure"], FIGURES)
    numbers = {
        name: number(f"optimize_{name}", options[name], RANGES[f"optimize_{name}"])
        for name in ("screening_rounds", "rounds", "minutes")
    }
    limit = number("study_attempts", options["attempts"], RANGES["study_attempts"])
    wanted = split_names("optimize_settings", options["settings"]) if options["settings"] else []
    data = json.loads(json.dumps(options["data"]))  # plain values, as they come back from the document
    profile = str(options["profile"])
    return {
        "profile": profile,
        "data": data,
        "candidates": [each._asdict() for each in candidates(profile, data, wanted)],
        "figure": figure,
        **numbers,
        **common_settings(options["run"]),
    }, limit


def _opening(directory: RunDirectory, document: t.Mapping[str, t.Any], tried: t.Sequence[Candidate]) -> list[str]:
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
