# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role host_tuning says about a host: its labels, and its part of a run's record."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.memory import KDAMONDS

MIB = 2**20
# The action of DAMON that changes nothing.
_WATCHES = "stat"
Facts = t.Mapping[str, t.Any]
Settings = t.Sequence[t.Mapping[str, t.Any]]


def device_paths(devices: t.Any) -> list[str]:
    """Return the paths of drives, each once.

    Args:
        devices: as the variable C(swap_space_devices): paths, and dictionaries with a C(path); or a text of paths with
            commas.
    """
    given = devices.split(",") if isinstance(devices, str) else devices
    paths = [each["path"] if isinstance(each, t.Mapping) else str(each).strip() for each in given]
    return [path for path in dict.fromkeys(paths) if path]


def labels(facts: Facts) -> list[str]:
    """Return the labels of a host.

    Args:
        facts: C(state) of the role, C(profile) (its name), C(needs) of the profile, C(memory) (the recorded host), and
            what the role's steps have returned: C(set) (host_settings), C(budget) (dram_budget), C(swap_warnings),
            C(kernel_warnings), C(kernel_notes), C(reboot_required); C(cpu_idle) and C(ksm) are its variables.
    """
    if facts["state"] == "restored":
        return ["host not tuned", *_kept(facts)]
    if facts["state"] == "recorded":
        return [f'host not tuned: no setting of profile "{facts["profile"]}" was applied', *_needs(facts)]
    return [*_applied(facts), *_needs(facts)]


def imdt_missing(profile: str) -> str:
    """Return the label of a host without IMDT, whose profile needs it."""
    return f'IMDT not detected: profile "{profile}" needs it, and this host runs natively'


def record(facts: Facts) -> dict[str, t.Any]:
    """Return the host's part of a run's record: its memory and, if a profile was applied, what is in force.

    Args:
        facts: as for the labels, with C(swap_areas) and C(kernel_arguments).
    """
    if facts["state"] != "applied":
        return dict(facts["memory"])
    return {
        **facts["memory"],
        "tuning": {
            "profile": facts["profile"],
            "settings": facts["set"]["settings"],
            "persistent": facts["set"]["persistent"],
            "swap_areas": facts["swap_areas"],
            "kernel_arguments": facts["kernel_arguments"],
            "dram_budget": facts["budget"],
        },
    }


def _needs(facts: Facts) -> list[str]:
    """Return the labels about hardware that the profile needs."""
    profile, needs, memory = facts["profile"], facts["needs"], facts["memory"]
    found = []
    needed, detected = "imdt" in needs, memory["imdt"]["detected"]
    if needed and not detected:
        found.append(imdt_missing(profile))
    if detected and not needed:
        found.append(f'IMDT detected: profile "{profile}" does not use it')
    if "memory_only_node" in needs and not any(node["memory_only"] for node in memory["numa"]["nodes"]):
        found.append(f'no NUMA node without CPUs: profile "{profile}" needs one, such as CXL memory')
    return found


def _kept(facts: Facts) -> list[str]:
    """Return the label about originals that could not be restored."""
    kept = facts["set"]["kept"]
    return ["not restored: " + ", ".join(each["entry"] for each in kept)] if kept else []


def _moved_by_damon(damon: t.Mapping[str, t.Any], settings: Settings) -> list[str]:
    """Return the label about DAMON that evicts or moves memory by itself. One that only watches has no label.

    Args:
        damon: section of the memory record.
        settings: in the result of the module C(host_settings). What they would switch off in check mode has no label.
    """
    works = [f"{name} is enabled" for name in damon["modules"]]
    left_on = {} if any(_is_on(each["effective"]) for each in _damon_off(settings)) else damon["running"]
    for number, actions in left_on.items():
        changing = [action for action in actions if action != _WATCHES]
        if changing:
            works.append(f"kdamond {number}: {', '.join(changing)}")
    if not works:
        return []
    return [f"DAMON runs ({'; '.join(works)}): what it does to memory is measured together with the profile"]


def _damon_off(settings: Settings) -> Settings:
    """Return the settings that switch DAMON off."""
    return [each for each in settings if each["name"].startswith(f"{KDAMONDS}/") and each["wanted"] == "off"]


def _is_on(value: str | None) -> bool:
    """Check whether one of the kdamonds of a setting is on."""
    return "on" in (value or "").split(", ")


def _damon_switched_off(settings: Settings) -> list[str]:
    """Return the label about DAMON of somebody else that the profile has switched off, or would in check mode.

    This collection turns DAMON on only for a look, so what ran before the profile is somebody else's. Check mode
    records no originals, and what is on is still on at its end.

    Args:
        settings: in the result of the module C(host_settings).
    """
    if not any(_is_on(each["original"]) or _is_on(each["effective"]) for each in _damon_off(settings)):
        return []
    return [
        "DAMON of somebody else is switched off while the profile is applied, because it can evict or move memory; "
        "restoring the host switches it on again"
    ]


def _applied(facts: Facts) -> list[str]:
    """Return the labels about settings that are not as the profile defines them, or not for long."""
    settings, memory, found = facts["set"]["settings"], facts["memory"], []
    absent = [
        each["name"] + (f" since {each['since']}" if each["since"] else "")
        for each in settings
        if each["absent"] and each["section"] != "services_stopped"
    ]
    if absent:
        found.append("not set, because this kernel lacks: " + ", ".join(absent))
    rivals = dict.fromkeys(rival for each in settings for rival in each["also_set_by"])
    if rivals:
        found.append("the same settings are also made by: " + ", ".join(rivals))
    found += _kept(facts)
    if not facts["set"]["persistent"]:
        found.append("the settings last until the next boot: this host does not run systemd")
    if facts["cpu_idle"] == "awake" and memory["cpu"]["idle"]["awake"] is None:
        found.append(
            "the CPUs sleep when they are idle, although host_tuning_cpu_idle is awake: the kernel has no idle state "
            "that polls"
        )
    merged = memory["ksm"]["pages_sharing"] or 0
    if facts["ksm"]:
        found.append("page merging (KSM) is on: compare this run only with runs that merge pages, too")
    elif merged > 0:
        found.append(f"page merging is off, but {merged} pages are still merged")
    found += _damon_switched_off(settings)
    found += _moved_by_damon(memory["damon"], settings)
    budget = facts["budget"]
    if budget:
        group = f" {budget['group']}" if budget["group"] else ""
        found.append(f"DRAM budget of {budget['size_bytes'] // MIB} MiB by {budget['mechanism']}{group}")
    found += [*facts["swap_warnings"], *facts["kernel_warnings"], *facts["kernel_notes"]]
    if facts["reboot_required"]:
        found.append("reboot required: the kernel command line of the profile is not in force")
    return found
