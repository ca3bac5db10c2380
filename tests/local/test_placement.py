# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the client runs, on real Redis servers of this machine."""

from __future__ import annotations

import os

import pytest
import yaml

from .conftest import RedisServer
from .test_run import client

CPUS = sorted(os.sched_getaffinity(0))

ONE_CELL = {"latency_benchmark_read_mixes": [100], "latency_benchmark_warmups": 0}


def measured(outcome):
    """The placement of each host in the last phase."""
    return {name: result["placement"] for name, result in outcome.phase(outcome.phase_files[-1])["hosts"].items()}


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU: there is nothing to choose")
def test_beside_redis_and_on_a_cpu_of_its_own(lab):
    lab.add("a", "b")
    lab.variables.update(ONE_CELL)
    for server, cpu in zip(lab.servers.values(), (CPUS[0], CPUS[-1])):
        os.sched_setaffinity(server.process.pid, {cpu})
    beside = lab.play("-e", "latency_benchmark_cpu=beside_redis")
    assert beside.status == 0, beside.output
    for name, cpu in (("a", CPUS[0]), ("b", CPUS[-1])):
        assert measured(beside)[name] == {
            "requested": "beside_redis",
            "client_cpus": str(cpu),
            "client_last_cpu": cpu,
            "server_pid": lab.servers[name].process.pid,
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

    own = lab.play("-e", "latency_benchmark_cpu=own")
    assert own.status == 0, own.output
    assert "Resuming" not in own.output  # other settings, another run
    for name, cpu in (("a", CPUS[0]), ("b", CPUS[-1])):
        found = measured(own)[name]
        assert found["shares_cpu"] == "never" and found["client_cpus"] != str(cpu) and found["server_cpus"] == str(cpu)

    # Not pinned: the client is, and what comes of it is said.
    for server in lab.servers.values():
        os.sched_setaffinity(server.process.pid, set(CPUS))
    loose = lab.play("-e", "latency_benchmark_cpu=beside_redis", "-e", "run_id=loose")
    assert loose.status == 0, loose.output
    assert {(each["shares_cpu"], len(each["client_cpus"])) for each in measured(loose).values()} == {("possibly", 1)}


def test_no_second_cpu(lab):
    """Found before the fill, so before anything is emptied."""
    lab.add("a")
    lab.servers["a"].command("set", "1", "mine")
    wrapper = ["taskset", "--cpu-list", str(CPUS[0])]
    os.sched_setaffinity(lab.servers["a"].process.pid, {CPUS[0]})
    unbound, lab.command = lab.command, lambda *arguments, **more: wrapper + unbound(*arguments, **more)
    outcome = lab.play("-e", "latency_benchmark_cpu=own")
    assert outcome.status != 0
    assert (
        f"cpu: own is not possible: the client may use only CPU {CPUS[0]}, which Redis (process "
        f"{lab.servers['a'].process.pid}) runs on" in outcome.output
    )
    assert lab.servers["a"].command("get", "1") == "mine" and not lab.results.exists()


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


def test_a_redis_whose_process_cannot_be_told(lab, tmp_path):
    lab.servers["a"] = ContainedRedis(tmp_path / "redis-a")
    lab.variables.update(ONE_CELL)
    refused = lab.play("-e", "latency_benchmark_cpu=beside_redis")
    assert refused.status != 0
    assert "cpu: beside_redis is not possible: the Redis reports process id 1, which is " in refused.output
    assert "does it run in a container?" in refused.output and not lab.results.exists()
    pinned = lab.play("-e", f"latency_benchmark_cpu={CPUS[0]}")
    assert pinned.status == 0, pinned.output
    found = measured(pinned)["a"]
    assert found["requested"] == CPUS[0] and found["client_cpus"] == str(CPUS[0]) and found["shares_cpu"] is None
    assert "does it run in a container?" in found["unknown"]
    assert pinned.summary["placement"] == {
        "requested": CPUS[0],
        "shares_cpu": {"always": 0, "possibly": 0, "never": 0, "unknown": 1},
    }


def test_another_load_than_the_briefs(lab):
    lab.add("a")
    lab.variables.update(
        ONE_CELL,
        latency_benchmark_connections=4,
        latency_benchmark_pipeline=2,
        latency_benchmark_pattern="sequential",
        latency_benchmark_compressibility=1,
        latency_benchmark_duration=0.4,
    )
    outcome = lab.play()
    assert outcome.status == 0, outcome.output
    settings = outcome.phase(outcome.phase_files[-1])["hosts"]["a"]["settings"]
    assert {name: settings[name] for name in ("connections", "pipeline", "pattern", "compressibility", "requests")} == {
        "connections": 4,
        "pipeline": 2,
        "pattern": "sequential",
        "compressibility": 1,
        "requests": 400,
    }
    value = lab.servers["a"].command("get", "7")
    assert len(value) == 1000 and len(set(value)) == 1


def test_a_closed_loop_in_a_playbook_of_ones_own(lab, tmp_path):
    lab.add("a")
    playbook = tmp_path / "closed.yml"
    common = {"executable": "{{ client }}", "port": "{{ latency_benchmark_port }}", "key_count": 100}
    playbook.write_text(
        yaml.safe_dump(
            [
                {
                    "hosts": "fleet",
                    "gather_facts": False,
                    "tasks": [
                        {"name": "Fill", "memstretch.density.solotest": {**common, "mode": "fill"}},
                        {
                            "name": "Load",
                            "memstretch.density.solotest": {
                                **common,
                                "pacing": "none",
                                "duration": 0.3,
                                "connections": 2,
                                "pipeline": 8,
                            },
                        },
                    ],
                }
            ]
        ),
        encoding="utf-8",
    )
    lab.environment["MEMSTRETCH_RESULTS_DIR"] = str(lab.results)
    outcome = lab.play("-e", f"client={client(tmp_path)}", playbook=str(playbook))
    assert outcome.status == 0 and "could not record" not in outcome.output and "[WARNING]" not in outcome.output, (
        outcome.output
    )
    document = outcome.phase(outcome.phase_files[-1])
    assert document["valid"] and document["achieved_rate_ratio"] is None
    assert document["hosts"]["a"]["rate"]["target"] is None and document["hosts"]["a"]["requests"]["ok"] > 100
