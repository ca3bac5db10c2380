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
    measured_density,
    measured_headroom,
    measured_run,
    own_directory,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import machines as forecast_machines
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast import measured, plan, watched
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.text import lines as text_lines

# The prefix of the variables of the playbook plan.yml, for messages.
PREFIX = "density_plan_"


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Plan a study. It touches no host."""
    directory = own_directory("name", options["results_dir"], options["name"])
    machines = forecast_machines.distinct(options["machines"])
    if not machines:
        raise SettingError("machines: must not be empty; a plan needs the records of the hosts that carry the fleet")
    document = plan.make(options["run"]["config"]["load"], options["run"]["phases"], machines, _checked(options))
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
    return {
        **checked,
        **_measured(options),
        "vm_memory": size_in_bytes(PREFIX + "vm_memory", memory) if memory else None,
        "host_reserve": options["host_reserve"],
        "fleet_sizes": numbers("fleet_sizes", options["fleet_sizes"], RANGES["fleet_sizes"]),
    }


def _measured(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the memory of a server as a run, a density or headroom measured it, and which; None without one."""
    given = {name: options[name] for name in ("baseline_run", "density", "headroom") if options[name]}
    found: dict[str, t.Any] = {"server_bytes": None, "watched": None, "measured_by": None}
    if not given:
        return found
    if len(given) > 1:
        names = " and ".join(PREFIX + name for name in given)
        raise SettingError(f"{names} exclude each other; leave one of them out")
    ((name, value),) = given.items()
    if options["vm_memory"]:
        raise SettingError(
            f"{PREFIX}{name}: tells how much memory a server takes, as {PREFIX}vm_memory does; leave one of them out"
        )
    load = options["run"]["config"]["load"]
    try:
        if name == "density":
            directory = measured_density(PREFIX + name, options["results_dir"], value)
            found["server_bytes"] = measured.of_density(directory, load)
        elif name == "headroom":
            found["watched"] = watched.of_headroom(measured_headroom(PREFIX + name, options["results_dir"], value))
        else:
            found["server_bytes"] = measured.of_run(measured_run(PREFIX + name, options["results_dir"], value), load)
    except measured.UnknownMemory as error:
        raise SettingError(f"{PREFIX}{name}: {value!r} does not tell the memory of a server: {error}") from error
    return {**found, "measured_by": f"{name.rpartition('_')[2]} {value}"}
