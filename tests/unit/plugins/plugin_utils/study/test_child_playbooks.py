# SPDX-License-Identifier: GPL-3.0-or-later
"""A child that a signal interrupts. Programs stand in for playbooks, since only their signals matter here."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import threading

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run import reproduction
from ansible_collections.memstretch.density.plugins.plugin_utils.study import child_playbooks

# Loses its first interrupt, as Python does if it arrives in a destructor.
DEAF_AT_FIRST = """
import signal, sys, time
def lost(number, frame):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("lost", flush=True)
signal.signal(signal.SIGINT, lost)
print("ready", flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("restored", flush=True)
"""


def test_a_lost_interrupt_is_sent_again(monkeypatch):
    monkeypatch.setattr(child_playbooks, "_command", lambda *_arguments: [sys.executable, "-c", DEAF_AT_FIRST])
    monkeypatch.setattr(child_playbooks, "_AGAIN_SECONDS", 0.1)
    lines, explained = [], []

    def log(line):
        lines.append(line)
        if line == "ready":
            threading.Timer(0, os.kill, [os.getpid(), signal.SIGINT]).start()

    playbooks = child_playbooks.ChildPlaybooks(log, lambda: explained.append(1))
    with playbooks, pytest.raises(child_playbooks.Interrupted):
        playbooks.run("site", {})
    assert lines == ["ready", "lost", "restored"] and explained == [1]


# Runs a child, says its pid and waits for it, as the worker of a killed ansible-playbook does.
PARENT = """
import sys
from ansible_collections.memstretch.density.plugins.plugin_utils.study import child_playbooks
child_playbooks._command = lambda *_arguments: [sys.executable, "-c", sys.argv[1]]
with child_playbooks.ChildPlaybooks(lambda line: print(line, flush=True), lambda: None) as playbooks:
    playbooks.run("site", {})
"""
SAYS_ITS_PID = """
import os, time
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_a_playbook_does_not_outlive_a_killed_parent():
    command = [sys.executable, "-c", PARENT, SAYS_ITS_PID]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        while not (line := parent.stdout.readline().strip()).isdigit():
            assert line or parent.poll() is None, "it ended without a child"
        child = os.pidfd_open(int(line))
        parent.kill()
    try:
        ended, _write, _error = select.select([child], [], [], 60)
    finally:
        os.close(child)
    assert ended, "the child still runs"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"run_id": "x{{ lookup('pipe', 'id') }}"}, "run_id: "),
        ({"vm_fleet_hypervisors": ["a", "{% for %}"]}, "vm_fleet_hypervisors: "),
        ({"site": {"{{ host }}": 1}}, "site: "),
        ({"{{ name }}": 1}, "the name of a variable: "),
        ({"site": {"a": [{"b": "#jinja2: variable_start_string:'['\n[7]"}]}}, "site.a.b: "),
    ],
)
def test_a_name_that_is_a_template_reaches_no_child(monkeypatch, variables, named):
    monkeypatch.setattr(child_playbooks, "_command", lambda *_arguments: pytest.fail("a child was started"))
    playbooks = child_playbooks.ChildPlaybooks(lambda _line: None, lambda: None)
    with pytest.raises(child_playbooks.RunError, match=f"^{named}.* is not allowed"):
        playbooks.run("site", variables)


# Shows what an ansible-playbook makes of its variables, and who may read their file.
SHOWS_ITS_VARIABLES = """
import json, os, sys
from ansible.parsing.dataloader import DataLoader
from ansible.template import is_trusted_as_template
from ansible_collections.memstretch.density.plugins.plugin_utils.run import reproduction
path = sys.argv[1].removeprefix("@")
variables = DataLoader().load_from_file(path, trusted_as_template=True)
print(oct(os.stat(path).st_mode & 0o777), json.dumps(variables), is_trusted_as_template(variables["run_id"]))
print(reproduction.command(["ansible-playbook", "site.yml", "-e", "@user.yml", "-e", sys.argv[1]]))
print(path)
"""


def test_variables_reach_a_child_as_data_in_a_file_of_ours(monkeypatch):
    """Even a template, if it passes the check of names; run.json shows them as those of a command line."""

    def command(_name, path, *_options):
        return [sys.executable, "-c", SHOWS_ITS_VARIABLES, f"@{path}"]

    monkeypatch.setattr(child_playbooks, "_command", command)
    monkeypatch.setattr(child_playbooks, "refuse_templates", lambda _variables: None)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    lines = []
    with child_playbooks.ChildPlaybooks(lines.append, lambda: None) as playbooks:
        variables = {"redis_password": "hunter2", "run_id": "x{{ lookup('pipe', 'id') }}"}
        assert playbooks.run("site", variables) == 0, lines
    assert lines[0] == f"0o600 {json.dumps(variables)} False"
    shown = json.dumps({**variables, "redis_password": reproduction.HIDDEN})
    assert shlex.split(lines[1]) == ["ansible-playbook", "site.yml", "-e", "@user.yml", "-e", shown]
    assert not os.path.exists(lines[2])


def test_other_texts_reach_a_child():
    child_playbooks.refuse_templates({"a": ["kvm01", 1, None, True], "b": {"c": "{ } % #"}})
