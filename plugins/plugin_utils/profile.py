# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles: find them by name or path, read and check them, merge them with what they extend and with changes."""

from __future__ import annotations

import os
import re
import typing as t

import yaml

from ansible_collections.memstretch.density.plugins.module_utils.boot import arguments as arguments_of_boot
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import (
    candidate_mistakes,
    key_mistakes,
    mistakes,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import DEFAULTS, PROFILE_OPTIONS

SETTING_SECTIONS = ("sysctl", "sysfs", "cpu_governor", "block_queue", "services_stopped", "kernel_cmdline")
KEYS = (
    *("name", "description", "source", "needs", "extends", "swap", "swap_candidates", "guest_kernel_arguments"),
    *SETTING_SECTIONS,
)
NEEDS = ("imdt", "memory_only_node")
# The section swap of a profile sets options of the module swap_space.
SWAP: dict[str, t.Any] = {option: DEFAULTS[option] for option in PROFILE_OPTIONS}
# The options of swap that may have candidates: these change neither where the swap is nor how much there is.
SWAP_WITH_CANDIDATES = ("discard", "zram_algorithm")
_ENTRY_KEYS = ("value", "reason", "since", "config", "candidates")
_MAX_BYTES = 100_000


class ProfileError(Exception):
    """The profile cannot be used; the message says why, and what is allowed."""


def names(directory: str) -> list[str]:
    """Return the names of the profiles in a directory."""
    return sorted(entry[:-4] for entry in os.listdir(directory) if entry.endswith(".yml"))


def is_path(profile: str) -> bool:
    """Decide whether a profile is given by path: it has a slash, or it ends in .yml or .yaml."""
    return bool(re.search(r"/|\.ya?ml$", profile))


def load(profile: str, directory: str, places: t.Sequence[str]) -> dict[str, t.Any]:
    """Return a profile with all keys of KEYS except C(extends); a key that the profile lacks has an empty value.

    Args:
        profile: a name, or the path of a file.
        directory: the directory of the profiles with names.
        places: directories to search for a relative path.
    """
    path = _find(profile, directory, places)
    data = _read(path)
    problems = _mistakes(data)
    if not problems and (data["name"] in names(directory)) == is_path(profile):
        reason = "the name of a profile of this collection" if is_path(profile) else "not the name of the file"
        problems = [f"name is {data['name']!r}, which is {reason}"]
    if problems:
        raise ProfileError(f"{path} is not a profile: {'; '.join(problems)}")
    base = load(data["extends"], directory, []) if data.get("extends") else {"swap": SWAP}
    return _merged(base, data)


def changed(
    profile: dict[str, t.Any], settings: dict[str, t.Any], without: t.Sequence[str], swap: dict[str, t.Any]
) -> dict[str, t.Any]:
    """Return a profile with changes.

    Args:
        profile: the profile.
        settings: settings to add or replace, in sections as in a file.
        without: names of settings to remove.
        swap: options of swap to replace.

    Raises:
        ProfileError: the settings have a mistake, or the profile does not have a setting to remove.
    """
    problems = [
        f"{key!r} is not a section; allowed are {', '.join(SETTING_SECTIONS)}"
        for key in settings
        if key not in SETTING_SECTIONS
    ]
    problems += mistakes(settings, _ENTRY_KEYS) + _swap_mistakes(swap)
    problems += _argument_mistakes(settings.get("kernel_cmdline") or {})
    if problems:
        raise ProfileError("; ".join(problems))
    result = _merged(profile, {**settings, "swap": swap})
    known = {name for section in SETTING_SECTIONS if section != "cpu_governor" for name in result[section]} | {
        "cpu_governor"
    }
    problems = [
        f"{name!r} cannot be left out, the profile does not set it; it sets {', '.join(sorted(known))}"
        for name in without
        if name not in known
    ]
    if problems:
        raise ProfileError("; ".join(problems))
    for section in SETTING_SECTIONS:
        if isinstance(result[section], dict) and section != "cpu_governor":
            result[section] = {name: entry for name, entry in result[section].items() if name not in without}
    if "cpu_governor" in without:
        result["cpu_governor"] = ""
    return result


def kernel_arguments(profile: dict[str, t.Any], record: dict[str, t.Any]) -> dict[str, list[str]]:
    """Return C(arguments) for this host's kernel command line, and C(notes) on those that were left out.

    In a value, {last_cpu} is replaced by the highest number of a processor, offline ones included.

    Args:
        profile: the profile.
        record: the memory record of the host, from the module host_memory_info.
    """
    arguments, notes = [], []
    for name, entry in profile["kernel_cmdline"].items():
        data = entry if isinstance(entry, dict) else {"value": entry}
        if data.get("config") == "CONFIG_RCU_NOCB_CPU" and record["cpu"]["rcu_nocb_config"] is False:
            notes.append(f"kernel argument {name} was left out: this kernel was built without {data['config']}")
            continue
        last = record["cpu"].get("last") or record["cpu"]["online"] - 1
        arguments.append(_argument(name, data["value"], last))
    return {"arguments": arguments, "notes": notes}


def _find(profile: str, directory: str, places: t.Sequence[str]) -> str:
    if is_path(profile):
        paths = [os.path.join(place, os.path.expanduser(profile)) for place in places or ["."]]
        absence = f"there is no such file: {', '.join(dict.fromkeys(paths))}"
    else:
        paths, absence = [os.path.join(directory, f"{profile}.yml")], "there is no such profile"
    found = next((path for path in paths if os.path.isfile(path)), None)
    if found is None:
        raise ProfileError(
            f"the option profile (host_tuning_profile) is {profile!r}, but {absence}. Allowed: "
            f"{', '.join(names(directory))}, or the path of your own profile."
        )
    return found


def _read(path: str) -> t.Any:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_BYTES + 1)
        if len(text) > _MAX_BYTES:
            raise ProfileError(f"{path} has more than {_MAX_BYTES} characters; a profile must be shorter")
        return yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ProfileError(f"{path} is not YAML: {' '.join(str(error).split())}") from error


def _mistakes(data: t.Any) -> list[str]:
    if not isinstance(data, dict):
        return [f"it is of type {type(data).__name__} and not a dictionary with the keys {', '.join(KEYS)}"]
    found = [f"{key!r} is not a known key; allowed are {', '.join(KEYS)}" for key in data if key not in KEYS]
    found += [
        f"{key} is {data.get(key)!r}; it must be a string"
        for key in ("name", "description")
        if not isinstance(data.get(key), str)
    ]
    if isinstance(data.get("name"), str) and not re.match(r"^[a-z][a-z0-9_]{0,31}$", data["name"]):
        found.append(
            f"name is {data['name']!r}; it must be 1 to 32 lowercase letters, digits and underscores, the first one a "
            "letter"
        )
    found += _list_mistakes(data, "needs", NEEDS)
    arguments = data.get("guest_kernel_arguments") or []
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        found.append(f"guest_kernel_arguments is {arguments!r}; it must be a list of arguments, such as nohz=off")
    if data.get("extends") is not None and (not isinstance(data["extends"], str) or is_path(data["extends"])):
        found.append(f"extends is {data['extends']!r}; it must be the name of a profile of this collection")
    found += _swap_mistakes(data.get("swap") or {}) + _candidate_mistakes(data)
    found += _argument_mistakes(data.get("kernel_cmdline") or {})
    # A null removes an entry of the extended profile.
    kept = {
        key: {name: entry for name, entry in value.items() if entry is not None} if isinstance(value, dict) else value
        for key, value in data.items()
    }
    return found + mistakes(kept, _ENTRY_KEYS)


def _swap_mistakes(swap: t.Any) -> list[str]:
    if not isinstance(swap, dict):
        return [f"swap is {swap!r}; it must be a dictionary with {', '.join(SWAP)}"]
    return [f"swap has {key!r}; allowed are {', '.join(SWAP)}" for key in swap if key not in SWAP]


def _candidate_mistakes(data: dict[str, t.Any]) -> list[str]:
    """Return the mistakes in the candidates of swap and of kernel arguments; mistakes() checks the other settings."""
    found, of_swap = [], data.get("swap_candidates") or {}
    if not isinstance(of_swap, dict) or not set(of_swap) <= set(SWAP_WITH_CANDIDATES):
        return [
            f"swap_candidates is {of_swap!r}; it must be a dictionary of lists by {' or '.join(SWAP_WITH_CANDIDATES)}"
        ]
    for name, candidates in of_swap.items():
        problems = candidate_mistakes(candidates) if candidates is not None else []  # a null removes them
        found += [f"swap_candidates, {name}: {text}" for text in problems]
    arguments = data.get("kernel_cmdline")
    return found + [
        f"kernel_cmdline, {name}: it cannot have candidates, each of which would need a reboot"
        for name, entry in (arguments if isinstance(arguments, dict) else {}).items()
        if isinstance(entry, dict) and "candidates" in entry
    ]


def _argument_mistakes(arguments: t.Any) -> list[str]:
    """Return the mistakes in a profile's arguments of the host's kernel command line."""
    if not isinstance(arguments, dict):
        return [f"kernel_cmdline is {arguments!r}; it must be a dictionary of values by the name of an argument"]
    found = []
    for name, entry in arguments.items():
        data = entry if isinstance(entry, dict) else {"value": entry}
        found += [f"kernel_cmdline, {name}: {text}" for text in key_mistakes(data, _ENTRY_KEYS)]
        if entry is None:
            continue  # a null removes an argument of the extended profile
        if isinstance(data.get("value"), bool) or not isinstance(data.get("value"), (str, int)):
            found.append(
                f"kernel_cmdline, {name}: the value is {data.get('value')!r}; it must be a number or a string (on and "
                "off in quotes), which is empty for an argument without a value"
            )
            continue
        try:
            arguments_of_boot.check(f"kernel_cmdline, {name}", [_argument(name, data["value"], 0)])
        except arguments_of_boot.ArgumentError as error:
            found.append(str(error))
    return found


def _argument(name: str, value: t.Any, last_cpu: int) -> str:
    """Return a word of the kernel command line."""
    text = str(value).replace("{last_cpu}", str(last_cpu))
    return f"{name}={text}" if text else str(name)


def _list_mistakes(data: dict[str, t.Any], key: str, allowed: t.Sequence[str]) -> list[str]:
    value = data.get(key) or []
    if isinstance(value, list) and all(each in allowed for each in value):
        return []
    return [f"{key} is {value!r}; it must be a list of {', '.join(allowed)}"]


def _merged(base: dict[str, t.Any], over: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the base with the keys of the other profile over it; sections are merged, and a null removes an entry."""
    result: dict[str, t.Any] = {
        "source": "",
        "needs": [],
        "guest_kernel_arguments": [],
        "cpu_governor": "",
        **base,
    }
    for key in KEYS:
        if key == "extends":
            continue
        value = over.get(key)
        if key in ("swap", "swap_candidates") or (key in SETTING_SECTIONS and key != "cpu_governor"):
            both = {**result.get(key, {}), **(value or {})}
            result[key] = {name: entry for name, entry in both.items() if entry is not None}
        elif key in over or key not in result:
            result[key] = value
    return result
