# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is going to do: its checked configuration, the hash of it, and its phases."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import (
    SettingError,
    number,
    numbers,
    yes_or_no,
)
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import PATTERNS, cpu_choice
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import RANGES

# A fill writes at least so many keys per second on the machines seen; only for the time that is announced.
FILL_KEYS_PER_SECOND = 100_000


SETTINGS = (
    "profile",
    "key_count",
    "value_size",
    "compressibility",
    "requests",
    "duration",
    "rate",
    "pattern",
    "connections",
    "pipeline",
    "pacing",
    "cpu",
    "influences",
    "read_mixes",
    "warmups",
    "iterations",
    "slo_avg_us",
    "slo_p99_us",
    "min_overlap",
    "min_rate_ratio",
    "max_lateness_p99_us",
    "stop_when_failed",
)
PACINGS = ("hybrid", "sleep", "spin")


def checked(options: t.Mapping[str, t.Any], prefix: str = "") -> dict[str, t.Any]:
    """Check what the user asked for and return the run's configuration.

    Args:
        options: the names of SETTINGS; requests and duration may be None.
        prefix: what the user's names of the options begin with; messages use it.

    Raises:
        SettingError: an option cannot be used.
    """
    unknown, missing = sorted(set(options) - set(SETTINGS)), sorted(set(SETTINGS) - set(options))
    if unknown or missing:
        raise SettingError(
            f"settings: {', '.join(unknown + missing)} is not known or missing; it takes {', '.join(SETTINGS)}"
        )
    for name, choices in (("pacing", PACINGS), ("pattern", PATTERNS)):
        if options[name] not in choices:
            raise SettingError(
                f"{prefix}{name}: {options[name]!r} is not allowed; it takes one of {', '.join(choices)}"
            )

    def one(name: str) -> t.Any:
        return number(prefix + name, options[name], RANGES[name])

    key_count = one("key_count")
    influences = numbers(prefix + "influences", options["influences"], RANGES["influences"])
    if options["pattern"] != "gaussian" and influences != [0]:
        raise SettingError(
            f"{prefix}influences: {options['influences']!r} is not allowed with {prefix}pattern {options['pattern']}, which knows no influence; "
            f"it takes [0]"
        )
    return {
        "profile": options["profile"],
        "load": {
            "key_count": key_count,
            "value_size": one("value_size"),
            "compressibility": one("compressibility"),
            "requests": _requests(options, key_count, prefix),
            "rate": one("rate"),
            "pattern": options["pattern"],
            "connections": one("connections"),
            "pipeline": one("pipeline"),
            "pacing": options["pacing"],
            "cpu": cpu_choice(prefix + "cpu", options["cpu"]),
        },
        "matrix": {
            "influences": influences,
            "read_mixes": numbers(prefix + "read_mixes", options["read_mixes"], RANGES["read_mixes"]),
            "warmups": one("warmups"),
            "iterations": one("iterations"),
        },
        "slo": {"avg_us": one("slo_avg_us"), "p99_us": one("slo_p99_us"), "basis": "response"},
        "validity": {
            "min_overlap": one("min_overlap"),
            "min_rate_ratio": one("min_rate_ratio"),
            "max_lateness_p99_us": one("max_lateness_p99_us"),
        },
        "stop_when_failed": yes_or_no(prefix + "stop_when_failed", options["stop_when_failed"]),
    }


def _requests(options: t.Mapping[str, t.Any], key_count: int, prefix: str) -> int:
    """Return the number of requests of a phase: as given, as many as are due within the duration, or one for each key."""

    def requests() -> int:
        return number(prefix + "requests", options["requests"], RANGES["requests"])

    is_given = options["requests"] not in (None, "")
    if options["duration"] in (None, ""):
        return requests() if is_given else key_count
    # First, because the role's default for requests follows from it.
    seconds = number(prefix + "duration", options["duration"], RANGES["duration"])
    rate = number(prefix + "rate", options["rate"], RANGES["rate"])
    due = number(prefix + "duration", round(seconds * rate), RANGES["requests"])
    given = requests() if is_given else due
    if given != due:
        raise SettingError(
            f"{prefix}duration: {seconds:g} s are {due:,} requests, and {prefix}requests says {given:,}; leave one of them out"
        )
    return due


def config_hash(config: t.Mapping[str, t.Any]) -> str:
    """Return the SHA-256 of config, the same for the same settings whatever their order."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def differences(old: t.Any, new: t.Any, where: str = "") -> list[str]:
    """Return what differs between two configurations, each as "load.rate: 2000 -> 5000"."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for key in sorted(set(old) | set(new))
            for line in differences(old.get(key), new.get(key), f"{where}.{key}" if where else key)
        ]
    return [] if old == new else [f"{where}: {json.dumps(old)} -> {json.dumps(new)}"]


def phases(config: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the phases of a run in their order: the fill, then for each cell its warm-ups and iterations.

    The flat influence 0 goes first, as in the brief, since it undoes the order of the fill.
    """
    load, matrix = config["load"], config["matrix"]
    result = [{"name": "fill", "kind": "fill", "seconds": load["key_count"] / FILL_KEYS_PER_SECOND}]
    for influence in matrix["influences"]:
        for read_mix in matrix["read_mixes"]:
            for number_of in range(matrix["warmups"] + matrix["iterations"]):
                measured = number_of - matrix["warmups"] + 1
                result.append(
                    {
                        "name": f"{_cell_name(influence, read_mix)}-"
                        + (str(measured) if measured > 0 else f"warmup{number_of + 1}"),
                        "kind": "iteration" if measured > 0 else "warmup",
                        "influence": influence,
                        "read_mix": read_mix,
                        "iteration": measured if measured > 0 else None,
                        "seconds": load["requests"] / load["rate"],
                    }
                )
    return [{**phase, "index": index, "of": len(result)} for index, phase in enumerate(result, 1)]


def cell_name(phase: t.Mapping[str, t.Any]) -> str:
    """Return a short name of the cell that phase belongs to, fit for a file."""
    return _cell_name(phase["influence"], phase["read_mix"])


def _cell_name(influence: float, read_mix: float) -> str:
    return f"i{influence:g}-r{read_mix:g}"


def file_name(phase: t.Mapping[str, t.Any]) -> str:
    """Return the name of the file that holds phase."""
    return f"{phase['index']:02d}-{phase['name']}.json"


def describe(phase: t.Mapping[str, t.Any]) -> str:
    """Return phase in words."""
    if phase["kind"] == "fill":
        return "fill"
    cell = f"influence {phase['influence']:g}, {phase['read_mix']:g} % GET"
    return f"{cell}, " + ("warm-up" if phase["kind"] == "warmup" else f"iteration {phase['iteration']}")
