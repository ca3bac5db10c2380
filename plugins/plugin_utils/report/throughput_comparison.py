# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare results of the throughput benchmark that were measured apart, such as on two machines."""

from __future__ import annotations

import collections
import os
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish_experiment
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError

EXPERIMENT = "throughput_benchmark"


def measured(results_dir: str, names: t.Sequence[str]) -> list[RunDirectory]:
    """Return the directories with results of the throughput benchmark; none if all names are those of runs.

    Raises:
        RunError: only some of the names are those of runs, or a name is there twice.
    """
    directories = [RunDirectory.at(os.path.join(results_dir, name)) for name in names if name]
    found = [each for each in directories if _is_experiment(each)]
    if found and len(found) < len(names):
        raise RunError(
            f"runs: {', '.join(each.run_id for each in found)} has a result of {EXPERIMENT} and no run, the others do "
            "not; compare runs with runs, or results of one experiment"
        )
    if len({each.path for each in found}) < len(found):
        raise RunError(f"runs: {', '.join(names)}; a comparison needs different results")
    return found


def _is_experiment(directory: RunDirectory) -> bool:
    return os.path.isfile(directory.file(f"{EXPERIMENT}.json")) and not os.path.exists(directory.file("run.json"))


def publish(
    directory: RunDirectory, compared: t.Sequence[RunDirectory], say: t.Callable[[str], None], write: bool
) -> tuple[dict[str, t.Any], bool]:
    """Compare results with the first arm of the first one; show the comparison and write it like a result.

    Args:
        directory: for the files.
        compared: the directories with the results.
        say: receives lines for the terminal.
        write: whether to write files and to show them.

    Returns:
        The document, and whether a file changed.

    Raises:
        RunError: a file is damaged, or the directory holds a measured result.
    """
    document = combined(compared)
    kept = directory.file(f"{EXPERIMENT}.json")
    if os.path.exists(kept) and "compares" not in directory.read_json(f"{EXPERIMENT}.json"):
        raise RunError(f"comparison: {directory.run_id} is a measured result; choose another name")
    if not write:
        return document, False
    changed = experiments.keep(directory, EXPERIMENT, document)
    return document, publish_experiment(directory, EXPERIMENT, say) or changed


def combined(compared: t.Sequence[RunDirectory]) -> dict[str, t.Any]:
    """Return one document with the arms of several results.

    An arm whose name is not unique gets the name of its result in front.
    """
    results = [(each.run_id, each.read_json(f"{EXPERIMENT}.json")) for each in compared]
    count = collections.Counter(arm for _run, document in results for arm in document["hosts"])
    hosts = {
        arm if count[arm] == 1 else f"{run}/{arm}": {**document["hosts"][arm], "run": run}
        for run, document in results
        for arm in document["expected"]
        if arm in document["hosts"]
    }
    return {
        "measured_at": max(document["measured_at"] for _run, document in results),
        "compares": [run for run, _document in results],
        "expected": list(hosts),
        "failed": [],
        "hosts": hosts,
    }
