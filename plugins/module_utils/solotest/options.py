# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the latency client: one table, from which come its command line, the checks and the argument spec.

The client has a table of its own, in files/solotest/options.c. tests/unit compares names, types, choices and defaults
with it, tests/programs/solotest the limits with what the client accepts.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges, SettingError, number

PATTERNS = ("gaussian", "uniform", "sequential")
ARRIVALS = ("periodic", "jitter", "poisson")
PACINGS = ("hybrid", "sleep", "spin", "none")


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of one execution.

    Attributes:
        kind: its type in an argument spec.
        flag: the client's long option for it; None if it is positional or the client does not have it.
        allowed: the numbers that it allows.
        no_log: False if its name only looks like that of a secret.
    """

    kind: str
    default: t.Any = None
    flag: str | None = None
    allowed: Range[t.Any] | None = None
    choices: tuple[str, ...] = ()
    no_log: bool | None = None

    def argument(self) -> dict[str, t.Any]:
        """Return this option as a part of an argument spec."""
        said = {"default": self.default, "choices": list(self.choices) or None, "no_log": self.no_log}
        return {"type": self.kind, **{name: value for name, value in said.items() if value is not None}}


def _whole(low: float, high: float, unit: str, default: int | None = None, flag: str | None = None) -> Option:
    return Option("int", default, flag, Range(int, low, high, unit))


def _real(low: float, high: float, unit: str, default: float | None = None, flag: str | None = None) -> Option:
    return Option("float", default, flag, Range(float, low, high, unit))


OPTIONS: dict[str, Option] = {
    "mode": Option("str", "test", choices=("test", "fill", "ping")),
    "executable": Option("path", "solotest"),
    "host": Option("str", "127.0.0.1", "--host"),
    "port": _whole(1, 65_535, "TCP port", 6379),
    "socket": Option("path", flag="--socket"),
    "username": Option("str", flag="--user"),
    "password": Option("str", no_log=True),
    "tls": Option("bool", False),
    "validate_certs": Option("bool", True),
    "ca_certs": Option("path", flag="--cacert"),
    "client_cert_file": Option("path", flag="--cert"),
    "client_key_file": Option("path", flag="--key"),
    "tls_server_name": Option("str", flag="--sni"),
    "value_size": _whole(1, 512 * 2**20, "bytes", 1000),
    "key_count": dataclasses.replace(_whole(1, 10**12, "keys", 20_000_000), no_log=False),
    "influence": _real(-1_000_000, 1_000_000, "strength of the pull towards the middle; 0 is flat", -1),
    "rate": _real(0.001, 1_000_000_000, "requests per second and host", 1_000_000),
    "read_mix": _whole(-1, 100, "percent of GETs; -1 is SETs only", 100),
    "requests": _whole(1, 10**12, "requests", flag="--requests"),
    "duration": _real(0.001, 1_000_000_000, "seconds", flag="--duration"),
    "max_seconds": _real(0.001, 1_000_000_000, "seconds", flag="--max-seconds"),
    "start_at": _real(0, 4_102_444_800, "seconds since the epoch", flag="--start-at"),
    "stagger": _real(0, 0.999999999, "fraction of one interval", 0, "--stagger"),
    "arrivals": Option("str", "periodic", "--arrivals", choices=ARRIVALS),
    "pacing": Option("str", "hybrid", "--pacing", choices=PACINGS),
    "spin_us": _whole(0, 1_000_000, "microseconds", 0, "--spin-us"),
    "cpu": Option("raw", "any"),
    "connections": _whole(1, 512, "connections to one Redis", 1, "--connections"),
    "pipeline": _whole(1, 4096, "requests in flight per connection", 1, "--pipeline"),
    "pattern": Option("str", "gaussian", "--pattern", choices=PATTERNS),
    "compressibility": _real(0, 1, "share of the values that LZ4 saves", 0, "--compressibility"),
    "seed": _whole(0, 2**53 - 1, "seed", flag="--seed"),
    "reply_timeout": _real(0.001, 86_400, "seconds", 60, "--timeout"),
    "overwrite": Option("bool", False),
    "raw_samples": Option("path", flag="--raw"),
    "phase": Option("str"),
    "run_id": Option("str"),
    "observe": Option("bool", False),
}
# What the client's command line ends with, after the mode.
POSITIONAL = ("port", "value_size", "key_count", "influence", "rate", "read_mix")

RANGES: Ranges = {name: option.allowed for name, option in OPTIONS.items() if option.allowed}
FLAGS = {name: option.flag for name, option in OPTIONS.items() if option.flag}
CPU = Range(int, 0, 1023, "CPU number")

# The options of one execution, for the modules solotest and solotest_schedule, and which of them need others.
ARGUMENTS: dict[str, t.Any] = {name: option.argument() for name, option in OPTIONS.items()}
NEEDED: dict[str, t.Any] = {
    "required_by": {"username": ["password"]},
    "required_together": [("client_cert_file", "client_key_file")],
}

# Where the client may run, other than on a CPU by its number.
ANY_CPU, BESIDE_REDIS, OWN_CPU = "any", "beside_redis", "own"


def cpu_choice(option: str, value: t.Any) -> str | int:
    """Return value as ANY_CPU (the default), BESIDE_REDIS, OWN_CPU or the number of a CPU.

    Raises:
        SettingError: the value is none of these.
    """
    if value in (None, "", ANY_CPU):
        return ANY_CPU
    if value in (BESIDE_REDIS, OWN_CPU):
        return value
    try:
        return number(option, value, CPU)
    except SettingError:
        raise SettingError(
            f"{option}: {value!r} is not allowed; it must be {ANY_CPU}, {BESIDE_REDIS}, {OWN_CPU} or {CPU}"
        ) from None
