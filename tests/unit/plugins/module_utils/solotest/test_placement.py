# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement on recorded hosts. tests/local/test_placement.py measures real ones."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.solotest import placement
from ansible_collections.memstretch.density.plugins.module_utils.solotest.placement import PlacementError, Server

PID = 4242


@pytest.fixture
def host(tmp_path):
    """A function that makes a host with some CPUs and a Redis on some of them."""

    def make(cpus=8, threads=1, nodes=1, redis_on="0-7", last=5, comm="redis-server"):
        def put(name, text):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="ascii")

        for cpu in range(cpus):
            core = cpu % (cpus // threads)
            siblings = ",".join(str(core + thread * (cpus // threads)) for thread in range(threads))
            put(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings)
            put(f"sys/devices/system/cpu/cpu{cpu}/node{core * nodes // (cpus // threads)}/cpulist", "")
        put(f"proc/{PID}/comm", comm)
        put(
            f"proc/{PID}/status",
            f"Name:\t{comm}\nCpus_allowed:\tff\nCpus_allowed_list:\t{redis_on}\nMems_allowed_list:\t0",
        )
        # proc(5): 52 fields. The second one, in parentheses, may contain spaces and parentheses.
        fields = [str(number) for number in range(3, 53)]
        fields[39 - 3] = str(last)
        put(f"proc/{PID}/stat", f"{PID} ({comm} (a) b) " + " ".join(fields))
        return HostFiles(str(tmp_path))

    return make


def options(**changes):
    return {"host": "127.0.0.1", "port": 6379, "socket": None, "cpu": "any", **changes}


def test_the_server_is_found_with_its_cpus(host):
    assert placement.find_server(host(redis_on="2-3,5"), options(), PID) == Server(PID, frozenset({2, 3, 5}), 5)


@pytest.mark.parametrize("comm", ["redis-server", "valkey-server", "keydb-server"])
def test_servers_with_the_same_protocol_are_recognised(host, comm):
    assert placement.find_server(host(comm=comm), options(), PID).pid == PID


@pytest.mark.parametrize(
    "changes, pid, reason",
    [
        ({"host": "192.0.2.1"}, PID, "192.0.2.1 does not run on this host"),
        ({"host": "no.such.name.invalid"}, PID, "cannot be resolved"),
        ({}, None, "does not report its process id"),
        ({}, 99, "process id 99, which does not exist or is hidden"),
    ],
)
def test_a_server_that_cannot_be_found(host, changes, pid, reason):
    with pytest.raises(PlacementError, match=reason):
        placement.find_server(host(), options(**changes), pid)


def test_another_process_with_the_id_of_the_server(host):
    with pytest.raises(PlacementError, match="is 'systemd' on this host; does it run in a container"):
        placement.find_server(host(comm="systemd"), options(), PID)


@pytest.mark.parametrize(
    "name, local",
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("localhost", True),
        ("192.0.2.1", False),
        ("2001:db8::1", False),
    ],
)
def test_local_addresses(name, local):
    assert placement.is_local(name) is local


def choose(files, wanted, usable, spread=0):
    return placement.choose(files, wanted, placement.find_server(files, options(), PID), frozenset(usable), spread)


@pytest.mark.parametrize(
    "redis_on, last, usable, expected",
    [
        ("3", 3, range(8), 3),  # pinned
        ("0-7", 5, range(8), 5),  # not pinned: where Redis ran last
        ("2-3", 3, [2], 2),  # the client may not use it
    ],
)
def test_beside_redis(host, redis_on, last, usable, expected):
    assert choose(host(redis_on=redis_on, last=last), "beside_redis", usable) == expected


def test_beside_redis_on_a_cpu_that_the_client_may_not_use(host):
    with pytest.raises(PlacementError, match="runs on CPU 3, but the client may use only CPU 0-2"):
        choose(host(redis_on="3", last=3), "beside_redis", {0, 1, 2})


@pytest.mark.parametrize(
    "redis_on, last, usable, expected",
    [
        ("1", 1, {0, 1}, {0}),
        ("0-1", 0, {0, 1}, {1}),  # Redis may run on any: not where it ran last
        ("0-3", 2, range(8), {4, 5, 6, 7}),
    ],
)
def test_own_cpu(host, redis_on, last, usable, expected):
    files = host(redis_on=redis_on, last=last)
    assert {choose(files, "own", usable, spread) for spread in range(8)} == expected


def test_own_cpu_is_another_core_of_the_same_node(host):
    # cores 0 to 3, threads n and n + 4; cores 0 and 1 are on node 0
    files = host(threads=2, nodes=2, redis_on="0", last=0)
    assert {choose(files, "own", range(8), spread) for spread in range(8)} == {1, 5}
    assert choose(files, "own", {0, 2, 4}) == 2  # another node is better than another thread of the same core
    assert choose(files, "own", {0, 4}) == 4  # another thread is better than the same CPU


@pytest.mark.parametrize("redis_on", ["0", "0-7"])
def test_own_cpu_needs_a_second_cpu(host, redis_on):
    with pytest.raises(PlacementError, match="the client may use only CPU 0.*a second CPU"):
        choose(host(redis_on=redis_on, last=0), "own", {0})


def test_redis_is_asked_only_if_the_placement_depends_on_it(host):
    def never():
        raise AssertionError("asked")

    for cpu in ("any", "", None):
        assert placement.place(host(), options(cpu=cpu), never) is None
    assert placement.place(host(), options(cpu="7"), never) == 7


def test_a_placement_that_is_not_possible_names_one_that_is(host):
    with pytest.raises(
        PlacementError,
        match="^cpu: own is not possible: the Redis does not report.*Use cpu: any or the number of a CPU",
    ):
        placement.place(host(), options(cpu="own"), lambda: None)


def test_a_redis_behind_a_socket_is_local(host):
    cpu = min(os.sched_getaffinity(0))
    files = host(redis_on=str(cpu), last=cpu)
    wanted = options(cpu="beside_redis", socket="/run/redis.sock", host="192.0.2.1")
    assert placement.place(files, wanted, lambda: PID) == cpu


def report(**changes):
    return {
        "client_health": {"cpus_allowed": "0-3", "cpu_last": 2},
        "server_before": {"process_id": PID},
        "server_after": None,
        **changes,
    }


def test_the_placement_in_the_result(host):
    found = placement.describe(host(redis_on="5", last=5), options(cpu="own"), report(), 4)
    assert found == {
        "requested": "own",
        "client_cpus": "0-3",
        "client_last_cpu": 2,
        "server_pid": PID,
        "server_cpus": "5",
        "server_last_cpu": 5,
        "shares_cpu": "never",
        "unknown": None,
    }


def test_the_placement_of_a_server_elsewhere(host):
    found = placement.describe(host(), options(host="192.0.2.1"), report(), None)
    assert found["shares_cpu"] is None and found["server_cpus"] is None and found["client_cpus"] == "0-3"
    assert "does not run on this host" in found["unknown"]


def test_the_placement_of_an_execution_without_load(host):
    found = placement.describe(host(redis_on="4", last=4), options(cpu="beside_redis"), report(client_health=None), 4)
    assert (found["client_cpus"], found["client_last_cpu"], found["shares_cpu"]) == ("4", None, "always")


@pytest.mark.parametrize(
    "client, server, expected",
    [
        ({1}, {1}, "always"),
        ({1}, {0, 1}, "possibly"),
        ({0, 1}, {0, 1}, "possibly"),
        ({0}, {1}, "never"),
        ({0, 1}, {2}, "never"),
    ],
)
def test_sharing(client, server, expected):
    assert placement.sharing(client, server) == expected


@pytest.mark.parametrize("numbers, expected", [([], ""), ([3], "3"), ([3, 1, 2, 8], "1-3,8"), ([0, 2, 4], "0,2,4")])
def test_lists_of_cpus(numbers, expected):
    assert placement.cpu_list(numbers) == expected
