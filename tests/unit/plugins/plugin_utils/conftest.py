# SPDX-License-Identifier: GPL-3.0-or-later
"""Synthetic fleets whose truth is known: results as the module solotest returns them, from chosen samples."""

from __future__ import annotations

import random

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils import run_plan

SETTINGS = {
    "profile": "swap", "key_count": 1000, "value_size": 1000, "requests": None, "rate": 1000, "pacing": "hybrid",
    "influences": [0, 10], "read_mixes": [100, 70], "warmups": 1, "iterations": 2, "slo_avg_us": 50, "slo_p99_us": 300,
    "min_overlap": 0.95, "min_rate_ratio": 0.99, "max_lateness_p99_us": 1000,
}


def latencies(count=1000, average_us=20.0, seed=0):
    """Return nanoseconds around an average."""
    rng = random.Random(seed)
    return [int(1000 * average_us * rng.uniform(0.5, 1.5)) for dummy in range(count)]


@pytest.fixture
def config():
    return run_plan.configuration(SETTINGS)


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
                **{name: load[name] for name in ("key_count", "value_size", "requests", "rate")},
                "influence": phase.get("influence", 0), "read_mix": phase.get("read_mix", 100), "stagger": 0.0,
            },
            "started_at": start,
            "finished_at": start + seconds,
            "ready_at": None if fill else start - 0.5,
            "seconds": seconds,
            "rate": None if fill else {"target": load["rate"], "achieved": load["rate"]},
            "latency": None if fill else {name: figures for name in ("service", "response", "intended", "lateness")},
            "fill": {"keys": load["key_count"], "seconds": 0.1} if fill else None,
            "pressure": {"pswpin": 0},
            **changes,
        }

    return make
