# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish a run: judge it and write summary.json, its page and its exports."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report import (
    cost_text,
    experiments,
    exports,
    headline,
    html,
    index,
    pressure_text,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.charts import RunCharts
from ansible_collections.memstretch.density.plugins.plugin_utils.report.run_page import run_page
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.histogram_log import HistogramLogs
from ansible_collections.memstretch.density.plugins.plugin_utils.run.pressure import PressureByMachine
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate


def publish(
    directory: RunDirectory,
    say: t.Callable[[str], None],
    slo: t.Mapping[str, t.Any] | None = None,
    prices: t.Mapping[str, t.Any] | None = None,
) -> tuple[dict[str, t.Any], bool]:
    """Write the summary, report and exports of a run and print its final table.

    Args:
        directory: the run.
        say: prints a line on the terminal.
        slo: avg_us and p99_us to use instead of the run's own.
        prices: what cost.prices() returned.

    Returns:
        The summary, and whether a file changed.

    Raises:
        RunError: a file of the run is missing or damaged.
    """
    run = directory.read_json("run.json")
    logs, charts, writes = HistogramLogs(), RunCharts(), cost.SwapWrites(run)
    machines = PressureByMachine()

    def also(document: dict[str, t.Any]) -> None:
        logs.add(document)
        charts.add(document)
        writes.add(document)
        machines.add(document)

    summary, details = evaluate(directory, slo, also)
    summary["cost"] = prices and cost.document(
        prices,
        [
            cost.arm_of(
                summary["profile"], run, summary["verdict"], summary["fleet"]["expected"], writes, summary["dram"]
            )
        ],
    )
    for cell in summary["cells"]:
        cell["pressure"] = machines.of(cell)
    changed = logs.write(directory)
    changed |= directory.write_json("summary.json", summary)
    changed |= exports.write(directory, summary, details)
    changed |= directory.write_text(
        "report.html", run_page(run, summary, details, charts, experiments.sections(directory))
    )
    lines = report_text.table(
        summary, directory.path, pressure_text.lines(summary["cells"]) + cost_text.lines(summary["cost"])
    )
    changed |= directory.write_text("report.txt", "\n".join(lines).strip() + "\n")
    changed |= index.enter(
        directory,
        "report.html",
        summary["started_at"],
        headline.run(summary),
        [(summary["profile"], summary["verdict"])],
    )
    for line in lines:
        say(line)
    return summary, changed


def publish_experiment(directory: RunDirectory, experiment: str, say: t.Callable[[str], None]) -> bool:
    """Write the section of an experiment as text, show it, and update the page that it belongs to.

    Args:
        directory: with the result.
        experiment: its name.
        say: prints a line on the terminal.

    Returns:
        Whether a file changed.
    """
    sections = experiments.sections(directory)
    lines = report_text.section(next(each for each in sections if each.name == experiment))
    changed = directory.write_text(f"{experiment}.txt", "\n".join(lines).strip() + "\n")
    for line in (*lines, f"Results: {directory.path}"):
        say(line)
    if os.path.exists(directory.file("summary.json")):
        judged_by = directory.read_json("summary.json")["slo"]
        changed |= publish(directory, lambda line: None, {name: judged_by[name] for name in ("avg_us", "p99_us")})[1]
    elif not os.path.exists(directory.file("run.json")):  # a run that is still going gets its page at its end
        changed |= directory.write_text("report.html", html.experiments_page(directory.run_id, sections))
        measured_at = [each.get("measured_at") or 0 for each in experiments.documents(directory).values()]
        found = [("", index.MEASURED if sections else index.NO_ANSWER)]
        changed |= index.enter(directory, "report.html", max(measured_at), headline.experiments(sections), found)
    return changed
