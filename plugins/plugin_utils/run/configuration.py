# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of a run: its checked settings, their hash, and the phases that follow from them."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    SettingError,
    choice,
    number,
    numbers,
    yes_or_no,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import (
    ARRIVALS,
    PACINGS,
    PATTERNS,
    cpu_choice,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import LOAD_NUMBERS, RANGES

# The slowest fill seen so far, in keys per second. Used only for the announced duration.
FILL_KEYS_PER_SECOND = 100_000

SETTINGS = (
    "profile",
    *LOAD_NUMBERS,
    "requests",
    "duration",
    "pattern",
    "arrivals",
    "pacing",
    "cpu",
    "influences",
    "read_mixes",
    "warmups",
    "iterations",
    "slo_avg_us",
    "slo_p99_us",
    "min_overlap",
    "stop_when_failed",
)
# A closed loop has no schedule that the hosts of a fleet could share.
OPEN_PACINGS = tuple(pacing for pacing in PACINGS if pacing != "none")


def checked(options: t.Mapping[str, t.Any], prefix: str = "") -> dict[str, t.Any]:
    """Check the user's settings and return the configuration of the run.

    Args:
        options: all names of SETTINGS; the values of requests and duration may be None.
        prefix: the prefix of the user's variables, for messages.

    Raises:
        SettingError: a setting is unknown, missing or out of range.
    """
    _check_names(options)
    for name, choices in (("arrivals", ARRIVALS), ("pacing", OPEN_PACINGS), ("pattern", PATTERNS)):
        choice(prefix + name, options[name], choices)

    def one(name: str) -> t.Any:
        return number(prefix + name, options[name], RANGES[name])

    load = {name: one(name) for name in LOAD_NUMBERS}
    influences = numbers(prefix + "influences", options["influences"], RANGES["influences"])
    if options["pattern"] != "gaussian" and influences != [0]:
        raise SettingError(
            f"{prefix}influences: {options['influences']!r} is not allowed with {prefix}pattern {options['pattern']}, "
            f"since only gaussian has an influence; it must be [0]"
        )
    return {
        "profile": options["profile"],
        "load": {
            **load,
            "requests": _requests(options, load["key_count"], prefix),
            "pattern": options["pattern"],
            "arrivals": options["arrivals"],
            "pacing": options["pacing"],
            "cpu": cpu_choice(prefix + "cpu", options["cpu"]),
        },
        "matrix": {
            "influences": influences,
            "read_mixes": numbers(prefix + "read_mixes", options["read_mixes"], RANGES["read_mixes"]),
            "warmups": one("warmups"),
            "iterations": one("iterations"),
        },
        "slo": {"avg_us": one("slo_avg_us"), "p99_us": one("slo_p99_us")},
        "validity": {"min_overlap": one("min_overlap")},
        "stop_when_failed": yes_or_no(prefix + "stop_when_failed", options["stop_when_failed"]),
    }


def _check_names(options: t.Mapping[str, t.Any]) -> None:
    """Raise a SettingError unless options has exactly the names of SETTINGS."""
    problems = [f"{name} is unknown" for name in sorted(set(options) - set(SETTINGS))]
    problems += [f"{name} is missing" for name in sorted(set(SETTINGS) - set(options))]
    if problems:
        raise SettingError(f"settings: {', '.join(problems)}; the settings are {', '.join(SETTINGS)}")


def _requests(options: t.Mapping[str, t.Any], key_count: int, prefix: str) -> int:
    """Return the requests of a phase: as given, or what the duration comes to, or one for each key."""

    def requests() -> int:
        return number(prefix + "requests", options["requests"], RANGES["requests"])

    is_given = options["requests"] not in (None, "")
    if options["duration"] in (None, ""):
        return requests() if is_given else key_count
    seconds = number(prefix + "duration", options["duration"], RANGES["duration"])
    rate = number(prefix + "rate", options["rate"], RANGES["rate"])
    due = number(prefix + "duration", round(seconds * rate), RANGES["requests"])
    given = requests() if is_given else due
    if given != due:
        raise SettingError(
            f"{prefix}duration: {seconds:g} s are {due:,} requests at this rate, but {prefix}requests is {given:,}; "
            f"leave one of them out"
        )
    return due


def config_hash(config: t.Mapping[str, t.Any]) -> str:
    """Return the SHA-256 of config; it does not depend on the order of the settings."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def differences(old: t.Any, new: t.Any, where: str = "") -> list[str]:
    """Return the differences between two configurations, such as "load.rate: 2000 -> 5000"."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for key in sorted(set(old) | set(new))
            for line in differences(old.get(key), new.get(key), f"{where}.{key}" if where else key)
        ]
    return [] if old == new else [f"{where}: {json.dumps(old)} -> {json.dumps(new)}"]


def phases(config: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the phases of a run in their order: the fill, then the warm-ups and iterations of each cell.

    The flat influence 0 is usually the first one, as in the brief, since it undoes the order of the fill.
    """
    load, matrix = config["load"], config["matrix"]
    seconds = load["requests"] / load["rate"]
    result: list[dict[str, t.Any]] = [
        {"name": "fill", "kind": "fill", "seconds": load["key_count"] / FILL_KEYS_PER_SECOND}
    ]
    for influence in matrix["influences"]:
        for read_mix in matrix["read_mixes"]:
            cell = {"influence": influence, "read_mix": read_mix}
            for number_of in range(1, matrix["warmups"] + 1):
                name = f"{cell_name(cell)}-warmup{number_of}"
                result.append({"name": name, "kind": "warmup", **cell, "iteration": None, "seconds": seconds})
            for number_of in range(1, matrix["iterations"] + 1):
                name = f"{cell_name(cell)}-{number_of}"
                result.append({"name": name, "kind": "iteration", **cell, "iteration": number_of, "seconds": seconds})
    return [{**phase, "index": index, "of": len(result)} for index, phase in enumerate(result, 1)]


def cell_name(cell: t.Mapping[str, t.Any]) -> str:
    """Return a short name of a cell, or of the cell of a phase, that can be part of a file name."""
    return f"i{cell['influence']:g}-r{cell['read_mix']:g}"


def cell_of(phase: t.Mapping[str, t.Any]) -> tuple[float, float]:
    """Return the influence and the read mix of a phase, which name its cell."""
    return phase["influence"], phase["read_mix"]


def cell_title(cell: t.Mapping[str, t.Any]) -> str:
    """Return the name of a cell, or of the cell of a phase, for people."""
    return f"influence {cell['influence']:g}, {cell['read_mix']:g} % GET"


def file_name(phase: t.Mapping[str, t.Any]) -> str:
    """Return the name of the file that holds phase."""
    return f"{phase['index']:02d}-{phase['name']}.json"


def describe(phase: t.Mapping[str, t.Any]) -> str:
    """Return the name of a phase for people."""
    if phase["kind"] == "fill":
        return "fill"
    return f"{cell_title(phase)}, " + ("warm-up" if phase["kind"] == "warmup" else f"iteration {phase['iteration']}")
