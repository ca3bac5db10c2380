# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a latency measurement: what each one allows, said once.

The module C(solotest), the actions of the controller and, with its own words, the C client agree on
these ranges.
"""

from __future__ import annotations

import re
import typing as t


class SettingError(ValueError):
    """A setting that cannot be used. Its text names the option, the value and what is allowed."""


class Range(t.NamedTuple):
    """The numbers that an option allows, both ends included."""

    kind: type
    low: float
    high: float
    unit: str

    def __str__(self) -> str:
        noun = "a whole number" if self.kind is int else "a number"
        return f"{noun} from {self.low:,} to {self.high:,} ({self.unit})"


RANGES: dict[str, Range] = {
    "port": Range(int, 1, 65535, "TCP port"),
    "value_size": Range(int, 1, 64 * 1024 * 1024, "bytes"),
    "key_count": Range(int, 1, 4_000_000_000, "keys"),
    "requests": Range(int, 1, 1_000_000_000_000, "requests"),
    "rate": Range(float, 0.001, 10_000_000, "requests per second and host"),
    "influence": Range(float, -1000, 1000, "width of the Gaussian pull, 0 is flat"),
    "read_mix": Range(int, -1, 100, "percent of GETs; -1 is SETs only"),
    "warmups": Range(int, 0, 100, "phases per cell"),
    "iterations": Range(int, 1, 1000, "measured phases per cell"),
    "connections": Range(int, 1, 512, "connections to one Redis"),
    "pipeline": Range(int, 1, 4096, "requests in flight per connection"),
    "compressibility": Range(float, 0, 1, "share of each value that is constant"),
    "duration": Range(float, 0.1, 604_800, "seconds"),
    "max_seconds": Range(float, 0.1, 604_800, "seconds"),
    "stagger": Range(float, 0, 0.999999, "fraction of one interval"),
    "spin_us": Range(int, 0, 1_000_000, "microseconds"),
    "cpu": Range(int, 0, 1023, "CPU number"),
    "reply_timeout": Range(float, 0.001, 86_400, "seconds"),
    "start_at": Range(float, 0, 32_503_680_000, "seconds since the epoch"),
    "avg_us": Range(float, 0.001, 1e9, "microseconds"),
    "p99_us": Range(float, 0.001, 1e9, "microseconds"),
    "min_overlap": Range(float, 0, 1, "share of the phase"),
    "min_rate_ratio": Range(float, 0, 1, "achieved rate over target"),
    "max_lateness_p99_us": Range(float, 0, 1e9, "microseconds"),
    "max_clock_offset": Range(float, 0, 86_400, "seconds"),
    "study_rounds": Range(int, 1, 1000, "runs of each profile"),
    "density_max": Range(int, 1, 100_000, "hosts of the fleet"),
    "density_start": Range(int, 1, 100_000, "hosts of the fleet"),
    "density_repeats": Range(int, 1, 99, "probes of one size"),
    "lead_seconds": Range(float, 0, 3600, "seconds"),
    "fleet_size": Range(int, 1, 100_000, "hosts of a fleet"),
    "rounds": Range(int, 1, 1000, "runs under each profile"),
    "phase_overhead_seconds": Range(float, 0, 3600, "seconds"),
    "run_overhead_seconds": Range(float, 0, 86_400, "seconds"),
    "price": Range(float, 0, 1e12, "in the prices' currency"),
    "months": Range(float, 1, 600, "months that a server is used"),
    "power_w": Range(float, 0, 1e6, "watts of one server"),
    "gigabytes": Range(float, 0, 1e9, "GB"),
    "vms": Range(int, 1, 100_000, "VMs on one server"),
    "servers": Range(int, 1, 100_000, "servers of a cluster"),
    "terabytes_written": Range(float, 0.001, 1e9, "TB"),
    "drive_writes_per_day": Range(float, 0.001, 1000, "writes of the whole drive per day"),
    "years": Range(float, 0.1, 100, "years"),
    "write_amplification": Range(float, 1, 1000, "bytes written in the drive for each byte sent to it"),
    "page_ins_per_second": Range(float, 1, 1e9, "pages a second"),
    "reading_seconds": Range(float, 0.05, 600, "seconds of each measurement"),
    "repetitions": Range(int, 1, 1000, "times that everything is measured"),
    "readers": Range(int, 1, 1024, "readers, each on a CPU of its own"),
    "writing_seconds": Range(float, 0.5, 3600, "seconds of each measurement"),
    "writers": Range(int, 1, 1024, "synchronous writers"),
    "stretch": Range(float, 1, 1000, "times the data; 1 leaves cold and hot data out"),
    "channels": Range(int, 1, 1024, "memory channels of the whole host"),
}


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

PATTERNS = ("gaussian", "uniform", "sequential")

# Where the client may run, beside the number of a CPU.
ANY_CPU, BESIDE_REDIS, OWN_CPU = "any", "beside_redis", "own"


def number(option: str, value: t.Any, range_of: str | None = None) -> int | float:
    """Return value as the number that option takes.

    Args:
        option: the name that the user knows; the message is about it.
        value: what the user gave; a string that holds a number will do.
        range_of: the entry of RANGES, where it is not called like the option.

    Raises:
        SettingError: it is not a number or outside of the range.
    """
    allowed = RANGES[range_of or option]
    try:
        if isinstance(value, bool):
            raise ValueError
        result = allowed.kind(value)
        if allowed.kind is int and isinstance(value, float) and value != result:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise SettingError(f"{option}: {value!r} is not allowed; it takes {allowed}") from None
    if not allowed.low <= result <= allowed.high:
        raise SettingError(f"{option}: {value!r} is out of range; it takes {allowed}")
    return result


def yes_or_no(option: str, value: t.Any) -> bool:
    """Return value as the truth that option takes; a word for it will do.

    Raises:
        SettingError: it is none.
    """
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    found = value if isinstance(value, bool) else words.get(str(value).lower())
    if found is None:
        raise SettingError(f"{option}: {value!r} is not allowed; it takes true or false")
    return found


def cpu_choice(option: str, value: t.Any) -> str | int:
    """Return value as ANY_CPU (also for nothing), BESIDE_REDIS, OWN_CPU or the number of a CPU.

    Raises:
        SettingError: it is none of them.
    """
    if value in (None, "", ANY_CPU):
        return ANY_CPU
    if value in (BESIDE_REDIS, OWN_CPU):
        return value
    try:
        return int(number(option, value, "cpu"))
    except SettingError:
        raise SettingError(
            f"{option}: {value!r} is not allowed; it takes {ANY_CPU}, {BESIDE_REDIS}, {OWN_CPU} or {RANGES['cpu']}"
        ) from None


def numbers(option: str, value: t.Any, range_of: str) -> list[int | float]:
    """Return value as a list of distinct numbers; a single number or "0,10,25" will do.

    Raises:
        SettingError: it is empty, or one of them cannot be used or stands twice.
    """
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    elif not isinstance(value, (list, tuple)):
        value = [value]
    result = [number(option, each, range_of) for each in value]
    if not result:
        raise SettingError(f"{option}: the list is empty; it takes at least one of {RANGES[range_of]}")
    if len(set(result)) != len(result):
        raise SettingError(f"{option}: {list(value)!r} names one value twice; each takes {RANGES[range_of]}")
    return result


def size_in_bytes(option: str, value: t.Any, total: int | None = None) -> int:
    """Return value as bytes; a share such as 50% counts from total, if that is given.

    Raises:
        SettingError: it is no size.
    """
    match = re.match(r"^\s*(\d+(?:\.\d+)?)\s*(?:([KMGT]?)(?:i?B)?|(%))\s*$", str(value), re.IGNORECASE)
    if not match or (match.group(3) and total is None):
        share = ", or a share of the memory such as 50%" if total is not None else ""
        raise SettingError(
            f"{option}: {value!r} is no size. Allowed are bytes, or a number with K, M, G or T (powers of 1024){share}"
        )
    if match.group(3):
        return int(total * float(match.group(1)) / 100)
    return int(float(match.group(1)) * _UNITS[(match.group(2) or "").upper()])


def size_text(size: float) -> str:
    """Return a size in bytes with four significant digits and a binary unit, such as "465.8 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            break
        size /= 1024
    else:
        unit = "TiB"
    return f"{size:.4g} {unit}"
