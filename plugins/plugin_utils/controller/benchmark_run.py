# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
import typing as t
import uuid

from ansible import constants
from ansible.module_utils.common.text.formatters import human_to_bytes
from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    Task,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.forecast.records import GUEST_SYSTEM_BYTES, data_bytes
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted, listed
from ansible_collections.memstretch.density.plugins.plugin_utils.run import (
    configuration,
    guests,
    measurement,
    progress,
    reproduction,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import (
    SCHEDULE_FILE,
    RunDirectory,
    RunError,
    attempt_name,
    attempt_number,
    check_name,
    check_space,
    compact_utc,
    latest,
    unused,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.host_labels import host_labels
from ansible_collections.memstretch.density.plugins.plugin_utils.run.machines import machines
from ansible_collections.memstretch.density.plugins.plugin_utils.run.observer import SAMPLES
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import RANGES

CALLBACK = "memstretch.density.fleet_latency"


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Check the settings of a run, then begin or resume it. The callback writes the result to run.json."""
    if CALLBACK not in (constants.CALLBACKS_ENABLED or []):
        raise RunError(
            f"the callback {CALLBACK} is not enabled, so no result would be kept; add it to callbacks_enabled in "
            f"the section [defaults] of ansible.cfg, or set ANSIBLE_CALLBACKS_ENABLED={CALLBACK}"
        )
    config = configuration.checked(options["settings"], options["option_prefix"])
    phases = configuration.phases(config)
    check_name("run_id", options["run_id"])
    try:
        asked = {host: each.get("endpoint") for host, each in options["fleet"].items()}
        options["fleet"] = measurement.endpoints(asked)
        measurement.check_documents("host_records", options["host_records"])
    except measurement.MeasurementError as error:
        raise RunError(str(error)) from error
    _check_fleet(options)
    check_space(options["results_dir"], len(phases) * len(options["expected"]))
    if options["state"] == "checked" or task.check_mode:
        _check_guests(options, config["load"])
        return {
            "changed": False,
            "config": config,
            "phases": phases,
            "expected": sorted(options["expected"]),
        }
    pacing = config["load"]["pacing"]
    _check_timers(options, pacing)
    _check_observers(options["fleet"], config)
    found = machines(options["fleet"], options["hypervisors"], options["host_records"])
    guests_of_others = list(options["fleet"]) if found["carriers"] else []
    options["labels"] = [
        *_host_labels(options),
        *options["labels"],
        *guests.labels(options["fleet"], pacing, guests_of_others),
    ]
    begun = {**_begin(options, config, phases), **reproduction.record(task.variables)}
    return {"changed": True, "benchmark_run": begun, "machines": found}


def _check_fleet(options: t.Mapping[str, t.Any]) -> None:
    """Raise a RunError if the fleet cannot give a valid run."""
    if not options["expected"]:
        raise RunError("the fleet is empty: put at least one Redis host into the inventory's group fleet")
    if options["state"] == "checked":
        return
    absent = sorted(set(options["expected"]) - set(options["fleet"]))
    if absent:
        names = ", ".join(absent[:10])
        raise RunError(
            f"{len(absent)} of {len(options['expected'])} hosts of the fleet cannot take part ({names}); "
            f"repair them or remove them from the inventory: without them it would not be a run of this fleet"
        )
    limit = number(
        options["option_prefix"] + "max_clock_offset", options["max_clock_offset"], RANGES["max_clock_offset"]
    )
    for host, each in sorted(options["fleet"].items()):
        if abs(each["clock_offset"]) > limit:
            raise RunError(
                f"{host}: the clock differs from the controller's by {each['clock_offset']:+.3f} s; at most "
                f"{limit:g} s is allowed ({options['option_prefix']}max_clock_offset). Synchronise the clock, for "
                "example with chrony"
            )


def _check_guests(options: t.Mapping[str, t.Any], load: t.Mapping[str, t.Any]) -> None:
    """Raise a RunError if the data of a Redis do not fit into a VM, which has no swap."""
    if not options["guest_memory"]:
        return
    prefix = options["option_prefix"]
    try:
        memory = human_to_bytes(options["guest_memory"])
    except ValueError as error:
        raise RunError(f"{prefix}guest_memory: {error}") from error
    data = data_bytes(load["key_count"], load["value_size"])
    if data + GUEST_SYSTEM_BYTES > memory:
        names = listed([prefix + name for name in ("key_count", "value_size")])
        raise RunError(
            f"{names}: {load['key_count']:,} records of {load['value_size']:,} bytes need about {_mib(data)} and the "
            f"guest's system {_mib(GUEST_SYSTEM_BYTES)}, but a guest has {_mib(memory)} of memory "
            f"({prefix}guest_memory) and no swap of its own. Choose fewer keys, or VMs with more memory"
        )


def _check_memory(options: t.Mapping[str, t.Any], load: t.Mapping[str, t.Any]) -> None:
    """Raise a RunError if the data of all servers of a machine do not fit into what it can still give, swap included.

    A server keeps what it has: a fill replaces its keys.
    """
    data = data_bytes(load["key_count"], load["value_size"])
    machines: dict[str, list[str]] = {}
    for host, each in sorted(options["fleet"].items()):
        if each.get("memory"):
            machines.setdefault(each.get("machine") or host, []).append(host)
    for hosts in machines.values():
        memory = [options["fleet"][host]["memory"] for host in hosts]
        needed = sum(max(0, data - each["used_bytes"]) for each in memory)
        free = min(each["free_bytes"] for each in memory)
        if needed > free:
            names = [options["option_prefix"] + name for name in ("key_count", "value_size")]
            fit = max(0, load["key_count"] * free // needed)
            raise RunError(
                f"{', '.join(names)}: {load['key_count']:,} records of {load['value_size']:,} bytes in each of "
                f"{counted(len(hosts), 'Redis server')} need about {_mib(needed)} more, but their machine "
                f"({listed(hosts, 3)}) has {_mib(free)} of memory and swap left. Nothing was filled. Choose fewer keys "
                f"(about {fit:,}), fewer servers or a larger machine"
            )


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _check_timers(options: t.Mapping[str, t.Any], pacing: str) -> None:
    """Show what each choice about coarse timers costs, if the clients sleep; raise a RunError if they are refused."""
    ticks = guests.coarse(options["fleet"])
    if not ticks or pacing not in ("sleep", "hybrid"):
        return
    choices = guests.coarse_choices(ticks, options["option_prefix"])
    if options["coarse_timers"] == "refuse":
        raise RunError(choices)
    Display().warning(choices)


def _check_observers(fleet: t.Mapping[str, t.Mapping[str, t.Any]], config: t.Mapping[str, t.Any]) -> None:
    """Raise a RunError if an observer makes too few requests in a cell."""
    seconds = config["matrix"]["iterations"] * config["load"]["requests"] / config["load"]["rate"]
    for host, each in fleet.items():
        observer = each.get("observer")
        if observer and round(seconds * observer["rate"]) < SAMPLES:
            raise RunError(
                f"{host}: latency_benchmark_observer_rate: {observer['rate']:g} requests per second make "
                f"{seconds * observer['rate']:,.0f} requests in the {config['matrix']['iterations']} iterations of a "
                f"cell; {SAMPLES:,} are needed for a p99. Raise it, or latency_benchmark_duration"
            )


def _host_labels(options: t.Mapping[str, t.Any]) -> list[str]:
    """Return the labels of the tuned hosts."""
    records = options["host_records"]
    if not records:
        return ["the host was not recorded"]
    return host_labels({host: options["host_labels"].get(host, []) for host in records})


def _begin(
    options: t.Mapping[str, t.Any], config: dict[str, t.Any], phases: list[dict[str, t.Any]]
) -> dict[str, t.Any]:
    """Choose the run's directory and the phases to measure."""
    now = time.time()
    hashed = {
        **config,
        "fleet": {host: each["endpoint"] for host, each in options["fleet"].items()},
        "hosts": {name: record.get("settings_digest") for name, record in options["host_records"].items()},
    }
    fingerprint = configuration.config_hash(hashed)
    begun = _choose(options, hashed, fingerprint, phases, now)
    directory = begun.directory
    marked = progress.mark_finished(directory, phases)
    if any(phase["kind"] == "fill" and not phase["finished"] for phase in marked):
        _check_memory(options, config["load"])
    run = directory.read_json("run.json") if begun.resumed else {"started_at": now}
    return {
        "session": uuid.uuid4().hex,
        "directory": directory.path,
        "resumed": begun.resumed,
        "run_id": directory.run_id,
        "instead_of": run.get("instead_of", begun.instead_of),
        "started_at": run["started_at"],
        "config": config,
        "config_hash": fingerprint,
        "hashed": hashed,
        "labels": list(dict.fromkeys(run.get("labels", []) + options["labels"])),  # of all sessions
        "expected": sorted(options["expected"]),
        "fleet": {
            host: {name: value for name, value in each.items() if name != "memory"}  # of that moment
            for host, each in options["fleet"].items()
        },
        "hosts": options["host_records"],
        "phases": marked,
        "pending": directory.read_json(SCHEDULE_FILE)
        if begun.resumed and os.path.exists(directory.file(SCHEDULE_FILE))
        else None,
    }


class _Begun(t.NamedTuple):
    """Where a run is measured, whether it is resumed, and which unfinished run it begins again, with the reason."""

    directory: RunDirectory
    resumed: bool
    instead_of: dict[str, str] | None = None


def _choose(
    options: t.Mapping[str, t.Any],
    hashed: dict[str, t.Any],
    fingerprint: str,
    phases: list[dict[str, t.Any]],
    now: float,
) -> _Begun:
    """Choose the directory of the run."""
    if options.get("continued"):
        return _Begun(RunDirectory(options["results_dir"], options["continued"]), True)
    if options["run_id"]:
        return _choose_named(options, hashed, fingerprint, phases)
    new = unused(options["results_dir"], f"{hashed['profile']}-{compact_utc(now)}")
    newest = latest(options["results_dir"])
    if newest and options["resume"]:
        old = newest.read_json("run.json")
        if old["config_hash"] == fingerprint and not progress.finished_because(newest, old):
            _refuse_if_in_use(newest)
            gone = progress.data_is_gone(newest, phases, options["fleet"], hashed["load"]["key_count"])
            return _begin_again(newest, new, gone) if gone else _Begun(newest, True)
    return _Begun(new, False)


def _choose_named(
    options: t.Mapping[str, t.Any], hashed: dict[str, t.Any], fingerprint: str, phases: list[dict[str, t.Any]]
) -> _Begun:
    """Choose the directory that the user named."""
    directory = RunDirectory(options["results_dir"], options["run_id"])
    if not directory.exists():
        return _Begun(directory, False)
    directory.refuse_others()
    old = directory.read_json("run.json")
    is_same = old["config_hash"] == fingerprint
    if is_same:
        finished = progress.finished_because(directory, old)
        if finished:
            raise RunError(
                f"{directory.path} exists and its run is finished ({finished}); choose another run_id, or remove it"
            )
        if not options["resume"]:
            raise RunError(
                f"{directory.path} exists and its run is not finished; choose another run_id, or set "
                f"{options['option_prefix']}resume to true"
            )
        why = progress.data_is_gone(directory, phases, options["fleet"], hashed["load"]["key_count"])
        refusal = f"its unfinished run cannot be continued, because {why}"
    else:
        changes = "; ".join(configuration.differences(old["hashed"], hashed)[:6])
        why = f"the settings of the hosts have changed ({changes})"
        refusal = f"its run has other settings ({changes})"
    _refuse_if_in_use(directory)
    if not why:
        return _Begun(directory, True)
    if options["new_attempt"] and {**old["hashed"], "hosts": None} == {**hashed, "hosts": None}:
        return _begin_again(directory, _next_attempt(directory), why)
    raise RunError(f"{directory.path} exists and {refusal}; choose another run_id, or remove it")


def _begin_again(old: RunDirectory, new: RunDirectory, why: str) -> _Begun:
    Display().display(f"The run in {old.path} is kept and cannot be continued, because {why}; beginning {new.run_id}")
    return _Begun(new, False, {"run_id": old.run_id, "reason": why})


def _next_attempt(directory: RunDirectory) -> RunDirectory:
    number = attempt_number(directory.run_id)
    while directory.exists():
        number += 1
        directory = RunDirectory(directory.results_dir, attempt_name(directory.run_id, number))
    return directory


def _refuse_if_in_use(directory: RunDirectory) -> None:
    pid = directory.in_use_by()
    if pid is not None:
        raise RunError(f"{directory.path}: another playbook (pid {pid}) is working on this run; wait until it ends")
