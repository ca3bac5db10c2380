# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import inspect
import json
import os

import pytest
from ansible import constants
from ansible.executor.task_result import CallbackTaskResult
from ansible.inventory.host import Host
from ansible.playbook.task import Task
from ansible.plugins.loader import callback_loader
from synthetic_fleets import START, begun_run, run_config

from ansible_collections.memstretch.density.plugins.plugin_utils.run import schedule_answer
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

HOSTS = ["a", "b"]
SCHEDULE = "memstretch.density.benchmark_schedule"


def begun_task(action="ansible.builtin.debug"):
    task = Task()
    task.action = action
    return task


def task_result(host, data, action="memstretch.density.solotest_schedule", name="Measure"):
    task = begun_task(action)
    task.name = name
    if "utr" in inspect.signature(CallbackTaskResult).parameters:  # ansible-core 2.21
        from ansible._internal._task import UnifiedTaskResult

        return CallbackTaskResult(Host(host), task, UnifiedTaskResult.from_action_result_dict(data))
    return CallbackTaskResult(Host(host), task, data, {"name": name})


@pytest.fixture
def callback(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMSTRETCH_RESULTS_DIR", str(tmp_path))
    loaded = callback_loader.get("memstretch.density.fleet_latency")
    loaded._init_callback_methods()
    loaded.set_options()
    return loaded


@pytest.fixture
def config():
    """A run of two phases: the fill and one iteration of 100 requests."""
    return run_config(
        profile="zram",
        key_count=100,
        value_size=10,
        rate=100,
        influences=[0],
        read_mixes=[100],
        warmups=0,
        iterations=1,
    )


@pytest.fixture
def begun(config, tmp_path):
    return begun_run(tmp_path / "run", config, HOSTS)


def begin(callback, begun, index):
    """Begin the fill, or a schedule of one phase."""
    phase = begun["phases"][index]
    entry = {**phase, "at": 0.0, "max_seconds": 2.0, "refit": 0.0}
    plan = {"session": "1", "planned_at": START - 1, "phases": [entry], "seconds": 1.0, "stop": None}
    moments = (
        [{"moment": "planned", "plan": {**plan, "phases": []}, "fill": phase, "at": START - 1}]
        if phase["kind"] == "fill"
        else [{"moment": "planned", "plan": plan}, {"moment": "started", "start_at": START}, {"moment": "followed"}]
    )
    for moment in moments:
        callback.v2_runner_on_ok(task_result("a", {"benchmark_schedule": moment}, SCHEDULE))


def end(callback):
    callback.v2_runner_on_ok(task_result("a", {"benchmark_schedule": {"moment": "ended"}}, SCHEDULE))


def collected(name, measured):
    """What the action solotest_schedule returns of one phase."""
    packed = schedule_answer.pack({"phases": [{"phase": name, "solotest": measured}], "machine": None})
    return {"collected": packed, "schedule_role": "client", "schedule_host": "x", "changed": False}


def measured(make_result, host=0):
    return {"solotest": make_result({"kind": "iteration", "influence": 0, "read_mix": 100}, host), "changed": False}


def of_phase(make_result, host=0):
    return collected("i0-r100-1", measured(make_result, host)["solotest"])


def fill(make_result, host):
    return {"solotest": make_result({"kind": "fill"}, host), "changed": True}


def of_fill(make_result, host):
    return collected("fill", fill(make_result, host)["solotest"])


@pytest.fixture
def run(callback, begun):
    callback.v2_runner_on_ok(task_result("a", {"benchmark_run": begun}, "memstretch.density.benchmark_run"))
    return callback


def read(tmp_path, *names):
    return json.loads(tmp_path.joinpath("run", *names).read_text(encoding="utf-8"))


def test_the_files_of_a_run(run, begun, tmp_path, make_result, capsys):
    assert read(tmp_path, "run.json")["sessions"][0]["id"] == "1"
    begin(run, begun, 0)
    for number, host in enumerate(HOSTS):
        run.v2_runner_on_ok(task_result(host, of_fill(make_result, number)))
    assert read(tmp_path, "phases", "01-fill.json")["valid"]
    begin(run, begun, 1)
    run.v2_runner_on_ok(task_result("a", of_phase(make_result)))
    assert not (tmp_path / "run" / "phases" / "02-i0-r100-1.json").exists()
    run.v2_runner_on_ok(task_result("b", of_phase(make_result, 1)))
    end(run)
    phase = read(tmp_path, "phases", "02-i0-r100-1.json")
    assert phase["valid"] and sorted(phase["hosts"]) == HOSTS and phase["merged"]["response"]["count"] == 200
    run.v2_playbook_on_stats(None)
    assert read(tmp_path, "summary.json")["verdict"] == "pass"
    shown = capsys.readouterr().out
    assert "[1/2] fill" in shown and "[2/2] influence 0, 100 % GET, iteration 1" in shown and "Verdict: PASS" in shown


def test_ctrl_c_while_a_fill_is_written_ends_the_client_that_was_launched_after_it(
    run, begun, tmp_path, make_result, monkeypatch
):
    """It would hold its Redis for minutes, and the same command again would be refused there."""
    at_exit = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    write_phase = RunDirectory.write_phase

    def interrupted(directory, document):
        write_phase(directory, document)
        raise KeyboardInterrupt

    monkeypatch.setattr(RunDirectory, "write_phase", interrupted)
    begin(run, begun, 0)

    def filled_and_launched(number):
        stop = ["/bin/sh", "-c", f"echo > {tmp_path}/stopped-{number}"]
        return {**of_fill(make_result, number), "job": {"path": str(tmp_path / "job")}, "stop_command": stop}

    run.v2_runner_on_ok(task_result("a", filled_and_launched(0)))
    with pytest.raises(KeyboardInterrupt):
        run.v2_runner_on_ok(task_result("b", filled_and_launched(1)))
    assert read(tmp_path, "phases", "01-fill.json")["valid"] and not list(tmp_path.glob("stopped-*"))
    for stop in at_exit:
        stop()
    assert sorted(path.name for path in tmp_path.glob("stopped-*")) == ["stopped-0", "stopped-1"]


def test_failed_and_unreachable_hosts_are_recorded(run, begun, tmp_path, make_result, capsys):
    begin(run, begun, 0)
    run.v2_runner_on_failed(task_result("a", {"msg": "no route", "failed": True}))
    run.v2_runner_on_unreachable(task_result("b", {"msg": "ssh timed out", "unreachable": True}))
    phase = read(tmp_path, "phases", "01-fill.json")
    assert phase["failed"] == {"a": "no route", "b": "ssh timed out"}
    run.v2_playbook_on_stats(None)
    summary = read(tmp_path, "summary.json")
    assert summary["verdict"] == "invalid" and summary["fleet"]["failed"] == HOSTS
    assert "INVALID" in capsys.readouterr().out


def test_a_host_without_a_result_is_found_at_the_end(run, begun, tmp_path, make_result):
    begin(run, begun, 0)
    run.v2_runner_on_ok(task_result("a", of_fill(make_result, 0)))
    run.v2_playbook_on_stats(None)
    assert read(tmp_path, "phases", "01-fill.json")["failed"] == {"b": "no result"}


def test_a_report_in_the_playbook_is_not_repeated(run, begun, tmp_path, capsys):
    data = {"report": {"verdict": "invalid"}, "msg": "not valid"}
    run.v2_runner_on_failed(task_result("localhost", data, "memstretch.density.report"))
    run.v2_playbook_on_stats(None)
    assert "Verdict" not in capsys.readouterr().out


def test_an_error_is_shown_if_a_file_cannot_be_written(run, begun, tmp_path, make_result, capsys):
    begin(run, begun, 0)
    os.rmdir(tmp_path / "run" / "phases")
    (tmp_path / "run" / "phases").write_text("in the way", encoding="utf-8")
    for number, host in enumerate(HOSTS):
        run.v2_runner_on_ok(task_result(host, of_fill(make_result, number)))
    assert "fleet_latency could not record this" in capsys.readouterr().err


def test_a_host_that_failed_before_an_ad_hoc_phase_makes_it_invalid(callback, tmp_path, make_result, capsys):
    copied = "ansible.builtin.copy"
    callback.v2_playbook_on_play_start(None)
    callback.v2_runner_on_unreachable(task_result("a", {"msg": "no route", "unreachable": True}, copied))
    callback.v2_runner_on_failed(task_result("b", {"msg": "not needed", "failed": True}, copied), ignore_errors=True)
    action = "memstretch.density.solotest"
    for number, host in enumerate(("b", "c")):
        callback.v2_runner_on_ok(task_result(host, measured(make_result, number), action))
    callback.v2_playbook_on_stats(None)
    (written,) = tmp_path.glob("**/summary.json")
    summary = json.loads(written.read_text(encoding="utf-8"))
    assert summary["fleet"] == {"expected": 3, "reported": 2, "failed": ["a"], "killed": 0}
    assert summary["verdict"] == "invalid" and "a: no route" in summary["reasons"][0]


def test_a_failure_in_another_play_is_not_one_of_this_fleet(callback, tmp_path, make_result):
    callback.v2_playbook_on_play_start(None)
    callback.v2_runner_on_failed(task_result("a", {"msg": "no", "failed": True}, "ansible.builtin.command"))
    callback.v2_playbook_on_play_start(None)
    callback.v2_runner_on_ok(task_result("b", measured(make_result), "memstretch.density.solotest"))
    callback.v2_playbook_on_stats(None)
    (written,) = tmp_path.glob("**/summary.json")
    assert json.loads(written.read_text(encoding="utf-8"))["fleet"]["expected"] == 1


def test_other_tasks_are_ignored(callback, tmp_path):
    callback.v2_runner_on_ok(task_result("a", {"stdout": "hello"}, action="ansible.builtin.command"))
    callback.v2_runner_on_failed(task_result("a", {"msg": "no"}, action="ansible.builtin.command"))
    callback.v2_runner_on_failed(
        task_result("a", {"msg": "no", "solotest": {"mode": "ping"}}, action="memstretch.density.solotest")
    )
    callback.v2_playbook_on_task_start(begun_task(), False)
    callback.v2_playbook_on_stats(None)
    assert list(tmp_path.iterdir()) == []


def test_an_ad_hoc_run_of_a_custom_playbook(callback, tmp_path, make_result, capsys):
    action = "memstretch.density.solotest"
    for number, host in enumerate(HOSTS):
        callback.v2_runner_on_ok(task_result(host, fill(make_result, number), action, "Fill"))
    callback.v2_playbook_on_task_start(begun_task(), False)
    for number, host in enumerate(HOSTS):
        callback.v2_runner_on_ok(task_result(host, measured(make_result, number), action, "Measure"))
    callback.v2_playbook_on_stats(None)
    (directory,) = tmp_path.glob("adhoc-*")
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    assert summary["verdict"] == "pass" and summary["cells"][0]["response"]["count"] == 200
    assert "Verdict: PASS" in capsys.readouterr().out


def test_a_failure_in_a_custom_playbook_makes_the_ad_hoc_run_invalid(callback, tmp_path, make_result):
    action = "memstretch.density.solotest"
    callback.v2_runner_on_ok(task_result("a", measured(make_result), action))
    callback.v2_runner_on_failed(task_result("b", {"msg": "Redis is gone", "failed": True}, action))
    callback.v2_playbook_on_stats(None)
    (directory,) = tmp_path.glob("adhoc-*")
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    assert summary["verdict"] == "invalid" and "b: Redis is gone" in summary["reasons"][0]


@pytest.mark.parametrize(
    "action", ["ansible.builtin.command", "memstretch.density.solotest", "memstretch.density.solotest_schedule"]
)
def test_a_run_in_the_result_of_a_host_is_ignored(callback, begun, tmp_path, action):
    """A host that returns our own actions' keys does not choose where files are written."""
    callback.v2_runner_on_ok(task_result("a", {"benchmark_run": begun}, action))
    callback.v2_playbook_on_stats(None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["benchmark_schedule", "report"])
def test_a_phase_or_a_report_in_the_result_of_a_host_is_ignored(run, begun, tmp_path, make_result, capsys, key):
    begin(run, begun, 0)
    forged = {"moment": "filling", "phase": {**begun["phases"][0], "name": "../../forged"}, "at": START}
    run.v2_runner_on_ok(task_result("b", {key: forged}, "ansible.builtin.command"))
    for number, host in enumerate(HOSTS):
        run.v2_runner_on_ok(task_result(host, of_fill(make_result, number)))
    assert read(tmp_path, "phases", "01-fill.json")["valid"]
    run.v2_playbook_on_stats(None)
    assert "Verdict" in capsys.readouterr().out
    assert not [path for path in tmp_path.rglob("*") if "forged" in path.name]


def test_a_measurement_in_the_result_of_another_module_is_ignored(run, begun, tmp_path, make_result):
    begin(run, begun, 0)
    run.v2_runner_on_ok(task_result("a", fill(make_result, 0), "ansible.builtin.command"))
    run.v2_runner_on_failed(task_result("b", {**fill(make_result, 1), "msg": "no"}, "ansible.builtin.command"))
    run.v2_playbook_on_stats(None)
    phase = read(tmp_path, "phases", "01-fill.json")
    assert phase["failed"] == {"a": "no result", "b": "no"} and phase["partial"] == {}


def test_a_result_of_another_mode_fails_its_host(run, begun, tmp_path, make_result):
    begin(run, begun, 0)
    run.v2_runner_on_ok(task_result("a", of_phase(make_result)))
    run.v2_runner_on_ok(task_result("b", of_fill(make_result, 1)))
    failed = read(tmp_path, "phases", "01-fill.json")["failed"]
    assert failed == {"a": "it returned the result of a test, but this phase is a fill"}


def test_a_long_message_of_a_host_is_cut_off_and_harmless_on_a_terminal(run, begun, tmp_path):
    begin(run, begun, 0)
    for host in HOSTS:
        run.v2_runner_on_failed(task_result(host, {"msg": "\x1b[2J" + "x" * 10_000_000, "failed": True}))
    message = read(tmp_path, "phases", "01-fill.json")["failed"]["a"]
    assert message.startswith("?[2Jxx") and len(message) == 4000


def test_ansible_rarely_looks_for_the_result_of_a_long_task(callback):
    before = constants.DEFAULT_INTERNAL_POLL_INTERVAL
    callback.v2_playbook_on_task_start(begun_task("memstretch.density.study"), False)
    assert constants.DEFAULT_INTERNAL_POLL_INTERVAL == 0.5
    callback.v2_playbook_on_handler_task_start(begun_task())
    assert constants.DEFAULT_INTERNAL_POLL_INTERVAL == before < 0.5
