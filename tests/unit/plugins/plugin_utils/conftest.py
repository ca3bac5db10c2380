# SPDX-License-Identifier: GPL-3.0-or-later
"""Synthetic fleets whose truth is known: results as the module solotest returns them, from chosen samples."""

from __future__ import annotations

import random

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration

SETTINGS = {
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
    "pacing": "hybrid",
    "cpu": "any",
    "influences": [0, 10],
    "read_mixes": [100, 70],
    "warmups": 1,
    "iterations": 2,
    "slo_avg_us": 50,
    "slo_p99_us": 300,
    "min_overlap": 0.95,
    "min_rate_ratio": 0.99,
    "max_lateness_p99_us": 1000,
    "stop_when_failed": False,
}


HOSTS = ["a", "b", "c"]
START = 1_000_000.0


def latencies(count=1000, average_us=20.0, seed=0):
    """Return nanoseconds around an average."""
    rng = random.Random(seed)
    return [int(1000 * average_us * rng.uniform(0.5, 1.5)) for dummy in range(count)]


@pytest.fixture
def config():
    return configuration.checked(SETTINGS)


@pytest.fixture
def make_result(config):
    """A function that returns what one host measured in a phase."""

    def make(phase, host=0, start=1_000_000.0, values=None, machine="boot-1", **changes):
        load = config["load"]
        values = values if values is not None else latencies(load["requests"], seed=host)
        seconds = load["requests"] / load["rate"]
        fill = phase["kind"] == "fill"
        figures = Histogram.from_values(values).figures()
        return {
            "schema": 1,
            "mode": "fill" if fill else "test",
            "machine": machine,
            "settings": {
                **{name: value for name, value in load.items() if name not in ("pacing", "cpu")},
                "influence": phase.get("influence", 0),
                "read_mix": phase.get("read_mix", 100),
                "stagger": 0.0,
            },
            "started_at": start,
            "finished_at": start + seconds,
            "ready_at": None if fill else start - 0.5,
            "seconds": seconds,
            "rate": None if fill else {"target": load["rate"], "achieved": load["rate"]},
            "latency": None if fill else dict.fromkeys(("service", "response", "intended", "lateness"), figures),
            "fill": {"keys": load["key_count"], "seconds": 0.1} if fill else None,
            "placement": {"shares_cpu": "always"},
            "pressure": {"counters": {"clock_s": seconds, "pswpin": 0}, "gauges": {}, "doubtful": []},
            **changes,
        }

    return make


@pytest.fixture
def begun(config, tmp_path):
    return {
        "session": "1",
        "directory": str(tmp_path / "run"),
        "resumed": False,
        "run_id": "run",
        "started_at": START,
        "config": config,
        "config_hash": "0",
        "hashed": config,
        "labels": ["host not tuned"],
        "expected": HOSTS,
        "fleet": {host: {"endpoint": host, "keys": 0, "clock_correction": 0.0} for host in HOSTS},
        "hosts": {},
        "phases": [{**phase, "finished": False} for phase in configuration.phases(config)],
    }


@pytest.fixture
def record(begun, make_result):
    """A function that plays a whole run into a recorder and returns its directory and what was said."""

    def play(change=lambda phase, host, result: result, skip=()):
        said: list[str] = []
        recorder = RunRecorder(begun, said.append)
        for phase in begun["phases"]:
            if phase["index"] in skip:
                continue
            recorder.begin_phase(
                {"phase": phase, "begun_at": START - 1, "start_at": None if phase["kind"] == "fill" else START}
            )
            for number, host in enumerate(HOSTS):
                result = change(phase, host, make_result(phase, number, START))
                if isinstance(result, str):
                    recorder.fail(host, result)
                elif result:
                    recorder.add(host, result)
        recorder.end_phase()
        recorder.close()
        return recorder.directory, said

    return play
