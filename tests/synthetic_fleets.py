# SPDX-License-Identifier: GPL-3.0-or-later
"""Synthetic fleets whose truth is known: settings, results as the module solotest returns them, and recorded runs.

    python tests/synthetic_fleets.py DIRECTORY HOSTS [PROFILE]

records and publishes a run with that many hosts, to see the report of a large fleet.
"""

from __future__ import annotations

import pathlib
import random
import resource
import sys
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / ".ansible" / "collections"))

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

ROOT = pathlib.Path(__file__).resolve().parents[1]

START = 1_793_000_000.0

# A run of 13 phases: a fill, and for each of 4 cells a warm-up and 2 iterations of 1,000 requests.
SETTINGS: dict[str, t.Any] = {
    "profile": "swap",
    "key_count": 1000,
    "value_size": 1000,
    "compressibility": 0,
    "requests": None,
    "duration": None,
    "rate": 1000,
    "pattern": "gaussian",
    "connections": 1,
    "pipeline": 1,
    "arrivals": "jitter",
    "pacing": "hybrid",
    "cpu": "any",
    "influences": [0, 10],
    "read_mixes": [100, 70],
    "warmups": 1,
    "iterations": 2,
    "slo_avg_us": 50,
    "slo_p99_us": 300,
    "min_overlap": 0.95,
    "stop_when_failed": False,
}

_Phase = t.Mapping[str, t.Any]


def run_config(**changes: t.Any) -> dict[str, t.Any]:
    """Return the configuration of a run with SETTINGS, some of them changed."""
    return configuration.checked({**SETTINGS, **changes})


def begun_run(
    directory: pathlib.Path, config: dict[str, t.Any], names: t.Sequence[str], **changes: t.Any
) -> dict[str, t.Any]:
    """Return the result of the action benchmark_run for a run in directory; names are those of the hosts."""
    return {
        "session": "1",
        "directory": str(directory),
        "resumed": False,
        "run_id": directory.name,
        "started_at": START,
        "config": config,
        "config_hash": configuration.config_hash(config),
        "hashed": config,
        "labels": [],
        "expected": list(names),
        "fleet": {host: {"endpoint": host, "keys": 0, "clock_correction": 0.0} for host in names},
        "hosts": {},
        "phases": [{**phase, "finished": False} for phase in configuration.phases(config)],
        **changes,
    }


def latencies(count: int = 1000, average_us: float = 20.0, seed: int = 0) -> list[int]:
    """Return nanoseconds around an average."""
    rng = random.Random(seed)
    return [int(1000 * average_us * rng.uniform(0.5, 1.5)) for _number in range(count)]


def host_result(
    config: t.Mapping[str, t.Any],
    phase: _Phase,
    latency: t.Mapping[str, t.Any],
    start: float = START,
    **changes: t.Any,
) -> dict[str, t.Any]:
    """Return the result of the module solotest on one host.

    Args:
        config: of the run.
        phase: of the run; only kind, influence and read_mix are used.
        latency: the figures of service, server, response and intended, so that both bounds are the same.
        start: when the host started.
        changes: keys of the result to replace.
    """
    load, is_fill = config["load"], phase["kind"] == "fill"
    seconds = load["requests"] / load["rate"]
    lateness = Histogram.from_values([800] * 20).figures()
    return {
        "schema": 1,
        "mode": "fill" if is_fill else "test",
        "machine": "machine-1",
        "client": {"name": "solotest", "version": "1.0.0", "compiler": "gcc", "hiredis": "1.0"},
        "health": {"steal_ticks": 0},
        "settings": {
            **{name: value for name, value in load.items() if name not in ("pacing", "cpu")},
            "influence": phase.get("influence", 0),
            "read_mix": phase.get("read_mix", 100),
            "stagger": 0.0,
        },
        "started_at": start,
        "finished_at": start + seconds,
        "ready_at": None if is_fill else start - 0.5,
        "seconds": seconds,
        "cut_off": None if is_fill else False,
        "rate": None if is_fill else {"target": load["rate"], "achieved": load["rate"]},
        "latency": None
        if is_fill
        else {
            **dict.fromkeys(("service", "server", "response", "intended"), latency),
            **dict.fromkeys(("lateness", "wakeup"), lateness),
        },
        "requests": None
        if is_fill
        else {**dict.fromkeys(("planned", "sent", "ok", "gets"), load["requests"]), "sets": 0, "lost": 0},
        "fill": {"keys": load["key_count"], "seconds": 0.1} if is_fill else None,
        "placement": {"shares_cpu": "always"},
        "pressure": {"counters": {"clock_s": seconds, "pswpin": 0}, "gauges": {}, "doubtful": []},
        **changes,
    }


def record_phase(
    recorder: RunRecorder,
    phase: _Phase,
    start: float,
    results: t.Mapping[str, t.Any],
    pack: t.Callable[[dict[str, t.Any]], str | None] = lambda result: None,
    seen: t.Mapping[str, _Phase] | None = None,
) -> None:
    """Record a phase as if it were all of a schedule.

    Args:
        recorder: of the run.
        phase: its entry.
        start: its common start.
        results: by host, as record_run() takes them.
        pack: see record_run().
        seen: what was recorded of machines, by name: C(machine), and what recorder.read() has of a phase.
    """
    if phase["kind"] == "fill":
        recorder.begin_fill(dict(phase), start - 1)
    else:
        entry = {**phase, "at": 0.0, "max_seconds": phase["seconds"] + 1, "refit": 0.0}
        plan = {"session": "1", "planned_at": start - 1, "phases": [entry], "seconds": phase["seconds"], "stop": None}
        recorder.begin_schedule(plan)
        recorder.start_schedule(start)
    for name, each in (seen or {}).items():
        own = {key: value for key, value in each.items() if key != "machine"}
        machine = {"machine": each["machine"], "own": True, "phases": {phase["name"]: own}}
        recorder.collect(name, "machine", {"phases": [], "machine": machine}, None)
    for host, result in results.items():
        answer: dict[str, t.Any] = {"phase": phase["name"]}
        if isinstance(result, str):
            answer.update(failed=True, msg=result)
        elif isinstance(result, tuple):
            answer.update(failed=True, msg=result[0], solotest=result[1])
        elif result:
            answer.update(solotest=result, packed=pack(result))
        else:
            continue
        clock = result.get("collected") if isinstance(result, dict) else None
        recorder.collect(host, "client", {"phases": [answer], "machine": None}, clock)
    recorder.end_schedule()


def record_run(
    begun: dict[str, t.Any],
    measure: t.Callable[[_Phase, int, str], dict[str, t.Any] | str | tuple[str, dict[str, t.Any]] | None],
    skip: t.Collection[int] = (),
    start_of: t.Callable[[_Phase], float] = lambda phase: START,
    end: t.Callable[[RunRecorder], None] = lambda recorder: None,
    pack: t.Callable[[dict[str, t.Any]], str | None] = lambda result: None,
) -> tuple[RunDirectory, list[str]]:
    """Record a run like the callback does.

    Args:
        begun: what begun_run() returned.
        measure: called with a phase, the number of a host and its name; returns the result of the host, the message
            with which it failed (with what it had measured by then, if anything), or None if it does not report.
        skip: the indices of phases that are not measured.
        start_of: returns the common start of a phase.
        end: called after the last phase.
        pack: returns what the action solotest_schedule adds to a result.

    Returns:
        The directory of the run, and the lines that were printed.
    """
    printed: list[str] = []
    recorder = RunRecorder(begun, printed.append)
    for phase in begun["phases"]:
        if phase["index"] in skip:
            continue
        record_phase(
            recorder,
            phase,
            start_of(phase),
            {host: measure(phase, number, host) for number, host in enumerate(begun["expected"])},
            pack,
        )
    end(recorder)
    recorder.close()
    return recorder.directory, printed


def edit_run(directory: RunDirectory, change: t.Callable[[dict[str, t.Any]], None]) -> RunDirectory:
    """Change the run.json of a recorded run and return its directory."""
    run = directory.read_json("run.json")
    change(run)
    directory.write_json("run.json", run)
    return directory


# The fleets below have the latencies of a profile: the median in us, the share of requests that page in, and the time
# in us that a page-in takes.
PROFILES = {"dram": (24, 0.0002, 150), "swap": (27, 0.02, 260), "zram": (26, 0.015, 90)}
SAMPLES = 2000
POINTS = 40
# The hosts of a phase share this many samples, since drawing samples for each of a thousand hosts would take minutes.
DIFFERENT_HOSTS = 8


def fleet_run(
    directory: pathlib.Path,
    hosts: int = 12,
    profile: str = "dram",
    sick: t.Collection[int] = (),
    iterations: int = 3,
    fails: t.Collection[str] = (),
    name: str | None = None,
) -> RunDirectory:
    """Record a run with the latencies of a profile.

    Args:
        directory: the directory for results.
        hosts: the number of hosts; they are called vm0000, vm0001, ...
        profile: one of PROFILES.
        sick: numbers of hosts on which 1 of 20 requests takes milliseconds.
        iterations: of each cell.
        fails: names of hosts that are lost in the last phase.
        name: of the run.
    """
    chance = random.Random(f"{profile}{hosts}{name or ''}")
    config = run_config(
        profile=profile,
        key_count=100000,
        requests=SAMPLES,
        rate=500,
        influences=[0, 10, 25],
        iterations=iterations,
    )
    kernel = {
        "settings_digest": "1",
        "kernel": {"release": "6.1.0"},
        "sysctl": {"vm.swappiness": 60, "vm.page-cluster": 0},
    }
    begun = begun_run(
        directory / (name or f"{profile}-{hosts}"),
        config,
        [f"vm{number:04d}" for number in range(hosts)],
        labels=["synthetic, nothing was measured"],
        hosts={"host1": kernel},
    )
    for each in begun["fleet"].values():
        each["redis_version"] = "7.0.15"
    seconds = SAMPLES / 500
    samples: dict[int, list[_Samples]] = {}
    sick_samples: dict[int, _Samples] = {}

    def start_of(phase: _Phase) -> float:
        return START + (phase["index"] - 1) * (seconds + 2)

    def measure(phase: _Phase, number: int, host: str) -> dict[str, t.Any] | str:
        index = phase["index"]
        if index == len(begun["phases"]) and host in fails:
            return "Redis died"
        pressure = _paging(0 if profile == "dram" else int(40000 / (1 + phase.get("influence", 0) / 10)), seconds)
        if phase["kind"] == "fill":
            return host_result(config, phase, {}, start_of(phase), pressure=pressure)
        if index not in samples:
            samples[index] = [_draw(chance, profile, phase, False) for _host in range(min(hosts, DIFFERENT_HOSTS))]
            if sick:
                sick_samples[index] = _draw(chance, profile, phase, True)
        figures, points = sick_samples[index] if number in sick else chance.choice(samples[index])
        series = {"interval_s": seconds / POINTS, "points": points}
        return host_result(config, phase, figures, start_of(phase), series=series, pressure=pressure)

    return record_run(begun, measure, start_of=start_of)[0]


_Samples = tuple[dict[str, t.Any], list[list[float]]]


def _draw(chance: random.Random, profile: str, phase: _Phase, sick: bool) -> _Samples:
    """Return the figures and the time series of one host in one phase."""
    median, share, page_in = PROFILES[profile]
    share /= 1 + phase["influence"] / 10
    if sick:
        share, page_in = 0.05, 3000
    speed = chance.gauss(1, 0.04)
    values: list[float] = []
    for _sample in range(SAMPLES):
        value = speed * median * chance.lognormvariate(0, 0.18)
        if chance.random() < share:
            value += page_in * chance.lognormvariate(0, 0.5)
        values.append(1000 * value)
    width = SAMPLES // POINTS
    points: list[list[float]] = []
    for first in range(0, SAMPLES, width):
        part = sorted(values[first : first + width])
        points.append(
            [width, round(sum(part) / width / 1000), round(part[-1 - width // 100] / 1000), round(part[-1] / 1000)]
        )
    return Histogram.from_values(map(int, values)).figures(), points


def _paging(pages: int, seconds: float) -> dict[str, t.Any]:
    """Return the memory pressure of a machine that swapped pages in."""
    return {
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
    }


def main(directory: str, hosts: str, profile: str = "swap") -> None:
    run = fleet_run(pathlib.Path(directory), int(hosts), profile, sick={7} if int(hosts) > 7 else ())
    began = time.process_time()
    summary = publish(run, lambda line: None)[0]
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    size = (pathlib.Path(run.path) / "report.html").stat().st_size / 1e6
    print(
        f"{run.path}: {summary['verdict']}; the report of {hosts} hosts took {seconds:.1f} s of CPU time and "
        f"{memory:.0f} MB of memory, the page has {size:.2f} MB"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
