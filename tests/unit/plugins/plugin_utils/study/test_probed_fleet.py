# SPDX-License-Identifier: GPL-3.0-or-later
"""What a probe of a fleet touches. The sequence here only records what it is told to prepare and to measure."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.study.probed_fleet import (
    RunningRedis,
    StaticFleet,
    VmFleet,
)

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
    """Returns the outcomes that it was given, one for each run; then every run is finished."""

    def __init__(self, *states):
        self.states, self.prepared, self.changes = list(states), [], []

    def announce(self, text):
        pass

    def prepare(self, playbook, variables):
        self.prepared.append((playbook, variables))

    def measure_until_valid(self, run_id, about, variables, limit, clean, playbook):
        assert (clean, playbook) == (False, "parts/probe")
        self.changes.append(variables)
        state = self.states.pop(0) if self.states else "finished"
        return {"run_id": run_id, "state": state, "seconds": 1.0}

    @property
    def redis(self):
        """The hosts whose Redis each probe has stopped and started."""
        return [(change["probe_stop"], change["probe_start"]) for change in self.changes]

    @property
    def vms(self):
        """Whether each probe has stopped all VMs first, and the VMs that it has started."""
        for change in self.changes:
            assert change["vm_fleet_surplus"] == "stopped" and change["vms_started"] == change["probe_start"]
        return [(change["probe_stop_vms"], change["vms_started"]) for change in self.changes]


def test_the_hosts_are_prepared_once():
    sequence = Sequence()
    fleet = StaticFleet(sequence, HOSTS)
    for size in (1, 2):
        fleet.prepare(size, {})
    assert sequence.prepared == [("parts/prepare_probes", {"probe_hosts": HOSTS})]


def test_a_failed_probe_of_kept_hosts_is_measured_again_with_every_redis_started_again():
    sequence = Sequence("finished", "failed", "finished")
    fleet = StaticFleet(sequence, HOSTS)
    fleet.measure("n1", "dram", 2, {})
    fleet.probed("dram", 2, [])
    assert fleet.measure("n2", "dram", 3, {})["state"] == "finished"
    assert sequence.redis == [([], ["a", "b"]), ([], ["c"]), (["a", "b", "c"], ["a", "b", "c"])]


def test_a_failed_probe_whose_redis_was_just_started_is_an_error():
    sequence = Sequence("failed")
    assert StaticFleet(sequence, HOSTS).measure("n1", "dram", 2, {})["state"] == "failed"
    assert sequence.redis == [([], ["a", "b"])]


def probe(fleet, arm, size, lost=()):
    """Probe a fleet as a search does."""
    fleet.prepare(size, {"vm_fleet_count": size})
    outcome = fleet.measure("n", arm, size, {"vm_fleet_count": size})
    fleet.probed(arm, size, list(lost))
    return outcome


def test_vms_are_made_and_set_up_once_and_only_as_many_as_are_probed():
    sequence = Sequence()
    fleet = VmFleet(sequence)
    for arm, size in [("dram", 2), ("zram", 2), ("dram", 1), ("zram", 4), ("zram", 3), ("dram", 5)]:
        probe(fleet, arm, size)
    assert [playbook for playbook, _variables in sequence.prepared] == ["parts/prepare_vms"] * 3
    assert [
        (made["vm_fleet_count"], made["vm_fleet_surplus"], made["probe_new"]) for _playbook, made in sequence.prepared
    ] == [
        (2, "stopped", "fleet[0:1]"),
        (4, "stopped", "fleet[2:3]"),
        (5, "stopped", "fleet[4:4]"),
    ]


@pytest.mark.parametrize(
    "arm, size, change",
    [
        ("dram", 3, (False, [])),
        ("dram", 2, (False, [])),
        ("dram", 4, (False, "fleet[3:3]")),
        ("zram", 3, (True, "fleet[0:2]")),
        ("zram", 1, (True, "fleet[0:0]")),
        ("dram", 5, (True, "fleet[0:4]")),
    ],
    ids=["same", "smaller", "larger", "another profile", "another profile, smaller", "new VMs"],
)
def test_a_probe_starts_only_the_vms_that_it_must(arm, size, change):
    """Four VMs are prepared, and the last probe was of three under dram."""
    sequence = Sequence()
    fleet = VmFleet(sequence)
    probe(fleet, "dram", 4)
    probe(fleet, "dram", 3)
    probe(fleet, arm, size)
    # Preparing further VMs stops all.
    assert sequence.vms == [(True, "fleet[0:3]"), (False, []), change]


def test_after_a_vm_has_died_all_are_started_again():
    sequence = Sequence()
    fleet = VmFleet(sequence)
    probe(fleet, "dram", 2, lost=["fleet-001"])
    probe(fleet, "dram", 2)
    probe(fleet, "dram", 2)
    assert sequence.vms == [(True, "fleet[0:1]"), (True, "fleet[0:1]"), (False, [])]


def test_a_failed_probe_of_vms_that_ran_on_is_measured_again_with_all_started_again():
    sequence = Sequence("finished", "failed", "finished")
    fleet = VmFleet(sequence)
    probe(fleet, "dram", 2)
    assert probe(fleet, "dram", 2)["state"] == "finished"
    assert sequence.vms == [(True, "fleet[0:1]"), (False, []), (True, "fleet[0:1]")]


def test_a_failed_probe_of_vms_that_were_just_started_is_an_error():
    sequence = Sequence("failed")
    assert VmFleet(sequence).measure("n", "dram", 2, {})["state"] == "failed"
    assert sequence.vms == [(True, "fleet[0:1]")]
