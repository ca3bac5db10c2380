# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import re
import socket
import subprocess
import sys
import types

import pytest
from ansible import context
from ansible.executor.stats import AggregateStats
from ansible.plugins.loader import callback_loader
from ansible.utils.context_objects import CLIArgs
from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Config
from ansible_collections.memstretch.density.plugins.module_utils.redis.daemon import Daemon, DaemonError
from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

from .test_fleet_latency import task_result

LONG = {"msg": "Redis died; see its log", "changed": True, "solotest": {"client": "x" * 2000}, "failed": True}


@pytest.fixture
def callback(monkeypatch):
    monkeypatch.setattr(Display(), "verbosity", 0)
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"check": False}))
    loaded = callback_loader.get("memstretch.density.terse")
    loaded._init_callback_methods()
    loaded.set_options()
    loaded._last_task_name = "Collect the result"
    loaded._play = types.SimpleNamespace(strategy="linear")
    return loaded


def test_a_failure_of_our_own_task_is_one_line(callback, capsys):
    result = task_result("a", dict(LONG))
    callback.v2_runner_on_failed(result, ignore_errors=True)
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("TASK")]
    assert lines == ['fatal: [a]: FAILED! => {"changed": true, "msg": "Redis died; see its log"}', "...ignoring"]
    assert result.result["solotest"] == LONG["solotest"], "other callbacks need it"


def test_an_assertion_that_failed_is_one_line(callback, capsys):
    data = {
        "assertion": "x is defined",
        "evaluated_to": False,
        "changed": False,
        "msg": "Task failed: Action failed: x: give it",
        "failed": True,
    }
    callback.v2_runner_on_failed(task_result("a", data, "ansible.builtin.assert"))
    assert capsys.readouterr().out.splitlines()[-1] == 'fatal: [a]: FAILED! => {"changed": false, "msg": "x: give it"}'


RESCUED = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Try
      block:
        - name: Try a part
          ansible.builtin.include_tasks: part.yml
      rescue:
        - name: Refuse it after all
          ansible.builtin.assert:
            that: false
            fail_msg: really refused
      always:
        - name: Change nothing
          ansible.builtin.assert:
            that: true
"""
PART = """
- name: Skip
  ansible.builtin.assert:
    that: false
  when: false
- name: Refuse
  ansible.builtin.assert:
    that: false
    fail_msg: this host has no drive
"""


@pytest.mark.parametrize(("shown", "lines"), [(None, 0), ("true", 2)])
def test_an_expected_failure_is_handled_and_what_changed_nothing_is_shown_on_request(tmp_path, shown, lines):
    (tmp_path / "play.yml").write_text(RESCUED, encoding="utf-8")
    (tmp_path / "part.yml").write_text(PART, encoding="utf-8")
    (tmp_path / "ansible.cfg").write_text("", encoding="utf-8")
    more = {name: shown for name in ("ANSIBLE_DISPLAY_OK_HOSTS", "ANSIBLE_DISPLAY_SKIPPED_HOSTS") if shown}
    playbook = str(pathlib.Path(sys.executable).parent / "ansible-playbook")
    done = subprocess.run(
        [playbook, "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "memstretch.density.terse",
            "ANSIBLE_NOCOLOR": "1",
            **more,
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stdout
    assert "handled: [localhost]: this host has no drive" in done.stdout
    assert done.stdout.count("FAILED!") == 1 and "really refused" in done.stdout
    assert len(re.findall(r"^(ok|skipping|included): ", done.stdout, re.MULTILINE)) == lines, done.stdout


def failed_stats(*hosts):
    stats = AggregateStats()
    for host in ("a", "b", "c"):
        stats.increment("failures" if host in hosts else "rescued", host)
    return stats


def test_the_last_lines_say_why_and_what_to_do(callback, capsys):
    callback.v2_runner_on_unreachable(task_result("a", {"msg": "No route to host", "unreachable": True}))
    for host in ("b", "c"):  # that of c is rescued
        callback.v2_runner_on_failed(task_result(host, {"msg": "port 6379 is taken; choose another", "failed": True}))
    callback.v2_runner_on_failed(task_result("b", {"msg": "ignored", "failed": True}), ignore_errors=True)
    callback.v2_playbook_on_stats(failed_stats("a", "b"))
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last[0].startswith("[ERROR]: a: No route to host. Check that the host is on")
    assert last[1] == "[ERROR]: b: port 6379 is taken; choose another"


def test_the_last_line_names_a_port_that_is_taken_and_the_option(callback, capsys, tmp_path):
    """With the real message of the module, as redis_instances returns it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (tmp_path / "redis.conf").write_text(f"bind 127.0.0.1\nport {port}\n", encoding="utf-8")
        daemon = Daemon(Config(str(tmp_path / "redis.conf")), "redis-server", "default", "", 1, "", subprocess.run)
        with pytest.raises(DaemonError) as refused:
            daemon.start()
    callback.v2_runner_on_failed(
        task_result("b", {"msg": str(refused.value), "failed": True}, "memstretch.density.redis_instances")
    )
    callback.v2_playbook_on_stats(failed_stats("b"))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("[ERROR]: b: ") and f"127.0.0.1:{port}; " in last
    assert last.endswith("; stop it, or set another port (redis_port)")


@pytest.mark.parametrize("verbosity, action", [(1, "memstretch.density.solotest"), (0, "ansible.builtin.command")])
def test_other_failures_and_those_with_verbosity_are_shown_in_full(callback, capsys, verbosity, action):
    callback._display.verbosity = verbosity
    callback.v2_runner_on_failed(task_result("a", dict(LONG), action))
    assert "x" * 2000 in capsys.readouterr().out


def play(callback, name="Name the groups"):
    callback.v2_playbook_on_play_start(
        types.SimpleNamespace(get_name=lambda: name, check_mode=False, strategy="linear")
    )


def headings(capsys):
    return [line.split("]")[0] + "]" for line in capsys.readouterr().out.splitlines() if line.startswith("PLAY [")]


def test_a_play_that_shows_nothing_has_no_heading(callback, capsys):
    play(callback)
    callback.v2_playbook_on_task_start(task_result("a", {}).task, False)
    callback.v2_runner_on_ok(task_result("a", {"changed": False}))
    play(callback, "Check the limit")
    callback.v2_playbook_on_no_hosts_matched()
    assert capsys.readouterr().out == ""
    play(callback, "Tune the hosts")
    callback.v2_runner_on_ok(task_result("a", {"changed": True}))
    callback.v2_runner_on_ok(task_result("b", {"changed": True}))
    assert headings(capsys) == ["PLAY [Tune the hosts]"]


def test_a_play_that_failed_has_its_heading(callback, capsys):
    play(callback)
    callback.v2_runner_on_failed(task_result("a", dict(LONG)))
    assert headings(capsys) == ["PLAY [Name the groups]"]


def test_a_long_play_has_its_heading_before_it_shows_anything(callback, capsys, monkeypatch):
    play(callback)
    callback.v2_playbook_on_task_start(task_result("a", {}).task, False)
    assert headings(capsys) == []
    monkeypatch.setattr(callback, "_play_began", callback._play_began - 1)
    callback.v2_playbook_on_task_start(task_result("a", {}).task, False)
    assert headings(capsys) == ["PLAY [Name the groups]"]


def test_with_verbosity_each_play_has_its_heading_at_once(callback, capsys):
    callback._display.verbosity = 1
    play(callback)
    callback.v2_playbook_on_no_hosts_matched()
    assert "PLAY [Name the groups]" in (shown := capsys.readouterr().out) and "no hosts matched" in shown


def teardown(callback, path, failed=False):
    stats = AggregateStats()
    for host in ("a", "b"):
        stats.increment("ok", host)
        stats.increment("changed", host)
    if failed:
        stats.increment("failures", "b")
    callback.v2_playbook_on_start(types.SimpleNamespace(_file_name=path))
    play(callback, "Remove the VMs")
    callback.v2_playbook_on_no_hosts_matched()
    callback.v2_runner_item_on_ok(task_result("a", {"changed": True, "item": 1}))
    callback.v2_runner_on_ok(task_result("a", {"changed": True}))
    callback.v2_playbook_on_stats(stats)


def test_a_teardown_is_one_line(callback, capsys):
    teardown(callback, "/somewhere/playbooks/teardown.yml")
    assert capsys.readouterr().out.split("\n") == ["Teardown: done, changed=2 on 2 hosts", ""]


@pytest.mark.parametrize("path, failed", [("playbooks/teardown.yml", True), ("playbooks/fleet.yml", False)])
def test_a_teardown_that_failed_and_other_playbooks_have_their_recap(callback, capsys, path, failed):
    teardown(callback, path, failed)
    assert "PLAY RECAP" in capsys.readouterr().out


@pytest.mark.parametrize(("quiet", "verbosity", "lines"), [(8, 0, 9), (9, 0, 1), (9, 1, 10)])
def test_hosts_with_nothing_to_report_share_a_line_of_the_recap(callback, capsys, monkeypatch, quiet, verbosity, lines):
    monkeypatch.setattr(Display(), "verbosity", verbosity)
    stats = AggregateStats()
    for number in range(quiet):
        stats.increment("ok", f"redis{number}")
    stats.increment("changed", "kv1")
    callback.v2_playbook_on_stats(stats)
    shown = capsys.readouterr().out
    assert shown.count("changed=") == lines and "kv1" in shown
    assert (f"{quiet} other hosts: ok, nothing was changed" in shown) == (lines == 1)
    assert len(stats.processed) == quiet + 1, "other callbacks need it"
