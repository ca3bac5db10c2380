# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of synthetic fleets whose truth is known, recorded as a playbook records real ones.

python tests/report/fleets.py DIRECTORY HOSTS [PROFILE]
"""

from __future__ import annotations

import pathlib
import random
import resource
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ansible" / "collections"))

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration  # noqa: E402
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory  # noqa: E402

START = 1_793_000_000.0
SAMPLES = 2000
POINTS = 40
# median latency in us, share of the requests that page in and what those take
PROFILES = {"dram": (24, 0.0002, 150), "swap": (27, 0.02, 260), "zram": (26, 0.015, 90)}


def fleet_run(
    directory: pathlib.Path,
    hosts: int = 12,
    profile: str = "dram",
    sick: t.Collection[int] = (),
    iterations: int = 3,
    fails: t.Collection[str] = (),
    name: str | None = None,
) -> RunDirectory:
    """Record a run.

    Args:
        hosts: the number of them; they are called vm0000 and so on.
        sick: numbers of hosts one request of whose twenty takes milliseconds.
        fails: names of hosts that are lost in the last phase.
    """
    chance = random.Random(f"{profile}{hosts}")
    names = [f"vm{number:04d}" for number in range(hosts)]
    config = configuration.checked(
        {
            "profile": profile,
            "key_count": 100000,
            "value_size": 1000,
            "compressibility": 0,
            "requests": SAMPLES,
            "duration": None,
            "rate": 500,
            "pattern": "gaussian",
            "connections": 1,
            "pipeline": 1,
            "pacing": "hybrid",
            "cpu": "any",
            "influences": [0, 10, 25],
            "read_mixes": [100, 70],
            "warmups": 1,
            "iterations": iterations,
            "slo_avg_us": 50,
            "slo_p99_us": 300,
            "min_overlap": 0.95,
            "min_rate_ratio": 0.99,
            "max_lateness_p99_us": 1000,
            "stop_when_failed": False,
        }
    )
    phases = [{**phase, "finished": False} for phase in configuration.phases(config)]
    target = directory / (name or f"{profile}-{hosts}")
    recorder = RunRecorder(
        {
            "session": "1",
            "directory": str(target),
            "resumed": False,
            "run_id": target.name,
            "started_at": START,
            "config": config,
            "config_hash": configuration.config_hash(config),
            "hashed": config,
            "labels": ["synthetic, nothing was measured"],
            "expected": names,
            "hosts": {
                "host1": {
                    "settings_digest": "1",
                    "kernel": {"release": "6.1.0"},
                    "sysctl": {"vm.swappiness": 60, "vm.page-cluster": 0},
                }
            },
            "phases": phases,
            "fleet": {
                each: {"endpoint": each, "keys": 0, "clock_correction": 0.0, "redis_version": "7.0.15"}
                for each in names
            },
        },
        lambda line: None,
    )
    start = START
    for phase in phases:
        recorder.begin_phase(
            {"phase": phase, "begun_at": start - 1, "start_at": None if phase["kind"] == "fill" else start}
        )
        seconds = 1.0 if phase["kind"] == "fill" else SAMPLES / 500
        # Hosts share what they measured with some others: to draw samples for each of a thousand would take minutes.
        shared = (
            None if phase["kind"] == "fill" else [_load(chance, config, phase, False) for dummy in range(min(hosts, 8))]
        )
        ill = _load(chance, config, phase, True) if sick and shared else None
        for number, host in enumerate(names):
            if phase is phases[-1] and host in fails:
                recorder.fail(host, "Redis died")
                continue
            load = ill if shared and number in sick else shared and chance.choice(shared)
            recorder.add(host, _result(config, phase, start, seconds, load, profile))
        start += seconds + 2
    recorder.close()
    return recorder.directory


def _load(
    chance: random.Random, config: dict[str, t.Any], phase: dict[str, t.Any], sick: bool
) -> tuple[dict[str, t.Any], list[list[float]]]:
    """Return latencies and time series of one host in one phase."""
    median, share, cost = PROFILES[config["profile"]]
    share /= 1 + phase["influence"] / 10
    if sick:
        share, cost = 0.05, 3000
    mood = chance.gauss(1, 0.04)
    values = [
        1000
        * (
            mood * median * chance.lognormvariate(0, 0.18)
            + (cost * chance.lognormvariate(0, 0.5) if chance.random() < share else 0)
        )
        for dummy in range(SAMPLES)
    ]
    width = SAMPLES // POINTS
    points = []
    for first in range(0, SAMPLES, width):
        part = sorted(values[first : first + width])
        points.append(
            [width, round(sum(part) / width / 1000), round(part[-1 - width // 100] / 1000), round(part[-1] / 1000)]
        )
    return Histogram.from_values(map(int, values)).figures(), points


def _result(
    config: dict[str, t.Any],
    phase: dict[str, t.Any],
    start: float,
    seconds: float,
    load: tuple[t.Any, t.Any] | None,
    profile: str,
) -> dict[str, t.Any]:
    settings = dict(config["load"])
    pages = 0 if profile == "dram" else int(40000 / (1 + phase.get("influence", 0) / 10))
    quiet = Histogram.from_values([800] * 20).figures()
    return {
        "schema": 1,
        "mode": "test" if load else "fill",
        "machine": "machine1",
        "client": {"name": "solotest", "version": "1.0.0", "compiler": "gcc", "hiredis": "1.0"},
        "health": {"steal_ticks": 0},
        "settings": {
            **settings,
            "influence": phase.get("influence", 0),
            "read_mix": phase.get("read_mix", 100),
            "stagger": 0.0,
        },
        "started_at": start,
        "finished_at": start + seconds,
        "ready_at": start - 0.5 if load else None,
        "seconds": seconds,
        "rate": {"target": config["load"]["rate"], "achieved": config["load"]["rate"]} if load else None,
        "latency": {"service": load[0], "response": load[0], "intended": load[0], "lateness": quiet} if load else None,
        "series": {"interval_s": seconds / POINTS, "points": load[1]} if load else None,
        "fill": None if load else {"keys": config["load"]["key_count"], "seconds": 0.9},
        "pressure": {
            "counters": {
                "clock_s": seconds,
                "pswpin": pages,
                "pswpout": pages // 2,
                "pgmajfault": pages // 8,
                "psi_memory_some_us": pages * 12,
                "psi_io_some_us": pages * 20,
            },
            "gauges": {"swap_used_bytes": [0, pages * 60000], "mem_available_bytes": [4 * 10**9, 3 * 10**9]},
            "doubtful": [],
        },
    }


def main(directory: str, hosts: str, profile: str = "swap") -> None:
    run = fleet_run(pathlib.Path(directory), int(hosts), profile, sick={7} if int(hosts) > 7 else ())
    began = time.process_time()
    summary = publish(run, lambda line: None)[0]
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    size = (pathlib.Path(run.path) / "report.html").stat().st_size / 1e6
    print(
        f"{run.path}: {summary['verdict']}, report of {hosts} hosts in {seconds:.1f} s of CPU time, {memory:.0f} MB of memory, a page of {size:.2f} MB"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
