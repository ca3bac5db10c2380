# SPDX-License-Identifier: GPL-3.0-or-later
"""What a probe of a static fleet touches. The sequence here only records what it is told to measure."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.study.probed_fleet import RunningRedis, StaticFleet

HOSTS = ["a", "b", "c", "d"]


@pytest.fixture
def running():
    """Redis runs on the first two hosts, under dram."""
    made = RunningRedis(HOSTS)
    made.probed("dram", 2, lost=[])
    return made


@pytest.mark.parametrize(
    "arm, size, stop, start, kept",
    [
        ("dram", 2, [], [], ["a", "b"]),
        ("dram", 4, [], ["c", "d"], ["a", "b"]),
        ("dram", 1, ["b"], [], ["a"]),
        ("zram", 3, ["a", "b"], ["a", "b", "c"], []),
        ("zram", 1, ["a", "b"], ["a"], []),
    ],
    ids=["same", "larger", "smaller", "another profile", "another profile, smaller"],
)
def test_a_probe_changes_only_what_it_must(running, arm, size, stop, start, kept):
    assert running.change(arm, size) == (stop, start, kept)


def test_the_first_probe_starts_its_hosts():
    assert RunningRedis(HOSTS).change("dram", 3) == ([], ["a", "b", "c"], [])


def test_a_host_that_died_is_started_again(running):
    running.probed("dram", 4, lost=["c"])
    assert running.change("dram", 4) == (["c"], ["c"], ["a", "b", "d"])
    running.probed("dram", 4, lost=[])
    assert running.change("dram", 4) == ([], [], HOSTS)


def test_after_an_error_nothing_is_kept(running):
    running.failed(3)
    assert running.change("dram", 1) == (["a", "b", "c"], ["a"], [])


class Sequence:
    """Returns the outcomes that it was given, one for each run."""

    def __init__(self, *states):
        self.states, self.prepared, self.changes = list(states), [], []

    def announce(self, text):
        pass

    def prepare(self, playbook, variables):
        self.prepared.append((playbook, variables["probe_hosts"]))

    def measure_until_valid(self, run_id, about, variables, limit, clean, playbook):
        assert (clean, playbook) == (False, "parts/probe")
        self.changes.append((variables["probe_stop"], variables["probe_start"]))
        return {"run_id": run_id, "state": self.states.pop(0), "seconds": 1.0}


def test_the_hosts_are_prepared_once():
    sequence = Sequence()
    fleet = StaticFleet(sequence, HOSTS)
    for _probe in range(2):
        fleet.prepare({})
    assert sequence.prepared == [("parts/prepare_probes", HOSTS)]


def test_a_failed_probe_of_kept_hosts_is_measured_again_with_every_redis_started_again():
    sequence = Sequence("finished", "failed", "finished")
    fleet = StaticFleet(sequence, HOSTS)
    fleet.measure("n1", "dram", 2, {})
    fleet.probed("dram", 2, [])
    assert fleet.measure("n2", "dram", 3, {})["state"] == "finished"
    assert sequence.changes == [([], ["a", "b"]), ([], ["c"]), (["a", "b", "c"], ["a", "b", "c"])]


def test_a_failed_probe_whose_redis_was_just_started_is_an_error():
    sequence = Sequence("failed")
    assert StaticFleet(sequence, HOSTS).measure("n1", "dram", 2, {})["state"] == "failed"
    assert sequence.changes == [([], ["a", "b"])]
