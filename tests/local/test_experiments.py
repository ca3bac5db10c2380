# SPDX-License-Identifier: GPL-3.0-or-later
"""Small runs of the experiments on this machine: memory bandwidth and throughput."""

from __future__ import annotations

import collections
import itertools
import os
import signal
import socket

import pytest

from .conftest import REDIS_OF_THE_PLAY, free_ports, wait_for, write_inventory

# Enough to see that all figures are there; tests/programs/membw tests whether they can be trusted.
# 16 MiB is the smallest buffer for a cache of 1 MiB, whatever this machine has.
BANDWIDTH = {
    "memory_bandwidth_seconds": 0.05,
    "memory_bandwidth_repetitions": 1,
    "memory_bandwidth_buffer": "16M",
    "memory_bandwidth_cache": "1M",
}


@pytest.fixture
def fleet_of_one(fleet):
    fleet.add("alone")
    fleet.variables.update(BANDWIDTH)
    return fleet


def test_memory_bandwidth_has_a_directory_of_its_own(fleet_of_one):
    done = fleet_of_one.run_playbook("-e", "run_id=nodes", playbook="memory_bandwidth")

    assert done.status == 0, done.output
    kept = fleet_of_one.document("nodes", "memory_bandwidth")["hosts"]["alone"]
    assert kept["cache_bytes"] == 2**20
    assert "the size of the cache, 1 MiB, was given and not read from the kernel" in kept["doubts"]
    nodes = [int(name[4:]) for name in os.listdir("/sys/devices/system/node") if name[4:].isdigit()]
    pairs = sorted((pair["cpu_node"], pair["memory_node"]) for pair in kept["pairs"])
    assert pairs == sorted(itertools.product(nodes, nodes))
    local = kept["pairs"][0]
    assert local["single"]["median"] > 1e6 and local["latency_ns"]["median"] > 0.5
    assert "growth with the number of readers" in done.output.lower()
    assert "memory_bandwidth-0" in (fleet_of_one.results / "nodes" / "report.html").read_text(encoding="utf-8")
    assert not (fleet_of_one.results / "latest").exists()  # which is for runs

    again = fleet_of_one.run_playbook("-e", "run_id=nodes", playbook="memory_bandwidth")
    assert again.status == 2
    assert "holds a result of memory_bandwidth already" in again.output


@pytest.mark.long
def test_memory_bandwidth_goes_into_a_run_and_its_page(fleet_of_one):
    assert fleet_of_one.run_playbook("-e", "run_id=first").status == 0
    before = (fleet_of_one.results / "first" / "summary.json").read_text(encoding="utf-8")
    done = fleet_of_one.run_playbook("-e", "run_id=first", playbook="memory_bandwidth")

    assert done.status == 0, done.output
    page = (fleet_of_one.results / "first" / "report.html").read_text(encoding="utf-8")
    assert 'id="memory_bandwidth"' in page and 'id="percentiles"' in page
    assert (fleet_of_one.results / "first" / "summary.json").read_text(encoding="utf-8") == before


def test_memory_bandwidth_in_check_mode_measures_nothing(fleet_of_one):
    done = fleet_of_one.run_playbook("--check", playbook="memory_bandwidth")

    assert done.status == 0, done.output
    assert "seconds of reading" in done.output
    assert not fleet_of_one.results.exists()


def test_memory_bandwidth_refuses_bad_input(fleet_of_one):
    cases = [
        ({"memory_bandwidth_seconds": 0}, "seconds: 0 is out of range"),
        ({"memory_bandwidth_buffer": "much"}, "buffer: 'much' is not a size"),
        ({"memory_bandwidth_run_id": "a/b"}, "run_id: 'a/b' is not allowed"),
    ]
    common = {"memory_bandwidth_results_dir": str(fleet_of_one.results)}
    assert not fleet_of_one.not_refused("memory_bandwidth", [({**common, **case}, text) for case, text in cases])
    assert not fleet_of_one.results.exists()


# Sequential access with each of three value sizes, the others with the smallest.
FITTING = {("sequential", "SET"): 3, ("sequential", "GET"): 3, ("random", "SET"): 1, ("random", "GET"): 1}
STRETCHED = {("curve", "SET"): 1, **dict.fromkeys(itertools.product(("cold", "hot"), ("SET", "GET")), 1)}


@pytest.fixture
def one_host(fleet):
    """An inventory with one hypervisor that is not tuned, and a port that nothing listens on.

    Only under the first profile is there too little room for the cold and hot cases. One request in flight, because the
    room for large values in flight would exceed that for a megabyte of data.
    """
    port = free_ports(1)
    variables = {
        "throughput_benchmark_data": "1M",
        "throughput_benchmark_stretch": 20,
        "throughput_benchmark_seconds": 0.1,
        "throughput_benchmark_connections": 1,
        "throughput_benchmark_pipeline": 1,
        "throughput_benchmark_dram": "{{ '30M' if profile == 'dram' else '' }}",
        "throughput_port": port,
        "host_tuning_state": "recorded",
        "redis_supervisor": "daemon",
        "redis_directory": str(fleet.path / "throughput"),
        **REDIS_OF_THE_PLAY,
    }
    hypervisors = {"hosts": {"big": None}, "vars": variables}
    return write_inventory(fleet.path / "one_host.yml", {"hypervisors": hypervisors}), port


def cases_of(measured):
    """Count how often each case and operation was measured in each round."""
    return [collections.Counter((case["case"], case["op"]) for case in each["cases"]) for each in measured["rounds"]]


@pytest.mark.long
def test_throughput_of_two_profiles_is_continued_after_an_interruption_and_compared(fleet, one_host):
    """One command measures both profiles. First the second one fails, because a user without a password is refused."""
    inventory, port = one_host
    arguments = ["-e", "profiles=dram,zram", "-e", "throughput_rounds=1"]
    broken = ["-e", "{\"throughput_benchmark_username\": \"{{ 'nobody' if throughput_part.arm == 'zram' else '' }}\"}"]
    done = fleet.run_playbook(*arguments, *broken, "-e", "run_id=b", playbook="throughput", inventory=inventory)
    assert done.status == 2
    told = "dram leaves out curve SET, cold SET, cold GET, hot SET, hot GET: Redis would need up to"
    assert told in " ".join(done.output.split())
    parts = fleet.document("b", "throughput_benchmark.unfinished")["parts"]
    assert list(parts) == ["dram, round 1"]
    with pytest.raises(ConnectionRefusedError):  # it was removed after the failure
        socket.create_connection(("127.0.0.1", port), timeout=5)

    changed = ["-e", "throughput_benchmark_stretch=1"]
    other = fleet.run_playbook(*arguments, *changed, "-e", "run_id=b", playbook="throughput", inventory=inventory)
    assert other.status == 2 and "has an unfinished throughput_benchmark with other settings" in other.output

    again = fleet.run_playbook(*arguments, playbook="throughput", inventory=inventory)
    assert again.status == 0, again.output
    kept = fleet.document("b", "throughput_benchmark")
    assert kept["expected"] == ["dram", "zram"] and list(kept["hosts"]) == ["dram", "zram"]
    assert kept["hosts"]["dram"]["rounds"] == [parts["dram, round 1"]], "what was measured is kept"
    assert cases_of(kept["hosts"]["dram"]) == [FITTING]
    assert cases_of(kept["hosts"]["zram"]) == [{**FITTING, **STRETCHED}]
    left_out = kept["hosts"]["dram"]["rounds"][0]["left_out"]
    assert {(case["case"], case["op"]) for case in left_out} == set(STRETCHED)
    for measured in kept["hosts"].values():
        assert all(
            case["ops_per_second"] > 0 and case["redis_cpu_share"] > 0 for case in measured["rounds"][0]["cases"]
        )
    hot = [case for case in kept["hosts"]["zram"]["rounds"][0]["cases"] if case["case"] == "hot"]
    assert {case["keys"] for case in hot} == {1048}  # the data, not its multiple
    shown = " ".join(again.output.split())
    answer = next(line for line in again.output.splitlines() if line.startswith("Of the operations per second of dram"))
    assert "for hot data" in answer and "for cold data" in answer, "these come first"
    for words in ("hot data", "cold data", "writing new keys", "reading them"):
        assert f"{words} " in shown
    assert "Indicative: fewer than 3 rounds give no interval." in shown
    assert not (fleet.results / "b" / "throughput_benchmark.unfinished.json").exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)

    (fleet.results / "c").mkdir()
    (fleet.results / "c" / "throughput_benchmark.json").write_bytes(
        (fleet.results / "b" / "throughput_benchmark.json").read_bytes()
    )
    compared = fleet.run_playbook("-e", "runs=b,c", playbook="report", inventory=inventory)
    assert compared.status == 0, compared.output
    assert "c/dram reaches 100 % (indicative) for writing new keys" in " ".join(compared.output.split())


@pytest.mark.long
def test_throughput_of_an_interrupted_playbook_is_given_up_by_restore(fleet, one_host):
    inventory, port = one_host
    process = fleet.start(
        *("-e", "throughput_benchmark_seconds=60", "-e", "throughput_rounds=1"),
        playbook="throughput",
        inventory=inventory,
    )
    wait_for("Redis", lambda: answers(port), process)
    process.send_signal(signal.SIGINT)
    assert fleet.wait(process).status != 0 and answers(port)
    restored = fleet.run_playbook("-e", "host_tuning_state=recorded", playbook="restore", inventory=inventory)
    assert restored.status == 0, restored.output
    assert not answers(port) and not (fleet.path / "throughput").exists()


def answers(port):
    """Decide whether something listens on a port."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
def test_throughput_refuses_bad_input(fleet, one_host):
    inventory, dummy = one_host
    done = fleet.run_playbook("-e", "profiles=dram,none_such", playbook="throughput", inventory=inventory)
    assert done.status == 2
    assert "none_such" in done.output
    one = fleet.run_playbook("-e", "profile=zram", playbook="throughput", inventory=inventory)
    assert one.status == 2 and one.output.strip().splitlines()[-1].endswith("such as -e profiles=dram,zram"), one.output
    cases = [
        ({"throughput_benchmark_data": "100T"}, "no case fits: Redis needs at least"),
        ({"throughput_benchmark_dram": "much"}, "throughput_benchmark_dram: 'much' is not a size"),
        (
            {"throughput_benchmark_stretch": 0},
            "throughput_benchmark_stretch: 0 is out of range; it must be a number from 1 to 1,000",
        ),
    ]
    common = {"throughput_benchmark_results_dir": str(fleet.results), "profile": "zram"}
    cases = [({**common, **case}, text) for case, text in cases]
    assert not fleet.not_refused("throughput_benchmark", cases, inventory, hosts="hypervisors")
    assert not (fleet.results / "latest").exists()


def test_throughput_in_check_mode_measures_nothing(fleet, one_host):
    inventory, dummy = one_host
    done = fleet.run_playbook("--check", "-e", "throughput_rounds=1", playbook="throughput", inventory=inventory)

    assert done.status == 0, done.output
    assert not fleet.results.exists()
