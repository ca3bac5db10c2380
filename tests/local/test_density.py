# SPDX-License-Identifier: GPL-3.0-or-later
"""A density of real servers in a small DRAM budget: measured, interrupted and continued; and the headline's tool."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import jsonschema
import pytest

from ansible_collections.memstretch.density.plugins.module_utils.ramp import groups

from .conftest import RAMP, ROOT, free_ports, smaller_inventory, wait_for
from .machine import differences, snapshot

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "density.json").read_text(encoding="utf-8"))
# A Redis with 3,000 values of 1,000 bytes takes 7 MiB, so four fit. Every machine meets the objective: memory ends it.
SMALL = {
    "density_budget": "32M",
    "density_references": 2,
    "density_window": 1,
    "density_settle": 3,
    "density_wait": 0,
    # A noisy machine must not fail a test.
    "density_max_stolen": 1,
    "density_id": "small",
    "slo": "absolute",
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
    "latency_benchmark_key_count": 3000,
    "latency_benchmark_rate": 500,
    "site_check": False,
}

SERVERS = tuple(f"redis{number}" for number in range(1, 9))


def port_of_each():
    """Return the template of a free port for each of the servers."""
    return f"{{{{ {free_ports(10)} - 1 + (inventory_hostname[5:] | int) }}}}"


@pytest.fixture
def small(fleet, untuned_machine, tmp_path):
    """The inventory of ramps with eight small servers, and a function that returns their variables."""
    path = smaller_inventory(RAMP, tmp_path / "ramp", *SERVERS)
    port = port_of_each()
    before = snapshot()
    yield path, lambda **variables: json.dumps({**SMALL, "latency_benchmark_port": port, **variables})
    assert not differences(before, snapshot())
    assert not any(groups.RampGroup(name).exists() for name in (groups.FLEET, groups.REFERENCES))


def document(fleet, name="density.json", study="small"):
    return json.loads((fleet.results / study / name).read_text(encoding="utf-8"))


@pytest.mark.long
def test_a_density_is_measured_shown_and_published_and_the_machine_restored(fleet, small):
    inventory, variables = small
    outcome = fleet.run_playbook(
        "-e", variables(profiles="dram,zram", density_rounds=1), playbook="density", inventory=inventory
    )
    assert outcome.status == 0, outcome.output
    found, ramp = document(fleet), document(fleet, "ramps/dram-1.json")
    jsonschema.validate(found, SCHEMA)
    jsonschema.validate(ramp, {**SCHEMA["$defs"]["ramp"], "$defs": SCHEMA["$defs"]})
    assert found["restored"] is True and found["finished"] is True
    dram, zram = found["arms"]
    assert (dram["name"], dram["cause"]) == ("dram", "capacity") and 3 <= dram["density"] <= 5
    assert zram["density"] > dram["density"] and zram["ratio"]["ratio"] > 1
    assert ramp["end"]["kind"] == "does_not_fit" and ramp["end"]["machine"] == "this_machine"
    lines = outcome.output.splitlines()
    assert sum(line.startswith("| ") for line in lines) >= len(ramp["windows"]) + 4, "a line for each window"
    so_far = [line for line in lines if line.startswith("So far: ")]
    assert len(so_far) == 2 and so_far[0] == f"So far: DRAM alone {dram['density']}"
    sentence = (fleet.results / "small" / "density.txt").read_text(encoding="utf-8").splitlines()[0]
    assert sentence.startswith("In 32 MiB of DRAM, zram carries ") and sentence in lines
    assert {"density.html", "density.csv", "density.prom", "log.txt"} <= set(os.listdir(fleet.results / "small"))
    assert sentence in (fleet.results / "index.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_ctrl_c_restores_and_the_same_command_continues_with_the_next_ramp(fleet, small):
    inventory, variables = small
    arguments = ("-e", variables(profiles="dram", density_rounds=2))
    process = fleet.start(*arguments, playbook="density", inventory=inventory)
    second = fleet.results / "small" / "ramps" / "dram-2.json"
    wait_for("the second ramp", second.exists, process)
    process.send_signal(signal.SIGINT)
    outcome = fleet.wait(process)
    assert outcome.status != 0, outcome.output
    assert document(fleet)["restored"] is True and document(fleet)["finished"] is False
    first = document(fleet, "ramps/dram-1.json")
    again = fleet.run_playbook(*arguments, playbook="density", inventory=inventory)
    assert again.status == 0, again.output
    assert "Resuming density small" in again.output and "1 ramp done" in again.output
    assert document(fleet, "ramps/dram-1.json") == first, "a finished ramp is kept"
    assert document(fleet, "ramps/dram-2.json")["end"]["kind"] == "does_not_fit"
    assert len(document(fleet)["arms"][0]["rounds"]) == 2


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "profiles: no name is given; it must be names, separated by commas"),
        ({"profiles": "dram,turbo"}, "'turbo', but there is no such profile. Allowed: dram, "),
        (
            {"profiles": "dram", "density_rounds": 0},
            "density_rounds: 0 is out of range; it must be a whole number from 1 to 100",
        ),
        (
            {"profiles": "dram", "density_max": 9},
            "density_max: 9 is out of range; it must be from 1 to 8, the hosts of",
        ),
    ],
    ids=["no profiles", "misspelt", "rounds", "servers"],
)
def test_a_mistake_is_refused_before_the_site_is_checked(fleet, small, given, message):
    inventory, variables = small
    outcome = fleet.run_playbook("-e", variables(site_check=True, **given), playbook="density", inventory=inventory)
    assert_refused_at_once(fleet, outcome, message)


def test_a_port_that_is_taken_is_refused_before_the_site_is_checked(fleet, small):
    inventory, variables = small
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        # All but the first have ports far from it.
        ports = (
            f"{{{{ {port} if inventory_hostname == 'redis1' else {free_ports(10)} + (inventory_hostname[5:] | int) }}}}"
        )
        given = variables(profiles="dram", site_check=True, latency_benchmark_port=ports)
        outcome = fleet.run_playbook("-e", given, playbook="density", inventory=inventory)
    message = (
        f"port {port} (latency_benchmark_port of redis1) is taken by another program; stop it, or set another port"
    )
    assert_refused_at_once(fleet, outcome, message)


def assert_refused_at_once(fleet, outcome, message):
    """Assert that the last line is about a mistake, and that it came before the check of the site."""
    assert outcome.status != 0 and message in outcome.output.strip().splitlines()[-1], outcome.output
    assert "steady enough" not in outcome.output and "Install the client" not in outcome.output, outcome.output
    assert not (fleet.results / "small").exists()


def test_check_mode_says_what_would_be_measured_and_writes_nothing(fleet, small):
    inventory, variables = small
    outcome = fleet.run_playbook(
        "--check", "-e", variables(profiles="dram,zram", density_rounds=2), playbook="density", inventory=inventory
    )
    assert outcome.status == 0, outcome.output
    assert outcome.output.count("Density small: ") == 1, outcome.output
    assert "  up to 8 Redis servers under each profile, in 2 rounds" in outcome.output.splitlines(), outcome.output
    assert not fleet.results.exists()


@pytest.mark.long
def test_a_size_that_holds_is_said_to(fleet, small):
    inventory, variables = small
    given = variables(profiles="dram", density_rounds=1, density_max=2, density_hold=0.05, density_touch=5)
    outcome = fleet.run_playbook("-e", given, playbook="density", inventory=inventory)
    assert outcome.status == 0, outcome.output
    (dram,) = document(fleet)["arms"]
    (hold,) = dram["hold"]
    assert (hold["size"], hold["state"]) == (2, "held")
    assert "  note: DRAM alone: held for longer, a fleet of 2 met the objective. When all its" in outcome.output
    touched = hold["touched"]
    assert touched["seconds"] == 5 and touched["touched_seconds"] < 5 and touched["worst_p99_us"] > 0
    record = document(fleet, "ramps/dram-hold-1.json")
    jsonschema.validate(record, {**SCHEMA["$defs"]["ramp"], "$defs": SCHEMA["$defs"]})
    requests = [second["fleet"]["upper"]["count"] for second in record["touch"]["seconds"]]
    assert sum(requests) == pytest.approx(5 * 2 * SMALL["latency_benchmark_rate"], rel=0.1)


@pytest.mark.long
def test_the_headline_measures_its_rows_and_does_not_measure_a_finished_one_again(fleet, small, tmp_path):
    inventory, variables = small
    given = json.loads(variables(profiles="dram", density_rounds=1))
    del given["density_id"]
    path = tmp_path / "rows.yml"
    path.write_text(json.dumps([{"name": "tiny", "values": "3:1", "variables": given}]), encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "headline.py"), "measure", "--rows", str(path)]
    command += ["--inventory", str(inventory), "--results", str(fleet.results)]
    for expected in ("In 32 MiB of DRAM, DRAM alone carries ", "== headline: tiny is finished"):
        done = subprocess.run(command, env=fleet.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and expected in done.stdout, done.stdout + done.stderr
    assert document(fleet, study="headline-tiny")["finished"] is True
