# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a synthetic fleet of three hosts."""

from __future__ import annotations

import pytest
from synthetic_fleets import START, begun_run, host_result, latencies, record_run, run_config

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram

HOSTS = ["a", "b", "c"]


@pytest.fixture
def config():
    return run_config()


@pytest.fixture
def make_result(config):
    """A function that returns what one host measured in a phase."""

    def make(phase, host=0, start=START, values=None, **changes):
        values = latencies(config["load"]["requests"], seed=host) if values is None else values
        return host_result(config, phase, Histogram.from_values(values).figures(), start, **changes)

    return make


@pytest.fixture
def begun(config, tmp_path):
    return begun_run(tmp_path / "run", config, HOSTS, labels=["host not tuned"])


@pytest.fixture
def record(begun, make_result, tmp_path):
    """A function that records a run and returns its directory and the lines that were printed.

    Args:
        change: called with a phase, a host and its result; returns the result to record, an error message if the host
            fails, or None if it does not report.
        skip: the indices of phases that are not measured.
        name: of the run.
    """

    def record(change=lambda phase, host, result: result, skip=(), name="run"):
        return record_run(
            {**begun, "run_id": name, "directory": str(tmp_path / name)},
            lambda phase, number, host: change(phase, host, make_result(phase, number)),
            skip,
        )

    return record
