# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated hosts: what a host would answer to the playbooks of this collection, without a host.

The connection plugin next to this file passes here every command and every module that Ansible sends to a host. Ansible
itself, the roles, the actions and the callback are the real ones. So a bench can measure what a fleet of a thousand
hosts costs its controller. What ssh would cost is not in it, and neither is the work of the hosts.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import pathlib
import platform
import random
import re
import sys
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / ".ansible" / "collections"))

import yaml
from synthetic_fleets import host_result

from ansible_collections.memstretch.density.plugins.module_utils.host import memory
from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.tests.unit.fixtures.record_tree import replay

ROOT = pathlib.Path(__file__).resolve().parents[3]

HERE = pathlib.Path(__file__).parent
# The directory with what prepare() has written.
ANSWERS = "SIMULATED_ANSWERS"
# A phase of 2 seconds; a client draws its latencies from one of DIFFERENT_RESULTS.
RATE, REQUESTS, POINTS = 1000, 2000, 40
# What reads a host's clock, whatever the quotes around it.
CLOCK = "date +%s.%N"
DIFFERENT_RESULTS = 32

_Answer = dict[str, t.Any]


def prepare(directory: pathlib.Path) -> dict[str, str]:
    """Write what all hosts answer with and return the environment in which ansible-playbook reaches them."""
    directory.mkdir()
    tree = replay(str(directory / "tree"), "two_sockets.json")
    record = memory.gather(lambda *command, **options: (1, "", ""), tree)
    (directory / "host_memory.json").write_text(json.dumps(record), encoding="utf-8")
    for number in range(DIFFERENT_RESULTS):
        (directory / f"latency{number}.json").write_text(json.dumps(_draw(random.Random(number))), encoding="utf-8")
    return {
        ANSWERS: str(directory),
        "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "connection"),
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback"),
    }


def _draw(chance: random.Random) -> _Answer:
    """Return latencies around 25 us, some of them with a page-in, and their time series."""
    values = [
        1000 * (25 * chance.lognormvariate(0, 0.2) + (chance.random() < 0.02 and 260 * chance.lognormvariate(0, 0.5)))
        for _request in range(REQUESTS)
    ]
    width = REQUESTS // POINTS
    points = []
    for first in range(0, REQUESTS, width):
        part = sorted(values[first : first + width])
        points.append([width, round(sum(part) / width / 1000, 1), round(part[-2] / 1000, 1), round(part[-1] / 1000, 1)])
    series = {"interval_s": REQUESTS / RATE / POINTS, "points": points}
    return {"latency": Histogram.from_values(map(int, values)).figures(), "series": series}


def inventory(path: pathlib.Path, hosts: int, iterations: int, cache: pathlib.Path) -> pathlib.Path:
    """Write an inventory of simulated hosts, each with one Redis, and a run with this many iterations of one cell."""
    variables = {
        "ansible_connection": "simulated",
        "ansible_python_interpreter": "/usr/bin/python3",
        "latency_benchmark_cache_directory": str(cache),
        "latency_benchmark_key_count": 1000,
        "latency_benchmark_rate": RATE,
        "latency_benchmark_requests": REQUESTS,
        "latency_benchmark_influences": [0],
        "latency_benchmark_read_mixes": [100],
        "latency_benchmark_warmups": 0,
        "latency_benchmark_iterations": iterations,
        "latency_benchmark_min_overlap": 0,
        "redis_supervisor": "daemon",
    }
    names = {f"vm{number:04d}": {} for number in range(hosts)}
    path.write_text(yaml.safe_dump({"fleet": {"hosts": names, "vars": variables}}), encoding="utf-8")
    return path


class SimulatedHost:
    """One host. What it keeps between two calls is in a file, since Ansible makes each in another process.

    Args:
        name: of the host in the inventory.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._answers = pathlib.Path(os.environ[ANSWERS])
        self._boot_id = hashlib.sha256(name.encode()).hexdigest()[:32]

    def shell(self, command: str) -> str:
        """Return the output of a command."""
        released = re.search(r"(\d+\.\d{6})\b[^\d]* > \S+schedule\.start", command)  # whatever the quotes
        if released:
            self._file_of("start").write_text(released[1], encoding="ascii")
            return ""
        if CLOCK in command:
            return _clock()
        if "uname -m" in command:  # the client is not there at first
            state = "found" if "mkdir" in command else "absent"
            return f"\nmemstretch-program {state} {platform.machine()} /root/solotest\n"
        made = re.search(r"echo (?:\S*/)?(ansible-tmp-[\w.-]+)", command)
        return f"{made[1]}=/root/.ansible/tmp/{made[1]}\n" if made else "/root\n"

    def module(self, wrapped: bytes) -> _Answer:
        """Return the result of the module in what Ansible would pipe into Python on the host."""
        words = dict(re.findall(rb"^(module_fqn|params)=(.*),$", wrapped, re.MULTILINE))
        name = ast.literal_eval(words[b"module_fqn"].decode()).rpartition(".")[2]
        options = json.loads(ast.literal_eval(words[b"params"].decode()))["ANSIBLE_MODULE_ARGS"]
        return {"changed": False, **getattr(self, f"_{name}")(options)}

    def _redis_instances(self, options: _Answer) -> _Answer:
        run_id = hashlib.sha256(f"redis {self.name}".encode()).hexdigest()[:40]
        found = {
            "name": "6379",
            "inventory_host": self.name,
            "state": "started",
            "supervisor": "daemon",
            "host": "127.0.0.1",
            "port": 6379,
            "socket": "",
            "config": "/root/.local/state/memstretch/redis/6379/redis.conf",
            "pid": 4711,
            "version": "7.0.15",
            "run_id": run_id,
            "used_memory": 2_000_000,
            "maxmemory": 0,
            "maxmemory_policy": "noeviction",
            "place": f"{self._boot_id}:1:2",
            "error": "",
        }
        return {"changed": True, "instances": [found], "missing": [], "root": True, "systemd": True, "left": 0}

    def _host_memory_info(self, options: _Answer) -> _Answer:
        record = json.loads((self._answers / "host_memory.json").read_text(encoding="utf-8"))
        record["kernel"]["boot_id"] = self._boot_id
        files = {"/proc/meminfo": "", "/sys/kernel/mm": ""}
        log = {"position": 0, **({"text": "", "lost": 0} if "log_after" in options else {})}
        return {"machine": self._boot_id, "host_memory": record, "log": log, "files": files}

    def _file_of(self, what: str) -> pathlib.Path:
        return self._answers / f"{what}-{self.name}"

    def _solotest_schedule(self, options: _Answer) -> _Answer:
        if options["state"] == "asked":
            return {"solotest": self._ping()}
        if options["state"] == "launched":
            launched = {"client": options["client"], "phases": options["phases"], "ready_at": time.time()}
            self._file_of("launched").write_text(json.dumps(launched), encoding="utf-8")
            path = f"/run/memstretch-0/session-{options['session']}/{options['member']}"
            filled = {"phases": [{"phase": "fill", **self._result(launched, None)}], "machine": None}
            return {"job": {"path": path, "pid": 4712}, **(filled if options.get("fill") else {})}
        launched = json.loads(self._file_of("launched").read_text(encoding="utf-8"))
        seen = {"pressure": {"counters": {}, "gauges": {}, "doubtful": []}}
        return {
            "phases": [{"phase": phase["name"], **self._result(launched, phase)} for phase in launched["phases"]],
            "machine": {
                "machine": self._boot_id,
                "own": True,
                "errors": [],
                "phases": {phase["name"]: seen for phase in launched["phases"]},
            },
        }

    def _ping(self) -> _Answer:
        server = {"redis_version": "7.0.15", "dbsize": 0}
        return {
            "schema": 1,
            "mode": "ping",
            "machine": self._boot_id,
            "settings": {"influence": 0, "rate": RATE, "read_mix": 100, "stagger": 0},
            "wall_offset": 0.0,
            "server": {"before": server, "after": server},
            "pressure": {"counters": {}, "gauges": {}, "doubtful": []},
        }

    def _result(self, launched: _Answer, phase: _Answer | None) -> _Answer:
        """Return the result of a phase, or of the fill."""
        client, ready = launched["client"], launched["ready_at"]
        name = phase["name"] if phase else "fill"
        number = int(hashlib.sha256((self.name + name).encode()).hexdigest(), 16) % DIFFERENT_RESULTS
        drawn = json.loads((self._answers / f"latency{number}.json").read_text(encoding="utf-8"))
        load = {
            "key_count": 1000,
            "value_size": 1024,
            "compressibility": 0.0,
            "requests": REQUESTS,
            "rate": RATE,
            "pattern": "gaussian",
            "connections": 1,
            "pipeline": 1,
            "arrivals": "jitter",
        }
        stagger, begin = float(client["stagger"]), ready
        if phase:
            begin = float(self._file_of("start").read_text(encoding="ascii")) + float(phase["at"])
        measured = {
            "kind": phase["kind"] if phase else "fill",
            "influence": float(phase["influence"]) if phase else 0.0,
            "read_mix": float(phase["read_mix"]) if phase else 100.0,
        }
        result = host_result(
            {"load": load},
            measured,
            drawn["latency"],
            begin + stagger / RATE,
            ready_at=ready,
            machine=self._boot_id,
            wall_offset=0.0,
        )
        result["settings"]["stagger"] = stagger
        if phase:
            result["series"] = drawn["series"]
        return {"changed": True, "solotest": result}


def _clock() -> str:
    return f"{time.time():.9f}\n"
