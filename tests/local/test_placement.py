# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the client runs, on real Redis servers of this machine."""

from __future__ import annotations

import json
import os
import zlib

import pytest

from .conftest import RedisServer

CPUS = sorted(os.sched_getaffinity(0))


def measured(outcome):
    """The placement of each host in the last phase."""
    return {name: result["placement"] for name, result in outcome.phase(outcome.phase_files[-1])["hosts"].items()}


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU: there is nothing to choose")
@pytest.mark.long
def test_the_client_next_to_redis_and_on_its_own_cpu(fleet):
    fleet.add("a", "b")
    for server, cpu in zip(fleet.servers.values(), (CPUS[0], CPUS[-1])):
        os.sched_setaffinity(server.process.pid, {cpu})
    beside = fleet.run_playbook("-e", "latency_benchmark_cpu=beside_redis")
    assert beside.status == 0, beside.output
    for name, cpu in (("a", CPUS[0]), ("b", CPUS[-1])):
        assert measured(beside)[name] == {
            "requested": "beside_redis",
            "client_cpus": str(cpu),
            "client_last_cpu": cpu,
            "server_pid": fleet.servers[name].process.pid,
            "server_cpus": str(cpu),
            "server_last_cpu": cpu,
            "shares_cpu": "always",
            "unknown": None,
        }
    assert beside.summary["placement"] == {
        "requested": "beside_redis",
        "shares_cpu": {"always": 2, "possibly": 0, "never": 0, "unknown": 0},
    }
    assert "Client's CPU: beside_redis requested; shared with Redis always on 2 of the hosts" in beside.output

    own = fleet.run_playbook("-e", "latency_benchmark_cpu=own")
    assert own.status == 0, own.output
    assert "Resuming" not in own.output  # other settings, another run
    for name, cpu in (("a", CPUS[0]), ("b", CPUS[-1])):
        found = measured(own)[name]
        assert found["shares_cpu"] == "never" and found["client_cpus"] != str(cpu) and found["server_cpus"] == str(cpu)

    # Not pinned: the client is, and what comes of it is said.
    for server in fleet.servers.values():
        os.sched_setaffinity(server.process.pid, set(CPUS))
    loose = fleet.run_playbook("-e", "latency_benchmark_cpu=beside_redis", "-e", "run_id=loose")
    assert loose.status == 0, loose.output
    assert {(each["shares_cpu"], len(each["client_cpus"])) for each in measured(loose).values()} == {("possibly", 1)}


def test_no_second_cpu(fleet):
    """Found before the fill, so before anything is emptied."""
    fleet.add("a")
    fleet.servers["a"].command("set", "1", "mine")
    wrapper = ["taskset", "--cpu-list", str(CPUS[0])]
    os.sched_setaffinity(fleet.servers["a"].process.pid, {CPUS[0]})
    unbound, fleet.command = fleet.command, lambda *arguments, **more: wrapper + unbound(*arguments, **more)
    outcome = fleet.run_playbook("-e", "latency_benchmark_cpu=own")
    assert outcome.status != 0
    assert (
        f"cpu: own is not possible: the client may use only CPU {CPUS[0]}, which Redis (process "
        f"{fleet.servers['a'].process.pid}) runs on"
    ) in outcome.output
    assert fleet.servers["a"].command("get", "1") == "mine" and not fleet.results.exists()


class ContainedRedis(RedisServer):
    """A server that counts processes by itself, as one in a container does."""

    COMMAND = (
        "unshare",
        *(() if os.getuid() == 0 else ("--map-root-user",)),
        "--pid",
        "--fork",
        "--kill-child",
        "redis-server",
        "-",
    )


@pytest.mark.long
def test_a_redis_whose_process_is_unknown(fleet, tmp_path):
    fleet.servers["a"] = ContainedRedis(tmp_path / "redis-a")
    refused = fleet.run_playbook("-e", "latency_benchmark_cpu=beside_redis")
    assert refused.status != 0
    assert "cpu: beside_redis is not possible: the Redis reports process id 1, which is " in refused.output
    assert "does it run in a container?" in refused.output and not fleet.results.exists()
    pinned = fleet.run_playbook("-e", f"latency_benchmark_cpu={CPUS[0]}")
    assert pinned.status == 0, pinned.output
    found = measured(pinned)["a"]
    assert found["requested"] == CPUS[0] and found["client_cpus"] == str(CPUS[0]) and found["shares_cpu"] is None
    assert "does it run in a container?" in found["unknown"]
    assert pinned.summary["placement"] == {
        "requested": CPUS[0],
        "shares_cpu": {"always": 0, "possibly": 0, "never": 0, "unknown": 1},
    }


@pytest.mark.long
def test_every_setting_reaches_the_run_and_the_client(fleet):
    fleet.add("a")
    load = {
        "key_count": 450,
        "value_size": 900,
        "compressibility": 1,
        "rate": 1000,
        "pattern": "sequential",
        "connections": 4,
        "pipeline": 2,
        "arrivals": "poisson",
        "pacing": "sleep",
        "cpu": CPUS[0],
    }
    matrix = {"influences": [0], "read_mixes": [60], "warmups": 0, "iterations": 2}
    validity = {"min_overlap": 0.0001}
    objective = {"slo_avg_us": 2e8, "slo_p99_us": 3e8, "stop_when_failed": True}
    settings = {**load, **matrix, **validity, **objective, "duration": 0.4}
    fleet.variables.update({f"latency_benchmark_{name}": value for name, value in settings.items()})
    outcome = fleet.run_playbook()
    assert outcome.status == 0, outcome.output
    config = json.loads((outcome.run / "run.json").read_text(encoding="utf-8"))["config"]
    assert config == {
        "profile": "dram",
        "load": {**load, "requests": 400},
        "matrix": matrix,
        "slo": {"avg_us": 2e8, "p99_us": 3e8},
        "validity": validity,
        "stop_when_failed": True,
    }
    used = outcome.phase(outcome.phase_files[-1])["hosts"]["a"]["settings"]
    names = ("key_count", "value_size", "compressibility", "rate", "pattern", "connections", "pipeline", "read_mix")
    assert {name: used[name] for name in names} == {**{name: settings.get(name) for name in names}, "read_mix": 60}
    assert used["requests"] == 400
    value = fleet.servers["a"].command("get", "7")
    assert len(value) == 900 and len(zlib.compress(value.encode())) < 60
