# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's table of ranges has the client's limits, and values at the limits reach the client intact."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / ".ansible" / "collections"))

from ansible_collections.memstretch.density.plugins.module_utils.solotest import client, options

ROOT = pathlib.Path(__file__).resolve().parents[3]

RANGES = {**options.RANGES, "cpu": options.CPU}
# An endpoint without a server: a client that accepts its options fails to connect to it.
NO_SERVER = {"host": "127.0.0.1", "port": 1, "socket": None, "username": None}
NO_TLS = {"tls": False, **dict.fromkeys(("ca_certs", "client_cert_file", "client_key_file", "tls_server_name"))}
SETTINGS = {
    **dict.fromkeys(RANGES),
    **NO_SERVER,
    **NO_TLS,
    "mode": "test",
    "value_size": 1000,
    "key_count": 1000,
    "influence": 0.0,
    "rate": 1000.0,
    "read_mix": 100,
    "arrivals": "periodic",
    "pacing": "hybrid",
    "pattern": "gaussian",
    "raw_samples": None,
    "overwrite": False,
}
USAGE, CANNOT_CONNECT = 2, 3


def run(solotest, **changes):
    """Run the client with the arguments that the module gives it."""
    settings = {**SETTINGS, **changes}
    return solotest.run(*client.command(settings, solotest.program, settings["cpu"])[1:])


@pytest.mark.parametrize("name", RANGES)
def test_the_client_has_the_same_limits(solotest, name):
    allowed = RANGES[name]

    for beyond in (allowed.kind(allowed.low) - 1, allowed.kind(allowed.high) + 1):
        result = run(solotest, **{name: beyond})
        assert result.code == USAGE, result
        low, high = re.search(r"from (\S+) to (\S+)$", result.messages.strip()).groups()
        assert (float(low), float(high)) == (allowed.low, allowed.high)
        assert ("whole number" in result.messages) == (allowed.kind is int)


@pytest.mark.parametrize("name", options.RANGES)
def test_the_client_accepts_both_limits(solotest, name):
    for limit in (options.RANGES[name].low, options.RANGES[name].high):
        result = run(solotest, **{name: options.RANGES[name].kind(limit)})
        assert result.code == CANNOT_CONNECT, result


def test_no_option_of_the_client_is_forgotten(solotest):
    ranged = re.findall(r"^  (\S+) .*\n +from \S+ to \S+$", solotest.run("--help").output, re.MULTILINE)

    left_out = {"--connect-timeout", "--windows"}  # which the module does not offer
    assert len(ranged) == len(RANGES) + len(left_out) and left_out <= set(ranged)
