# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks ask of the controller for each host of a fleet, counted on simulated hosts."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import subprocess
import sys

import pytest

from .conftest import ANSIBLE_PLAYBOOK, PATIENCE, ROOT

sys.path.insert(0, str(ROOT / "tests" / "bench" / "simulated"))

import hosts as simulated

FEW, MANY = 4, 12


def lookups(directory: pathlib.Path, hosts: int, environment: dict[str, str]) -> collections.Counter[str]:
    """Run site.yml and return how often each task looked up the variables of one host for another."""
    directory.mkdir()
    inventory = simulated.inventory(directory / "hosts.yml", hosts, 1, directory / "cache")
    costs = directory / "costs.jsonl"
    done = subprocess.run(
        [ANSIBLE_PLAYBOOK, "-i", inventory, ROOT / "playbooks" / "site.yml", "-e", f"results_dir={directory}/results"],
        env={
            **os.environ,
            **environment,
            **simulated.prepare(directory / "answers"),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACKS_ENABLED": "memstretch.density.fleet_latency,controller_cost",
            "SIMULATED_COSTS": str(costs),
        },
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    summary = json.loads((directory / "results" / "latest" / "summary.json").read_text(encoding="utf-8"))
    fleet = summary["fleet"]
    assert fleet["expected"] == fleet["reported"] == hosts and fleet["failed"] == [], done.stdout
    assert [cell["iterations"] for cell in summary["cells"]] == [1], done.stdout
    found: collections.Counter[str] = collections.Counter()
    for line in costs.read_text(encoding="utf-8").splitlines():
        cost = json.loads(line)
        found[cost["task"]] += cost["hostvars"]
    return found


@pytest.fixture
def few_and_many(tmp_path, bytecode_environment):
    return [lookups(tmp_path / str(hosts), hosts, bytecode_environment) for hosts in (FEW, MANY)]


@pytest.mark.long
def test_no_task_looks_at_all_hosts_for_each_host(few_and_many):
    """A task that does looks (MANY / FEW) ** 2 times as often; the client's cache is empty, so it is built, too."""
    few, many = few_and_many
    assert few.total() > 0
    assert {name: count for name, count in many.items() if count > MANY / FEW * few[name]} == {}
