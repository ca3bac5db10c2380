# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    SettingError,
    number,
    numbers,
    size_in_bytes,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    Task,
    measured_run,
    own_directory,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import baseline, plan, tier
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import machines as forecast_machines
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.options import FIGURES, RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.text import lines as text_lines
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError

# The prefix of the variables of the playbook plan.yml, for messages.
PREFIX = "density_plan_"


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Forecast a study. It touches no host."""
    directory = own_directory("name", options["results_dir"], options["name"])
    machines = forecast_machines.distinct(options["machines"])
    if not machines:
        raise SettingError("machines: must not be empty; a plan needs the records of the hosts that carry the fleet")
    checked, config = _checked(options), options["run"]["config"]
    document = plan.make(config, options["run"]["phases"], machines, checked)
    if options["solve"] == "tier":
        arms = plan.arms(config, machines, checked).values()
        document["needed_tiers"] = [tier.needed(arm, size) for arm in arms for size in checked["fleet_sizes"]]
    lines = text_lines(document)
    changed = False
    if not task.check_mode:
        directory.make()
        changed = directory.write_text("plan.json", json.dumps(document, indent=1) + "\n")
        changed |= directory.write_text("plan.txt", "\n".join(lines).strip() + "\n")
    for line in lines:
        Display().display(line)
    return {"changed": changed, "density_plan": document}


def _checked(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options of plan.make().

    Raises:
        SettingError: an option cannot be used; the text names it.
    """
    if options["solve"] not in ("", "tier"):
        raise SettingError(f"solve: {options['solve']!r} is not allowed; it must be tier or empty")
    checked: dict[str, t.Any] = {
        name: number(PREFIX + name, options[name], RANGES[name])
        for name in ("rounds", "phase_overhead_seconds", "run_overhead_seconds")
    }
    checked.update({name: size_in_bytes(PREFIX + name, options[name]) for name in ("overhead", "overhead_used")})
    if checked["overhead_used"] > checked["overhead"]:
        raise SettingError(
            f"{PREFIX}overhead_used: {options['overhead_used']} is more than {PREFIX}overhead, "
            f"{options['overhead']}, which includes it"
        )
    memory = options["vm_memory"]
    found = _baseline(options)
    return {
        **checked,
        "vm_memory": size_in_bytes(PREFIX + "vm_memory", memory) if memory else None,
        "server_bytes": found.server_bytes,
        "host_reserve": options["host_reserve"],
        "fleet_sizes": numbers("fleet_sizes", options["fleet_sizes"], RANGES["fleet_sizes"]),
        "tiers": plan.tiers(PREFIX + "tiers", forecast_machines.tiers(options["machines"], options["tiers"])),
        "base": found.base,
    }


def _baseline(options: t.Mapping[str, t.Any]) -> baseline.Baseline:
    """Read what a run in DRAM measured; without one the time of a request as given, or an example."""
    if not options["baseline_run"]:
        return baseline.Baseline(_base(options), None)
    if options["base"]:
        raise SettingError(f"{PREFIX}baseline_run and {PREFIX}base exclude each other; leave one of them out")
    name = PREFIX + "baseline_run"
    run = measured_run(name, options["results_dir"], options["baseline_run"])
    try:
        return baseline.measured(run, options["run"]["config"]["load"])
    except RunError as error:
        raise SettingError(f"{name}: {error}") from error


def _base(options: t.Mapping[str, t.Any]) -> dict[str, float]:
    """Return the time of a request whose pages are in DRAM: as given, or an example."""
    unknown = set(options["base"]) - set(plan.BASE)
    if unknown:
        raise SettingError(
            f"{PREFIX}base: {', '.join(sorted(unknown))} is not known; it must be one of {', '.join(plan.BASE)}"
        )
    base = {**plan.BASE, **options["base"]}
    checked = {name: number(f"{PREFIX}base.{name}", value, FIGURES[name]) for name, value in base.items()}
    if checked["p99_us"] < checked["avg_us"]:
        raise SettingError(f"{PREFIX}base: p99_us {checked['p99_us']:g} is below avg_us {checked['avg_us']:g}")
    return checked
