# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a ramp on each machine, from the variables of an inventory with instances or VMs on hypervisors."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    Range,
    Ranges,
    SettingError,
    choice,
    number,
    size_in_bytes,
)
from ansible_collections.memstretch.density.plugins.module_utils.ramp import plan as machine
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import ARRIVALS
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import listed
from ansible_collections.memstretch.density.plugins.plugin_utils.run import options as run
from ansible_collections.memstretch.density.plugins.plugin_utils.run.same_machine import same_machine

# What the plan of the machine calls a variable that it takes as it is.
_PLAN_NAMES = {
    "density_growth": "growth",
    "density_window": "window_seconds",
    "density_settle": "settle_seconds",
    "density_wait": "wait_seconds",
    "density_max_stolen": "stolen_limit",
    "density_touch": "touch_seconds",
}
RANGES: Ranges = {
    "density_references": Range(int, 0, 1000, "servers that stay in DRAM"),
    "density_max": Range(int, 1, 10_000, "servers of the fleet"),
    "density_hold": Range(float, 0, 1440, "minutes"),
    "density_factor": Range(float, 1.01, 100, "times as slow as a server in DRAM next to it"),
    **{variable: machine.RANGES[name] for variable, name in _PLAN_NAMES.items()},
}
BUDGET, WRITTEN = machine.RANGES["budget_bytes"], machine.RANGES["written_bytes"]
_SECONDS_A_MINUTE = 60
# What the plan of the machine calls a variable of the load.
_LOAD_NAMES = {
    "rate": "rate",
    "value_size": "value_size",
    "key_count": "keys",
    "influences": "influence",
    "read_mixes": "read_mix",
    "compressibility": "compressibility",
}
RELATIVE, ABSOLUTE = "relative", "absolute"
# The role vm_fleet gives each VM this variable.
_HYPERVISOR = "vm_fleet_hypervisor"
# So many hosts are named in an error.
_SHOWN = 3
_INSTEAD = (
    "With density_image they start in containers there. Fleets of a given size can be measured on any hosts, "
    "containers and VMs: playbooks/site.yml judges one, playbooks/study.yml compares profiles with it"
)


def machines_of(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Mapping[str, t.Any]]
) -> dict[str, list[str]]:
    """Return the hosts of the fleet on each hypervisor, in the order in which they join.

    A ramp starts Redis servers itself, on the hypervisors, or the VMs that the role vm_fleet has made there.

    Raises:
        SettingError: there is no hypervisor, or one without servers, or the fleet has hosts elsewhere or of both kinds.
    """
    hypervisors, fleet = groups.get("hypervisors", []), groups.get("fleet", [])
    if not hypervisors:
        raise SettingError(
            "hypervisors: this group is empty; it must have the machines on which the Redis servers of the fleet "
            f"start. {_INSTEAD}"
        )
    vms = [name for name in fleet if _HYPERVISOR in hostvars[name]]
    if not vms and any("vm_fleet_count" in hostvars[name] for name in hypervisors):
        raise SettingError(
            "vm_fleet_count: is set, but the group fleet has no VMs. playbooks/fleet.yml creates them, and writes an "
            "inventory of them (inventory.yml in vm_fleet_local_directory), which a density needs as well (-i)"
        )
    if vms and len(vms) < len(fleet):
        others = [name for name in fleet if name not in vms]
        raise SettingError(
            f"fleet: {listed(vms, _SHOWN)} are VMs of the role vm_fleet, {listed(others, _SHOWN)} are not; the servers "
            "of a density are of one kind"
        )
    places = same_machine([*hypervisors, *fleet], hostvars)
    places.update({name: str(hostvars[name][_HYPERVISOR]) for name in vms})
    for name in hypervisors:
        if places[name] != name:
            raise SettingError(
                f"hypervisors: {places[name]} and {name} are reached in the same way, so they are one machine; leave "
                "one of them out"
            )
    elsewhere = [name for name in fleet if places[name] not in hypervisors]
    if elsewhere and vms:
        raise SettingError(f"fleet: the hypervisors of {listed(elsewhere, _SHOWN)} are not in the group hypervisors")
    if elsewhere:
        raise SettingError(
            f"fleet: {listed(elsewhere, _SHOWN)}: not on {listed(hypervisors, _SHOWN)}, but reached in another way. A "
            "density starts its Redis servers on the hypervisors, so these hosts need the same ansible_host and the "
            f"like. {_INSTEAD}"
        )
    found = {machine: [name for name in fleet if places[name] == machine] for machine in hypervisors}
    empty = [machine for machine, names in found.items() if not names]
    if fleet and empty:
        raise SettingError(
            f"fleet: no host is on {listed(empty, _SHOWN)}; name the Redis servers that may join there, with its "
            "ansible_host and the like, or leave it out of the group hypervisors"
        )
    return found


def has_vms(servers: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Return whether the servers of a plan are VMs."""
    return "address" in servers[0]


def references_of(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], hypervisor: str
) -> list[str]:
    """Return the VMs of the group references on a hypervisor."""
    return [name for name in groups.get("references", []) if hostvars[name].get(_HYPERVISOR) == hypervisor]


def plan_of(
    given: t.Mapping[str, t.Any],
    fleet: t.Sequence[str],
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    references: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Return the plan of a ramp, without its sizes, its tier and the path of the client, which the machine has.

    Args:
        given: the variables of the playbook: slo, density_budget, density_written, density_image and those of RANGES;
            an empty one has its default.
        fleet: names of the instances or VMs, in the order in which they join.
        hostvars: their variables.
        references: names of VMs that stay in DRAM, for a fleet of VMs. Instances have references of their own.

    Raises:
        SettingError: one is missing or out of range.
    """
    if not fleet:
        raise SettingError("fleet: this group is empty; it must have the Redis servers that may join")
    values = {
        name: number(name, given[name], allowed)
        for name, allowed in RANGES.items()
        if given.get(name) not in (None, "")
    }
    names = list(fleet)[: values.get("density_max", len(fleet))]
    if values.get("density_max", 0) > len(fleet):
        raise SettingError(
            f"density_max: {values['density_max']} is out of range; it must be from 1 to {len(fleet)}, the hosts of "
            "the group fleet"
        )
    servers = [_server(hostvars, name) for name in names]
    if values.get("density_touch") and not values.get("density_hold"):
        raise SettingError("density_touch: has no effect without density_hold, at whose end the servers are touched")
    budget = given.get("density_budget")
    if budget in (None, ""):
        raise SettingError("density_budget: is missing; it must be the DRAM of the fleet, such as 256M")
    written = given.get("density_written") or "2G"
    return {
        "servers": servers,
        "references": (
            _vm_references(values.get("density_references"), hostvars, references)
            if has_vms(servers)
            else _instance_references(values.get("density_references", 6), servers)
        ),
        "budget_bytes": number("density_budget", size_in_bytes("density_budget", str(budget)), BUDGET),
        "growth": machine.DEFAULTS["growth"],
        "written_bytes": number("density_written", size_in_bytes("density_written", str(written)), WRITTEN),
        **{_PLAN_NAMES[name]: value for name, value in values.items() if name in _PLAN_NAMES},
        "hold_seconds": _SECONDS_A_MINUTE * values.get("density_hold", 0),
        "objective": _objective(given, values, hostvars[names[0]]),
        # As in the role redis, no server is root's unless somebody has asked for that.
        "user": _user_of(hostvars[names[0]]),
        "load": _load(hostvars, names[0]),
        **_image(given.get("density_image"), servers),
    }


def _image(given: t.Any, servers: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
    if given in (None, ""):
        return {}
    if has_vms(servers):
        raise SettingError("density_image: has no effect on VMs; leave it out, or name hosts that are no VMs")
    if not machine.IMAGE.fullmatch(str(given)):
        raise SettingError(
            f"density_image: {given!r} is not allowed; it must be the name of an image, such as "
            "docker.io/library/redis:7"
        )
    return {"image": str(given)}


def _server(hostvars: t.Mapping[str, t.Mapping[str, t.Any]], name: str) -> dict[str, t.Any]:
    port = number("latency_benchmark_port", _variable(hostvars, name, "port"), machine.RANGES["port"])
    if _HYPERVISOR not in hostvars[name]:
        return {"name": name, "port": port}
    address = str(hostvars[name].get("ansible_host", ""))
    if not address or address == "127.0.0.1":
        raise SettingError(
            f"ansible_host: that of {name} is {address or 'missing'}; the hypervisor connects to the Redis of its VMs, "
            "so they need addresses of their own, not vm_fleet_network with type: user"
        )
    return {"name": name, "port": port, "address": address}


def _vm_references(
    wanted: int | None, hostvars: t.Mapping[str, t.Mapping[str, t.Any]], names: t.Sequence[str]
) -> list[dict[str, t.Any]]:
    if wanted is not None and wanted > len(names):
        raise SettingError(
            f"density_references: {wanted} is out of range; for a fleet of VMs it must be from 0 to {len(names)}, the "
            "VMs of the group references on its hypervisor"
        )
    return [_server(hostvars, name) for name in names[:wanted]]


def _instance_references(wanted: int, servers: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    first = max(server["port"] for server in servers) + 1
    return [{"name": f"reference{place + 1}", "port": first + place} for place in range(wanted)]


def _objective(
    given: t.Mapping[str, t.Any], values: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """Return the objective: relative to servers in DRAM, or the limits of the fleet in microseconds."""
    kind = choice("slo", given.get("slo") or RELATIVE, (RELATIVE, ABSOLUTE))
    if kind == RELATIVE:
        return {"kind": kind, "factor": values.get("density_factor", 2.0)}
    if "density_factor" in values:
        raise SettingError(f"density_factor: has no effect with slo={ABSOLUTE}; it is for slo={RELATIVE}")
    defaults = {"avg_us": run.SLO_AVG_US, "p99_us": run.SLO_P99_US}
    return {
        "kind": kind,
        **{
            name: number(
                f"latency_benchmark_slo_{name}",
                variables.get(f"latency_benchmark_slo_{name}", default),
                run.RANGES[f"slo_{name}"],
            )
            for name, default in defaults.items()
        },
    }


def _load(hostvars: t.Mapping[str, t.Mapping[str, t.Any]], name: str) -> dict[str, t.Any]:
    """Return the load of a ramp, one cell; all instances have that of the first."""
    load: dict[str, t.Any] = {}
    for variable, key in _LOAD_NAMES.items():
        value = _variable(hostvars, name, variable)
        if isinstance(value, (list, tuple)):
            if len(value) != 1:
                raise SettingError(
                    f"latency_benchmark_{variable}: {list(value)} has {len(value)} values; a ramp measures one cell, "
                    "so it must have one"
                )
            value = value[0]
        load[key] = number(f"latency_benchmark_{variable}", value, machine.LOAD[key])
    arrivals = hostvars[name].get("latency_benchmark_arrivals", "jitter")
    return {**load, "arrivals": choice("latency_benchmark_arrivals", arrivals, ARRIVALS)}


def _user_of(own: t.Mapping[str, t.Any]) -> str:
    """Return the user of the servers. As in the role redis, it is root only if somebody has asked for that."""
    return str(own.get("redis_daemon_user") or own.get("redis_user") or "redis")


def _variable(hostvars: t.Mapping[str, t.Mapping[str, t.Any]], name: str, variable: str) -> t.Any:
    full = f"latency_benchmark_{variable}"
    if full not in hostvars[name]:
        raise SettingError(f"{full}: is missing; each instance of a ramp needs it, such as {name}")
    return hostvars[name][full]
