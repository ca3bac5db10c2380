# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the latency client, with the client's own limits.

The client enforces these limits too; tests/programs/solotest compares them with what it accepts.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, Ranges, SettingError, number

RANGES: Ranges = {
    "port": Range(int, 1, 65_535, "TCP port"),
    "value_size": Range(int, 1, 512 * 2**20, "bytes"),
    "key_count": Range(int, 1, 10**12, "keys"),
    "influence": Range(float, -1_000_000, 1_000_000, "strength of the pull towards the middle; 0 is flat"),
    "rate": Range(float, 0.001, 1_000_000_000, "requests per second and host"),
    "read_mix": Range(int, -1, 100, "percent of GETs; -1 is SETs only"),
    "requests": Range(int, 1, 10**12, "requests"),
    "duration": Range(float, 0.001, 1_000_000_000, "seconds"),
    "max_seconds": Range(float, 0.001, 1_000_000_000, "seconds"),
    "connections": Range(int, 1, 512, "connections to one Redis"),
    "pipeline": Range(int, 1, 4096, "requests in flight per connection"),
    "spin_us": Range(int, 0, 1_000_000, "microseconds"),
    "start_at": Range(float, 0, 4_102_444_800, "seconds since the epoch"),
    "stagger": Range(float, 0, 0.999999999, "fraction of one interval"),
    "seed": Range(int, 0, 2**53 - 1, "seed"),
    "compressibility": Range(float, 0, 1, "share of each value that is constant"),
    "reply_timeout": Range(float, 0.001, 86_400, "seconds"),
}
CPU = Range(int, 0, 1023, "CPU number")

# Of the modules solotest and solotest_clients: the options of one execution, and which of them need others.
ARGUMENTS: dict[str, t.Any] = {
    "mode": {"type": "str", "choices": ["test", "fill", "ping"], "default": "test"},
    "executable": {"type": "path", "default": "solotest"},
    "host": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "default": 6379},
    "socket": {"type": "path"},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "tls": {"type": "bool", "default": False},
    "validate_certs": {"type": "bool", "default": True},
    "ca_certs": {"type": "path"},
    "client_cert_file": {"type": "path"},
    "client_key_file": {"type": "path"},
    "tls_server_name": {"type": "str"},
    "value_size": {"type": "int", "default": 1000},
    "key_count": {"type": "int", "default": 20000000, "no_log": False},
    "requests": {"type": "int"},
    "duration": {"type": "float"},
    "rate": {"type": "float", "default": 1000000},
    "influence": {"type": "float", "default": -1},
    "read_mix": {"type": "int", "default": 100},
    "start_at": {"type": "float"},
    "stagger": {"type": "float", "default": 0},
    "arrivals": {"type": "str", "choices": ["periodic", "jitter", "poisson"], "default": "periodic"},
    "pacing": {"type": "str", "choices": ["hybrid", "sleep", "spin", "none"], "default": "hybrid"},
    "spin_us": {"type": "int", "default": 0},
    "cpu": {"type": "raw", "default": "any"},
    "connections": {"type": "int", "default": 1},
    "pipeline": {"type": "int", "default": 1},
    "pattern": {"type": "str", "choices": ["gaussian", "uniform", "sequential"], "default": "gaussian"},
    "compressibility": {"type": "float", "default": 0},
    "seed": {"type": "int"},
    "max_seconds": {"type": "float"},
    "reply_timeout": {"type": "float", "default": 60},
    "overwrite": {"type": "bool", "default": False},
    "raw_samples": {"type": "path"},
    "detach": {"type": "bool", "default": False},
    "phase": {"type": "str"},
    "run_id": {"type": "str"},
    "observe": {"type": "bool", "default": False},
}
NEEDED: dict[str, t.Any] = {
    "required_by": {"username": ["password"]},
    "required_together": [("client_cert_file", "client_key_file")],
}

PATTERNS = ("gaussian", "uniform", "sequential")
ARRIVALS = ("periodic", "jitter", "poisson")

# Where the client may run, besides the number of a CPU.
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
