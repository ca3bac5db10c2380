# SPDX-License-Identifier: GPL-3.0-or-later
"""The experiments beside the latency of a fleet, for real on this machine, small."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import time

import pytest
import yaml

from .conftest import free_port

# Enough to see that all figures are there; tests/programs/membw tests whether they can be trusted.
# 16 MiB is the smallest buffer for the cache of 1 MiB that play_memory_bandwidth() tells membw to assume.
BANDWIDTH = {"memory_bandwidth_seconds": 0.05, "memory_bandwidth_repetitions": 1, "memory_bandwidth_buffer": "16M"}


def result(lab, run, experiment):
    return json.loads((lab.results / run / f"{experiment}.json").read_text(encoding="utf-8"))


@pytest.fixture
def fleet(lab):
    lab.add("alone")
    lab.variables.update(BANDWIDTH)
    return lab


def play_memory_bandwidth(lab, *arguments):
    """Play the playbook with the membw that the role ships, but let membw assume a cache of 1 MiB.

    Otherwise membw requires a buffer of 16 times this machine's cache. The role has no variable for the cache.
    """
    directory, wrapper = lab.path / "client", lab.path / "membw"
    wrapper.write_text(f'#!/bin/sh\nexec {directory}/membw-* --cache={2**20} "$@"\n', encoding="ascii")
    wrapper.chmod(0o755)
    variables = {"latency_benchmark_client_directory": str(directory), "memory_bandwidth_executable": str(wrapper)}
    return lab.play("-e", json.dumps(variables), *arguments, playbook="memory_bandwidth")


def test_memory_bandwidth_has_a_directory_of_its_own(fleet):
    done = play_memory_bandwidth(fleet, "-e", "run_id=nodes")

    assert done.status == 0, done.output
    kept = result(fleet, "nodes", "memory_bandwidth")["hosts"]["alone"]
    assert kept["cache_bytes"] == 2**20
    nodes = [name for name in os.listdir("/sys/devices/system/node") if name[4:].isdigit()]
    assert len(kept["pairs"]) == len(nodes) ** 2
    local = kept["pairs"][0]
    assert local["single"]["median"] > 1e6 and local["latency_ns"]["median"] > 0.5
    assert "growth with the number of readers" in done.output.lower()
    assert "memory_bandwidth-0" in (fleet.results / "nodes" / "report.html").read_text(encoding="utf-8")
    assert not (fleet.results / "latest").exists()  # which is for runs

    again = play_memory_bandwidth(fleet, "-e", "run_id=nodes")
    assert again.status == 2
    assert "holds a result of memory_bandwidth already" in again.output


def test_memory_bandwidth_goes_into_a_run_and_its_page(fleet):
    assert fleet.play("-e", "run_id=first").status == 0
    before = (fleet.results / "first" / "summary.json").read_text(encoding="utf-8")
    done = play_memory_bandwidth(fleet, "-e", "run_id=first")

    assert done.status == 0, done.output
    page = (fleet.results / "first" / "report.html").read_text(encoding="utf-8")
    assert 'id="memory_bandwidth"' in page and 'id="percentiles"' in page
    assert (fleet.results / "first" / "summary.json").read_text(encoding="utf-8") == before


def test_memory_bandwidth_in_check_mode_measures_nothing(fleet):
    done = fleet.play("--check", playbook="memory_bandwidth")

    assert done.status == 0, done.output
    assert "seconds of reading" in done.output
    assert not fleet.results.exists()


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("memory_bandwidth_seconds", 0, "seconds: 0 is out of range"),
        ("memory_bandwidth_buffer", "much", "buffer: 'much' is no size"),
        ("run_id", "a/b", "run_id: 'a/b' is not allowed"),
    ],
)
def test_memory_bandwidth_refuses_bad_input(fleet, name, value, text):
    done = fleet.play("-e", json.dumps({name: value}), playbook="memory_bandwidth")

    assert done.status == 2
    assert text in done.output
    assert not fleet.results.exists()


THROUGHPUT = {
    "throughput_benchmark_data": "1M",
    "throughput_port": None,
    "host_tuning_state": "recorded",
    "redis_supervisor": "daemon",
}


@pytest.fixture
def one_host(lab):
    """An inventory with one hypervisor that is not tuned, and a port that nothing listens on."""
    variables = {**THROUGHPUT, "throughput_port": free_port(), "redis_directory": str(lab.path / "throughput")}
    path = lab.path / "one_host.yml"
    path.write_text(
        yaml.safe_dump(
            {
                "all": {
                    "vars": {
                        "ansible_connection": "local",
                        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                    },
                    "children": {"hypervisors": {"hosts": {"big": None}, "vars": variables}},
                }
            }
        ),
        encoding="utf-8",
    )

    def play(*arguments):
        return lab.play(*arguments, playbook="throughput", inventory=path)

    play.port = variables["throughput_port"]
    return play


def test_throughput_of_two_profiles_from_one_command(lab, one_host):
    done = one_host("-e", "profiles=dram,zram", "-e", "run_id=big")

    assert done.status == 0, done.output
    kept = result(lab, "big", "throughput_benchmark")
    assert kept["expected"] == ["dram", "zram"] and list(kept["hosts"]) == ["dram", "zram"]
    for measured in kept["hosts"].values():
        assert len(measured["cases"]) == 12
        assert all(case["ops_per_second"] > 0 and case["redis_cpu_share"] > 0 for case in measured["cases"])
    for words in ("hot data", "cold data", "new keys"):
        assert f"{words} " in done.output and "of dram (SET, zram)" in done.output
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", one_host.port), timeout=5)


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("throughput_benchmark_data", "100T", "of free memory and swap; choose less data"),
        (
            "throughput_benchmark_stretch",
            0,
            "throughput_benchmark_stretch: 0 is out of range; it takes a number from 1 to 1,000",
        ),
        ("profiles", "dram,none_such", "none_such"),
    ],
)
def test_throughput_refuses_bad_input(lab, one_host, name, value, text):
    done = one_host("-e", json.dumps({name: value}))

    assert done.status == 2
    assert text in " ".join(done.output.split())
    assert not (lab.results / "latest").exists()


def test_throughput_in_check_mode_measures_nothing(lab, one_host):
    done = one_host("--check")

    assert done.status == 0, done.output
    assert not lab.results.exists()


WRITEBACK = {
    "writeback_benchmark_seconds": 0.5,
    "writeback_benchmark_repetitions": 1,
    "writeback_benchmark_dirty_bytes": ["15M"],
    "writeback_benchmark_threads": [1],
    "writeback_benchmark_file_size": "1M",
    "writeback_benchmark_flood_size": "8M",
    "writeback_benchmark_install": False,
}
DIRTY = ("/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio")
RECORD = pathlib.Path("/var/lib/memstretch/writeback_benchmark.json")


def dirty():
    return [pathlib.Path(path).read_text(encoding="ascii") for path in DIRTY]


@pytest.fixture
def disk(lab, tmp_path):
    """A fleet of one host with a directory on a disk; whatever happens, the host is as before."""
    if os.geteuid() != 0:
        pytest.skip("vm.dirty_bytes can be set by root only")
    assert not RECORD.exists(), (
        f"{RECORD} is there: play playbooks/writeback.yml -e writeback_benchmark_state=restored first"
    )
    place = tmp_path / "disk"
    place.mkdir()
    lab.add("alone")
    lab.variables.update(WRITEBACK, writeback_benchmark_directory=str(place))
    before = dirty()
    yield place
    assert lab.play("-e", "writeback_benchmark_state=restored", playbook="writeback").status == 0
    assert dirty() == before and not RECORD.exists()


def test_writeback_measures_and_leaves_nothing_behind(lab, disk):
    before = dirty()
    done = lab.play("-e", "run_id=wb", playbook="writeback")

    assert done.status == 0, done.output
    kept = result(lab, "wb", "writeback_benchmark")["hosts"]["alone"]
    assert [setting["dirty_bytes"] for setting in kept["settings_measured"]] == [0, 15 << 20]
    assert all(
        setting["sequential"]["median"] > 0 and setting["threads"][0]["flood_iops"]["median"] > 0
        for setting in kept["settings_measured"]
    )
    assert "knee" in done.output
    assert dirty() == before and not RECORD.exists() and list(disk.iterdir()) == []


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_writeback_that_is_ended_is_undone(lab, disk, signal_number):
    before = dirty()
    lab.variables["writeback_benchmark_seconds"] = 4
    play = lab.start(playbook="writeback")
    deadline = time.monotonic() + 200
    while dirty() == before or not module_above_fio(disk):
        assert play.poll() is None and time.monotonic() < deadline, "it did not set vm.dirty_bytes"
        time.sleep(0.1)
    os.kill(module_above_fio(disk), signal_number)
    done = lab.wait(play)

    assert done.status == 2
    if signal_number == signal.SIGTERM:
        deadline = time.monotonic() + 60
        while RECORD.exists() or list(disk.iterdir()):  # Ansible does not wait for a module that was ended
            assert time.monotonic() < deadline, "it did not clean up"
            time.sleep(0.1)
        assert dirty() == before
    else:
        assert dirty() != before and RECORD.exists()
        assert lab.play("-e", "writeback_benchmark_state=restored", playbook="writeback").status == 0
        assert dirty() == before and not RECORD.exists()


def module_above_fio(place):
    """The pid of the module whose fio writes into a directory."""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if (
                entry.name.isdigit()
                and (entry / "comm").read_text(encoding="ascii").strip() == "fio"
                and str(place) in os.readlink(entry / "cwd")
            ):
                parent = int((entry / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
                if pathlib.Path(f"/proc/{parent}/comm").read_text(encoding="ascii").startswith("python"):
                    return parent
    return None


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("writeback_benchmark_flood_size", "1000T", "must stay free. Take a smaller flood_size"),
        ("writeback_benchmark_dirty_bytes", ["1"], "dirty_bytes: ['1'] is not allowed"),
        ("writeback_benchmark_directory", "/none/such", "directory: /none/such is no directory"),
    ],
)
def test_writeback_refuses_bad_input(lab, disk, name, value, text):
    done = lab.play("-e", json.dumps({name: value}), playbook="writeback")

    assert done.status == 2
    assert text in " ".join(done.output.split())
    assert not lab.results.exists()


def test_writeback_in_check_mode_changes_nothing(lab, disk):
    done = lab.play("--check", playbook="writeback")

    assert done.status == 0, done.output
    assert "seconds of synchronous writes" in done.output
    assert not lab.results.exists() and list(disk.iterdir()) == []
