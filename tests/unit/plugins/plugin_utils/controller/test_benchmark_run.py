# SPDX-License-Identifier: GPL-3.0-or-later
"""Which run is begun, resumed or refused, as the directories of earlier runs have it."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.controller import benchmark_run
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError


@pytest.fixture
def choose(config, tmp_path):
    """A function that chooses a directory for a run of the configuration that record() records."""

    def call(keys=1000, hashed=config, **options):
        options = {"results_dir": str(tmp_path), "run_id": None, "resume": True, "new_attempt": False, **options}
        options.update(option_prefix="", fleet={host: {"keys": keys} for host in "abc"})
        run = RunDirectory(str(tmp_path), "run").read_json("run.json")
        fingerprint = run["config_hash"] if hashed == config else "other"
        return benchmark_run._choose(options, hashed, fingerprint, run["phases"], 0)

    return call


def test_an_unfinished_run_is_resumed(record, choose):
    record(skip=(12, 13))
    for name in (None, "run"):
        begun = choose(run_id=name)
        assert begun.resumed and begun.directory.run_id == "run" and begun.instead_of is None


def test_a_finished_run_is_not(record, choose):
    record()
    begun = choose()
    assert not begun.resumed and begun.directory.run_id == "swap-19700101T000000Z" and begun.instead_of is None
    with pytest.raises(RunError, match=r"its run is finished \(all its phases were measured\); choose another run_id"):
        choose(run_id="run")
    with pytest.raises(RunError, match="its run is finished"):
        choose(run_id="run", new_attempt=True)


def test_a_run_whose_data_is_gone_is_begun_again_and_kept(record, choose):
    record(skip=(12, 13))
    begun = choose(keys=0)
    assert not begun.resumed and begun.directory.run_id != "run"
    assert begun.instead_of["run_id"] == "run" and "the data of its fill is gone: a has 0" in begun.instead_of["reason"]
    with pytest.raises(RunError, match="cannot be continued, because the data of its fill is gone"):
        choose(keys=0, run_id="run")
    assert choose(keys=0, run_id="run", new_attempt=True).directory.run_id == "run-attempt2"
    record(name="run-attempt2", skip=range(2, 14))
    assert choose(keys=0, run_id="run", new_attempt=True).directory.run_id == "run-attempt3"


def test_a_run_on_hosts_with_other_settings_is_begun_again_and_kept(record, choose, config):
    record(skip=(12, 13))
    changed = {**config, "hosts": {"kvm": "after an update"}}
    with pytest.raises(RunError, match="its run has other settings .hosts"):
        choose(hashed=changed, run_id="run")
    begun = choose(hashed=changed, run_id="run", new_attempt=True)
    assert (
        begun.directory.run_id == "run-attempt2"
        and "the settings of the hosts have changed" in (begun.instead_of["reason"])
    )
    other_load = {**changed, "load": {**config["load"], "rate": 1}}
    with pytest.raises(RunError, match="load.rate"):
        choose(hashed=other_load, run_id="run", new_attempt=True)


@pytest.mark.parametrize("memory", ["", "1G", "1073741824"])
def test_data_that_fit_into_a_guest_are_accepted(memory):
    options = {"guest_memory": memory, "option_prefix": "latency_benchmark_"}
    benchmark_run._check_guests(options, {"key_count": 300_000, "value_size": 1000})


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("1G", "800,000 records of 2,000 bytes need about .* MiB and .* 1,024 MiB of memory .* no swap of its own"),
        ("many", "latency_benchmark_guest_memory: "),
    ],
)
def test_data_that_do_not_fit_into_a_guest_are_refused(memory, message):
    options = {"guest_memory": memory, "option_prefix": "latency_benchmark_"}
    with pytest.raises(RunError, match=message):
        benchmark_run._check_guests(options, {"key_count": 800_000, "value_size": 2000})


@pytest.mark.parametrize("choice", ["accept", "refuse"])
def test_coarse_timers_always_come_with_the_costs_of_each_choice(choice, capsys):
    fleet = {name: {"kernel": {"timer_resolution_ns": ns}} for name, ns in (("fine", 1), (choice, 4_000_000))}
    options = {"fleet": fleet, "option_prefix": "latency_benchmark_", "coarse_timers": choice}
    for pacing in ("spin", "none"):
        benchmark_run._check_timers(options, pacing)
    assert capsys.readouterr().err == ""
    if choice == "refuse":
        with pytest.raises(RunError, match="takes a whole CPU of each guest"):
            benchmark_run._check_timers(options, "sleep")
        return
    benchmark_run._check_timers(options, "sleep")
    shown = " ".join(capsys.readouterr().err.split())
    assert "every 4 ms on accept" in shown and "spin is on time, and takes a whole CPU of each guest" in shown
    assert "may stay undecided" in shown and "vm_fleet_kernel_arguments: []" in shown


@pytest.mark.parametrize(("rate", "enough"), [(1666, False), (1667, True)])
def test_an_observer_makes_enough_requests_for_a_p99(rate, enough, config):
    config["matrix"]["iterations"] = 3
    config["load"].update(requests=2000, rate=2000)
    fleet = {"a": {"observer": None}, "b": {"observer": {"name": "watcher", "rate": float(rate)}}}
    if enough:
        benchmark_run._check_observers(fleet, config)
        return
    with pytest.raises(
        RunError, match="b: latency_benchmark_observer_rate: 1666 .* make 4,998 .* 3 iterations .* 5,000"
    ):
        benchmark_run._check_observers(fleet, config)


def test_the_labels_of_the_tuned_hosts_are_those_of_the_run():
    options = {"host_records": {}, "host_labels": {}}
    assert benchmark_run._host_labels(options) == ["the host was not recorded"]
    options["host_records"] = {"kvm1": {}, "kvm2": {}}
    assert benchmark_run._host_labels(options) == [], "both are recorded, and there is nothing to say"
    options["host_labels"] = {"kvm2": ["a reboot is due"]}
    assert benchmark_run._host_labels(options) == ["kvm2: a reboot is due"]


MIB = 2**20


def endpoint(machine, free, used=1):
    return {"machine": machine, "memory": {"free_bytes": free * MIB, "used_bytes": used * MIB}}


@pytest.mark.parametrize(
    "fleet, told",
    [
        ({"a": endpoint("m", 2080), "b": endpoint("m", 2075)}, None),
        ({"a": endpoint("m", 2080), "b": endpoint("m", 2070)}, "in each of 2 Redis servers need about 2,074 MiB more"),
        # One on each machine; what the server has already is replaced.
        ({"a": endpoint("m", 1040), "b": endpoint("n", 1040)}, None),
        ({"a": endpoint("m", 100, 1038)}, None),
        ({"a": endpoint("m", 1040), "b": endpoint("n", 100)}, "their machine (b) has 100 MiB of memory and swap left"),
        # One that is loaded over a network, and one whose host has not said it.
        ({"a": {"machine": "m", "memory": None}, "b": {"machine": "m"}}, None),
    ],
    ids=["fits", "does not fit", "two machines", "filled before", "one machine is too small", "unknown"],
)
def test_data_that_do_not_fit_into_a_machine_are_refused_before_the_fill(fleet, told):
    options = {"fleet": fleet, "option_prefix": "latency_benchmark_"}
    load = {"key_count": 1_000_000, "value_size": 1000}  # 1,038 MiB
    if told is None:
        benchmark_run._check_memory(options, load)
        return
    with pytest.raises(RunError) as refused:
        benchmark_run._check_memory(options, load)
    assert told in str(refused.value) and str(refused.value).startswith(
        "latency_benchmark_key_count, latency_benchmark_"
    )
    assert "Choose fewer keys (about " in str(refused.value)
