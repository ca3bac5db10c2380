# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    Task,
    measured_run,
    own_directory,
    refuse_options_of_others,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report import (
    experiment_parts,
    experiments,
    throughput_comparison,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish, publish_experiment
from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL, INVALID, PASS
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError, check_name
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.study import comparison
from ansible_collections.memstretch.density.plugins.plugin_utils.throughput import figures

Options = t.Mapping[str, t.Any]

# What each kind of report reads, in addition to results_dir.
OPTIONS_OF = {
    "run": ("run_id", "slo_avg_us", "slo_p99_us", "slo_enforce", "prices", "cost_example"),
    "comparison": ("runs", "name", "prices", "cost_example"),
    "experiment": ("run_id", "experiment"),
}


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Publish what was measured, from its files. This action can fail the play; the callback cannot."""
    refuse_options_of_others("of", options["of"], task.given, OPTIONS_OF)
    write = {"run": _run, "comparison": _comparison, "experiment": _experiment}[options["of"]]
    return write(options, task.check_mode)


def _run(options: Options, check_mode: bool) -> dict[str, t.Any]:
    """Judge a run."""
    directory = measured_run("run_id", options["results_dir"], options["run_id"] or "latest")
    slo = {
        name: number(f"slo_{name}", options[f"slo_{name}"], RANGES[f"slo_{name}"])
        for name in ("avg_us", "p99_us")
        if options[f"slo_{name}"] not in (None, "")
    }
    paid = cost.prices("prices", options["prices"], options["cost_example"])
    if check_mode:
        return {"changed": False, "skipped": True, "msg": "check mode: the report was not written"}
    summary, changed = publish(directory, Display().display, slo, paid)
    report = {"run_id": directory.run_id, "directory": directory.path, "verdict": summary["verdict"]}
    result: dict[str, t.Any] = {"changed": changed, "report": report}
    if summary["verdict"] == INVALID:
        result.update(failed=True, msg=f"run {directory.run_id} is not valid; the reasons are listed above")
    elif summary["verdict"] != PASS and options["slo_enforce"]:
        what = "misses the SLO" if summary["verdict"] == FAIL else "does not prove that the SLO is met"
        result.update(failed=True, msg=f"run {directory.run_id} {what}; the reasons are listed above")
    return result


def _comparison(options: Options, check_mode: bool) -> dict[str, t.Any]:
    """Compare runs, or results of the throughput benchmark."""
    runs = [each.strip() for each in options["runs"] or [] if each.strip()]
    if len(runs) < 2:
        raise RunError(f"runs: names {len(runs)} runs; a comparison needs two or more, such as dram-1,swap-1")
    directory = own_directory("name", options["results_dir"], options["name"])
    throughput = throughput_comparison.measured(options["results_dir"], runs)
    if throughput:
        document, changed = throughput_comparison.publish(directory, throughput, Display().display, not check_mode)
    else:
        paid = cost.prices("prices", options["prices"], options["cost_example"])
        arms = [comparison.ArmRuns(None, [measured_run("runs", options["results_dir"], run)]) for run in runs]
        document, changed = comparison.publish(directory, arms, Display().display, paid, write=not check_mode)
    return {"changed": changed, "comparison": document, "report": {"directory": directory.path}}


def _experiment(options: Options, check_mode: bool) -> dict[str, t.Any]:
    """Check that the result of an experiment can be saved, or save it and show it."""
    given = options["experiment"]
    if not given:
        raise RunError("experiment: is needed with of=experiment")
    run_id, name = options["run_id"], given["name"]
    check_name("run_id", run_id)
    if given["state"] == "checked":
        return _checked(options["results_dir"], run_id, given)
    directory = experiments.directory_for(name, options["results_dir"], run_id)
    if check_mode:
        return {"changed": False}
    results = "parts" if given["state"] == "part" or given["parts"] else "hosts"
    if not given[results]:
        raise RunError(f"experiment.{results}: {name} has no result to save")
    try:
        measurement.check_documents(results, given[results])
    except measurement.MeasurementError as error:
        raise RunError(str(error)) from error
    if given["state"] == "part":
        if not run_id or given["definition"] is None:
            raise RunError("run_id, experiment.definition: both are needed with state=part")
        experiment_parts.add(directory, name, given["definition"], given["parts"])
        return {"changed": True}
    hosts = figures.by_arm(given["parts"]) if given["parts"] else given["hosts"]
    failed = sorted(set(given["expected"]) - set(hosts))
    document = {"measured_at": time.time(), "expected": given["expected"], "failed": failed, "hosts": hosts}
    experiments.keep(directory, name, document)
    publish_experiment(directory, name, Display().display)
    if failed:
        raise RunError(
            f"{len(failed)} of {len(given['expected'])} hosts have no result ({', '.join(failed[:10])}); "
            f"the results of the others are in {directory.path}"
        )
    experiment_parts.end(directory, name)
    return {"changed": True, "report": {"directory": directory.path, "run_id": directory.run_id}}


def _checked(results_dir: str, run_id: str | None, given: Options) -> dict[str, t.Any]:
    """Find where the result of an experiment will go, and the parts that are there already."""
    if given["definition"] is None:
        experiments.directory_for(given["name"], results_dir, run_id)
        return {"changed": False}
    directory, parts = experiment_parts.begin(given["name"], results_dir, run_id, given["definition"], given["resume"])
    return {
        "changed": False,
        "report": {"directory": directory.path, "run_id": directory.run_id, "parts": parts},
    }
