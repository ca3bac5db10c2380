# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""The servers as processes, sockets and answers; and what they counted of the measurement."""

from __future__ import annotations

import json
import os
import pathlib
import re

DIRECTORY = pathlib.Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
REQUESTS_OF_A_PHASE = 1000


def answer(host, command):
    """Return the output of redis-cli about the server of a host."""
    return host.check_output("redis-cli -p %s " + command, str(host.ansible.get_variables()["redis_port"]))


def name(host):
    return host.ansible.get_variables()["inventory_hostname"]


def test_a_server_of_its_own_listens_on_loopback_only(host):
    port = host.ansible.get_variables()["redis_port"]
    listening = [address for address in host.socket.get_listening_sockets() if address.endswith(f":{port}")]
    assert listening == [f"tcp://127.0.0.1:{port}"]
    pid = re.search(r"process_id:(\d+)", answer(host, "info server"))[1]
    assert os.readlink(f"/proc/{pid}/cwd") == str(DIRECTORY / "redis" / name(host))


def test_it_has_its_memory_limit_and_keeps_nothing_on_disk(host):
    assert answer(host, "config get maxmemory").split() == ["maxmemory", str(32 * 1024 * 1024)]
    assert answer(host, "config get save").split() == ["save"]
    assert answer(host, "config get appendonly").split() == ["appendonly", "no"]


def test_it_holds_the_records(host):
    assert answer(host, "exists 0 999 1000") == "2"
    assert answer(host, "dbsize") == "1001"  # and the client's note that they are its own


def test_it_counted_the_requests_that_the_results_claim(host):
    claimed = {"get": 0, "set": 0}
    for file in sorted((DIRECTORY / "results" / "molecule" / "phases").glob("*-r*.json")):
        sent = json.loads(file.read_text(encoding="utf-8"))["hosts"][name(host)]["requests"]
        claimed = {"get": claimed["get"] + sent["gets"], "set": claimed["set"] + sent["sets"]}
    assert sum(claimed.values()) == 2 * REQUESTS_OF_A_PHASE and claimed["set"]
    counted = dict(re.findall(r"cmdstat_(\w+):calls=(\d+)", answer(host, "info commandstats")))
    assert int(counted["get"]) >= claimed["get"] and int(counted["set"]) >= claimed["set"]
