# SPDX-License-Identifier: GPL-3.0-or-later
"""Measured hosts that try to run code on the controller, or to hold it up, in real playbooks."""

from __future__ import annotations

import json
import pathlib
import subprocess
import typing as t

import pytest
from synthetic_fleets import START, begun_run, host_result, latencies, run_config

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import Histogram
from ansible_collections.memstretch.density.plugins.plugin_utils.run import schedule_answer

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
        "benchmark_schedule": {"moment": "ended"},
        "report": {"verdict": "pass"},
        "stop_command": ["/bin/sh", "-c", f"touch {outside}"],
        "schedule_role": "machine",
    }


def written(path: pathlib.Path, answer: t.Any) -> str:
    path.write_text(answer if isinstance(answer, str) else json.dumps(answer), encoding="utf-8")
    return str(path)


def hostile_python(directory: pathlib.Path, name: str, answer: t.Any) -> dict[str, str]:
    """The variables of a host whose Python answers with this, whatever it is asked."""
    python = directory / f"python-{name}"
    python.write_text(f"#!/bin/sh\ncat {written(directory / f'answer-{name}.json', answer)}\n", encoding="utf-8")
    python.chmod(0o755)
    return {"ansible_python_interpreter": str(python)}


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


def test_what_a_hostile_host_has_collected(fleet, tmp_path, outside, valid, obeyed):
    """Whatever it answers: no host, group or fact is added, and nothing is written outside of the results."""
    fleet.add("a")

    def one(**changes: t.Any) -> dict[str, t.Any]:
        return {"phases": [{"phase": "one", **valid, **obeyed, **changes}], "machine": None}

    late = {**valid["solotest"], "started_at": str(START)}
    cases: list[tuple[t.Any, str | None]] = [
        ({**one(), **obeyed}, None),
        (obeyed, "phases = None; must be a list"),
        ({"phases": [[obeyed]], "machine": None}, "a list of mappings"),
        (one(phase="../../../etc/passwd\n"), "phase ="),
        (one(solotest=late), "solotest.started_at = '1793000000.0'; must be a number"),
        ({**one(), "machine": {"machine": "x", "own": True, "phases": {"../x": {}}}}, "machine.phases has the key"),
        ({**one(), "machine": {"machine": "x", "own": True, "phases": {"one": {"pressure": 7}}}}, "pressure"),
        ("[" * 10_000, ""),
        ('{"phases": [{"phase": "one", "solotest": {"schema": NaN}}]}', ""),
    ]
    tasks = [
        {
            "memstretch.density.solotest_schedule": {"state": "collected", "session": "0" * 8, "member": "0"},
            "vars": hostile_python(tmp_path, str(number), answer),
        }
        for number, (answer, _message) in enumerate(cases)
    ]
    _outcome, seen = play(fleet, tasks)
    assert seen["hosts"] == ["a"] and "attackers" not in seen["groups"] and seen["fact"] == "unset"
    assert not outside.parent.exists()
    for number, (found, (_answer, message)) in enumerate(zip(seen["cases"], cases)):
        assert not {"add_host", "add_group", "benchmark_run", "ansible_facts", "stop_command"} & set(found), number
        assert found["schedule_role"] == "client", "that of the task"
        assert found["failed"] == (message is not None), (number, found)
        assert message is None or message in found["msg"], (number, found["msg"])
    kept = schedule_answer.unpack(seen["cases"][0]["collected"])["phases"][0]
    assert kept["solotest"]["machine"] == "machine-1"
    assert not {"add_host", "ansible_facts", "stop_command"} & set(kept)


def test_a_launch_on_a_hostile_host(fleet, tmp_path, outside, obeyed):
    """It names the files that are written later; only an absolute path and a pid are accepted."""
    fleet.add("a")
    paths = {"relative": "x", "none": 7, "shell": f"/tmp/$(touch {outside})"}
    tasks = [
        {
            "memstretch.density.solotest_schedule": {"state": "launched", "session": "0" * 8, "member": "0"},
            "vars": hostile_python(tmp_path, name, {**obeyed, "job": {"path": path, "pid": 4711, "more": 1}}),
        }
        for name, path in paths.items()
    ]
    tasks.append(
        {
            "memstretch.density.solotest_schedule": {
                "state": "released",
                "job": {"path": paths["shell"], "pid": 4711},
                "start_at": 5,
            }
        }
    )
    _outcome, seen = play(fleet, tasks)
    relative, none, shell, released = seen["cases"]
    assert relative["failed"] and none["failed"] and released["failed"]
    assert shell["job"] == {"path": paths["shell"], "pid": 4711}
    assert shell["stop_command"][:2] == ["/bin/sh", "-c"]
    subprocess.run(shell["stop_command"], check=False)  # it ends a process only if that is a client
    assert not outside.parent.exists()


@pytest.mark.long
def test_a_host_that_never_answers_is_not_waited_for(fleet, tmp_path):
    """Its Python may hang, or read a FIFO: the others are collected all the same, and then it has failed."""
    fleet.add("a")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 20\n", encoding="utf-8")  # it would be left after this test
    python.chmod(0o755)
    task = {
        "memstretch.density.solotest_schedule": {"state": "collected", "session": "0" * 8, "member": "0"},
        "vars": {"ansible_python_interpreter": str(python)},
        "timeout": 2,
    }
    _outcome, seen = play(fleet, [task])
    assert seen["cases"][0]["failed"] and "timed out" in seen["cases"][0]["msg"].lower()


def test_a_hostile_python_on_a_measured_host(fleet, tmp_path, outside, valid, obeyed):
    """The host answers as the module solotest would, with keys that Ansible or the callback would obey."""
    fleet.add("a")
    ping = {
        **valid["solotest"],
        "mode": "ping",
        "server": {"before": {"redis_version": "7", "dbsize": 5}, "after": None},
    }
    tasks = [
        {
            "memstretch.density.solotest": {"executable": "/bin/true"},
            "vars": hostile_python(tmp_path, "solotest", {**valid, **obeyed}),
        },
        {
            "memstretch.density.solotest_schedule": {
                "state": "asked",
                "client": {"host": "127.0.0.1", "port": 6379},
            },
            "vars": hostile_python(tmp_path, "endpoint", {**valid, "solotest": ping, **obeyed}),
        },
    ]
    _outcome, seen = play(fleet, [{"name": "Measure", **task} for task in tasks])
    assert seen["hosts"] == ["a"] and seen["fact"] == "unset"
    assert not outside.parent.exists()
    one, endpoint = seen["cases"]
    for found in (one, endpoint):
        assert not {"add_host", "benchmark_run", "ansible_facts"} & set(found)
    assert one["solotest"]["machine"] == endpoint["endpoint"]["machine"] == "machine-1"


def test_a_hostile_python_answers_for_a_module_that_measures_nothing(fleet, tmp_path, outside, obeyed):
    """Facts such as results_dir and run_id are variables: a host must not set them through any module of ours."""
    fleet.add("a")
    answer = {**obeyed, "base": "/base.img", "warnings": ["one\nVerdict: PASS"], "msg": "\x1b[2Jx"}
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat {written(tmp_path / 'answer.json', answer)}\n", encoding="utf-8")
    python.chmod(0o755)
    task = {
        "name": "Answer",
        "memstretch.density.vm_fleet": {"fleet": "a", "directory": "/nonexistent"},
        "vars": {"ansible_python_interpreter": str(python)},
    }
    outcome, seen = play(fleet, [task])
    assert seen["hosts"] == ["a"] and seen["fact"] == "unset"
    assert not outside.parent.exists()
    (found,) = seen["cases"]
    assert found["base"] == "/base.img" and found["msg"] == "?[2Jx"
    assert not {"add_host", "benchmark_run", "benchmark_phase", "report", "ansible_facts"} & set(found)
    assert not [line for line in outcome.output.splitlines() if line.startswith("Verdict")]


def test_a_hostile_conductor_of_a_ramp(fleet, tmp_path, outside):
    """It names a directory that is not its own, which would be removed at the end, and writes what it likes."""
    fleet.add("a")
    kept = tmp_path / "kept"
    kept.mkdir()
    plan = {"load": {}, "budget_bytes": 1, "growth": 0.1, "servers": [], "objective": {"kind": "absolute"}}
    group = {"swappiness": None, "swap_max_bytes": None}
    streams = {
        "note": [
            {"event": "started", "at": 1, "groups": {"fleet": group, "references": group}, "tier_bytes": 0},
            {"event": "note", "text": "\x1b[2Jno\nVerdict: PASS\r| 99 hosts"},
            {"event": "window", "window": {"n": 1, "add_host": {}}},
        ],
        "list": [{"event": ["end"]}],
        "text": ["[" * 10_000],
        "mark": ["<ramp AAAA ramp>"],
    }
    jobs = {"kept": kept, "above": kept / "memstretch-0/ramp-x/../.."}
    for name, lines in streams.items():
        jobs[name] = tmp_path / f"{name}/memstretch-0/ramp-x"
        jobs[name].mkdir(parents=True)
        text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        (jobs[name] / "stream").write_text(text, encoding="utf-8")
    options = {"plan": plan, "arm": "dram", "round": 1, "directory": str(tmp_path / "results"), "file": "ramp.json"}
    (tmp_path / "results").mkdir()
    tasks = [
        {
            "name": "Ramp",
            "memstretch.density.ramp": options,
            "vars": hostile_python(tmp_path, name, {"changed": True, "job": {"path": str(path), "pid": 2}}),
        }
        for name, path in jobs.items()
    ]
    outcome, seen = play(fleet, tasks)
    assert seen["hosts"] == ["a"] and not outside.parent.exists()
    messages = dict(zip(jobs, (found["msg"] for found in seen["cases"])))
    assert kept.is_dir() and all("job.path" in messages[name] for name in ("kept", "above")), messages
    assert "window.window.kind is missing" in messages["note"] and "event = ['end']" in messages["list"], messages
    assert "not JSON" in messages["text"] and "not JSON" in messages["mark"]
    assert "\x1b" not in outcome.output and "?[2Jno" in outcome.output
    assert not [line for line in outcome.output.splitlines() if line.startswith(("Verdict", "| 99"))]


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
