# SPDX-License-Identifier: GPL-3.0-or-later
"""Measured hosts that try to run code on the controller, in real playbooks."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing as t

import pytest
from synthetic_fleets import START, begun_run, host_result, latencies, run_config

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram

from .conftest import LocalFleet, Outcome


@pytest.fixture
def outside(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory that the controller must not write to."""
    return tmp_path / "outside" / "run"


@pytest.fixture
def valid() -> dict[str, t.Any]:
    figures = Histogram.from_values(latencies()).figures()
    return {
        "changed": False,
        "solotest": host_result(run_config(), {"kind": "iteration", "influence": 0, "read_mix": 100}, figures),
    }


@pytest.fixture
def obeyed(outside: pathlib.Path) -> dict[str, t.Any]:
    """The keys that Ansible or the callback would obey."""
    return {
        "changed": True,
        "add_host": {"host_name": "attacker", "groups": ["fleet"], "host_vars": {"ansible_connection": "local"}},
        "ansible_facts": {"attacker_fact": "set"},
        "benchmark_run": begun_run(outside, run_config(), ["a"]),
        "benchmark_phase": {"phase": {}},
        "report": {"verdict": "pass"},
    }


def written(path: pathlib.Path, answer: t.Any) -> str:
    path.write_text(answer if isinstance(answer, str) else json.dumps(answer), encoding="utf-8")
    return str(path)


def ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def play(fleet: LocalFleet, tasks: list[dict[str, t.Any]]) -> tuple[Outcome, dict[str, t.Any]]:
    """Run tasks that may fail, and return the outcome, and the inventory and results as the playbook sees them."""
    path = fleet.path / "seen.json"
    tasks = [{**task, "ignore_errors": True, "register": f"case_{number}"} for number, task in enumerate(tasks)]
    cases = ", ".join(f"case_{number}" for number in range(len(tasks)))
    seen = (
        f"{{{{ {{'hosts': groups['all'], 'groups': groups.keys() | list, 'fact': attacker_fact | default('unset'), "
        f"'cases': [{cases}]}} | to_json }}}}"
    )
    keep = {"ansible.builtin.copy": {"content": seen, "dest": str(path)}}
    fleet.environment["MEMSTRETCH_RESULTS_DIR"] = str(fleet.results)
    outcome = fleet.run_playbook(playbook=fleet.custom_playbook([*tasks, keep]))
    assert outcome.status == 0, outcome.output
    return outcome, json.loads(path.read_text(encoding="utf-8"))


def test_job_files_of_a_hostile_host(fleet, tmp_path, outside, valid, obeyed):
    """Whatever a job file holds: no host, group or fact is added, and nothing is written outside of the results."""
    fleet.add("a")
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    huge = jobs / "huge"
    huge.touch()
    os.truncate(huge, 2 * 2**30)
    cases = [
        (written(jobs / "obeyed", {**valid, **obeyed}), None),
        (written(jobs / "only-keys", obeyed), None),
        (written(jobs / "group", {"add_group": "attackers", "parent_groups": ["all"]}), None),
        (str(huge), "larger than 8 MiB"),
        (written(jobs / "nothing", ""), "ended without a result"),
        (written(jobs / "truncated", json.dumps(valid)[:-200]), "damaged"),
        (written(jobs / "nan", '{"solotest": {"schema": NaN}}'), "NaN is not a number"),
        (written(jobs / "deep", "[" * 10_000 + "]" * 10_000), "nested too deeply"),
        (written(jobs / "list", [obeyed]), "must be a mapping"),
        (
            written(jobs / "text", {"solotest": {**valid["solotest"], "started_at": str(START)}}),
            "solotest.started_at = '1793000000.0'; must be a number",
        ),
    ]
    job = {"pid": ended_process()}
    outcome, seen = play(
        fleet,
        [
            {"memstretch.density.solotest_result": {"job": {**job, "path": path}, "timeout": 1}}
            for path, _message in cases
        ],
    )
    assert seen["hosts"] == ["a"] and "attackers" not in seen["groups"] and seen["fact"] == "unset"
    assert not outside.parent.exists()
    assert seen["cases"][0]["solotest"]["machine"] == "machine-1"
    for found, (path, message) in zip(seen["cases"], cases):
        assert not {"add_host", "add_group", "benchmark_run", "ansible_facts"} & set(found), path
        assert found["failed"] == (message is not None), (path, found)
        assert message is None or message in found["msg"], (path, found["msg"])


def test_a_hostile_python_on_a_measured_host(fleet, tmp_path, outside, valid, obeyed):
    """The host answers as the module solotest would, with keys that Ansible or the callback would obey."""
    fleet.add("a")
    answers = [{**valid, **obeyed}, {**obeyed, "clients": {"a": {**valid, **obeyed}, "other": {**valid, **obeyed}}}]
    tasks = [
        {"memstretch.density.solotest": {"executable": "/bin/true"}},
        {"memstretch.density.solotest_clients": {"clients": {"a": {}, "b": {}}}},
    ]
    for number, (answer, task) in enumerate(zip(answers, tasks)):
        python = tmp_path / f"python-{number}"
        python.write_text(f"#!/bin/sh\ncat {written(tmp_path / f'answer-{number}.json', answer)}\n", encoding="utf-8")
        python.chmod(0o755)
        task.update(name="Measure", vars={"ansible_python_interpreter": str(python)})
    _outcome, seen = play(fleet, tasks)
    assert seen["hosts"] == ["a"] and seen["fact"] == "unset"
    assert not outside.parent.exists()
    one, several = seen["cases"]
    assert set(several["clients"]) == {"a", "b"} and several["clients"]["b"]["failed"]
    for found in (one, several, several["clients"]["a"]):
        assert not {"add_host", "benchmark_run", "ansible_facts"} & set(found)
    assert one["solotest"]["machine"] == several["clients"]["a"]["solotest"]["machine"] == "machine-1"


def test_a_hostile_python_answers_for_a_module_that_measures_nothing(fleet, tmp_path, outside, obeyed):
    """Facts such as results_dir and run_id are variables: a host must not set them through any module of ours."""
    fleet.add("a")
    answer = {**obeyed, "path": "/seed.iso", "warnings": ["one\nVerdict: PASS"], "msg": "\x1b[2Jx"}
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat {written(tmp_path / 'answer.json', answer)}\n", encoding="utf-8")
    python.chmod(0o755)
    task = {
        "name": "Answer",
        "memstretch.density.nocloud_seed": {"directory": "/nonexistent", "files": {}},
        "vars": {"ansible_python_interpreter": str(python)},
    }
    outcome, seen = play(fleet, [task])
    assert seen["hosts"] == ["a"] and seen["fact"] == "unset"
    assert not outside.parent.exists()
    (found,) = seen["cases"]
    assert found["path"] == "/seed.iso" and found["msg"] == "?[2Jx"
    assert not {"add_host", "benchmark_run", "benchmark_phase", "report", "ansible_facts"} & set(found)
    assert not [line for line in outcome.output.splitlines() if line.startswith("Verdict")]


def test_a_hostile_client_program(fleet, tmp_path, outside, obeyed):
    """A client that prints anything but a report fails its host and nothing else."""
    fleet.add("a")
    reports = [json.dumps({"schema": 1, **obeyed}), "[" * 10_000, "", "NaN"]
    tasks = []
    for number, report in enumerate(reports):
        program = tmp_path / f"client-{number}"
        program.write_text(f"#!/bin/sh\ncat {written(tmp_path / f'report-{number}', report)}\n", encoding="utf-8")
        program.chmod(0o755)
        endpoint = {"executable": str(program), "port": "{{ latency_benchmark_port }}"}
        tasks.append({"name": f"Measure {number}", "memstretch.density.solotest": endpoint})
    _outcome, seen = play(fleet, tasks)
    assert seen["hosts"] == ["a"] and seen["fact"] == "unset"
    assert not outside.parent.exists()
    assert all(found["failed"] for found in seen["cases"])
