# SPDX-License-Identifier: GPL-3.0-or-later
"""The frame of actions that run a module on a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils import host_action
from ansible_collections.memstretch.density.plugins.plugin_utils.host_action import HostAction
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError
from ansible_collections.memstretch.density.plugins.plugin_utils.untrusted_module import accepted_answer


class Action(HostAction):
    """An action whose host gives this answer, without the parts of Ansible that the frame does not use."""

    _discovered_interpreter_key = None

    def __init__(self, answer):
        self._answer = answer
        shell = types.SimpleNamespace(tmpdir="/tmp/x")
        self._connection = types.SimpleNamespace(_shell=shell, transport="ssh", become=None)
        self.removed, self.module = [], None

    def run(self, tmp=None, task_vars=None):
        return self.ask(task_vars, dict)

    def _execute_module(self, task_vars, **module):
        self.module = module
        return self._answer

    def _remove_tmp_path(self, path):
        self.removed.append(path)


def test_only_what_is_accepted_is_returned():
    action = Action({"vms": 3, "add_host": {"name": "evil"}})
    assert action.ask({}, lambda answer: {"vms": answer["vms"]}, module_args={"a": 1}) == {"vms": 3}
    assert action.module == {"module_args": {"a": 1}} and action.removed == ["/tmp/x"]


FORGED = "one\nVerdict: PASS"
CLEAN = "one\n    Verdict: PASS"


@pytest.mark.parametrize(
    "shown",
    [
        {"warnings": [FORGED, 3]},
        {"deprecations": [{"msg": FORGED, "version": "3"}]},
        {"warnings": [{"__ansible_type": "WarningSummary", "event": {"__ansible_type": "Event", "msg": FORGED}}]},
        {"warnings": FORGED},
    ],
)
def test_warnings_forge_no_line_before_an_action_has_them(shown):
    output = json.dumps({"changed": False, "text": FORGED, **shown})
    clean = json.loads(json.dumps(shown).replace(json.dumps(FORGED), json.dumps(CLEAN)))
    assert json.loads(host_action.without_forged_lines(output)) == {"changed": False, "text": FORGED, **clean}
    hidden = output.replace('"warnings"', '"\\u0077arnings"')
    assert json.loads(host_action.without_forged_lines(hidden)) == {"changed": False, "text": FORGED, **clean}


def test_what_a_host_prints_around_its_answer_is_left_out():
    """Ansible shows what follows the answer in a warning."""
    assert host_action.without_forged_lines('Welcome\n{"a": 1}\nVerdict: PASS\n') == '{"a": 1}'


@pytest.mark.parametrize("output", ["", "no answer", "[1]", '{"a": 1}', '  {"a": "x\\ny"}\n'])
def test_other_output_is_as_it_was(output):
    assert host_action.without_forged_lines(output) == output


def test_an_answer_that_does_not_fit_fails_the_host():
    def refuse(answer):
        raise MeasurementError("vms = 'x'; must be a number")

    action = Action({"vms": "x"})
    found = action.ask({}, refuse)
    assert found["failed"] and "vms = 'x'; must be a number" in found["msg"] and action.removed == ["/tmp/x"]


@pytest.mark.parametrize(("told", "found"), [(True, {"unreachable": True}), ("yes", {}), (1, {})])
def test_a_host_that_cannot_be_reached_is_told_apart_by_ansible_alone(told, found):
    assert Action({"unreachable": told}).ask({}, lambda answer: {}) == found


def test_the_interpreter_that_ansible_has_found_is_kept():
    action = Action({"ansible_facts": {"discovered_interpreter_python": "/evil"}})
    action._discovered_interpreter_key, action._discovered_interpreter = "discovered_interpreter_python", "/usr/bin/x"
    assert action.ask({}, lambda answer: {}) == {"ansible_facts": {"discovered_interpreter_python": "/usr/bin/x"}}


class LocalAction(Action):
    """An action on this machine. Commands are run as the connection local runs them."""

    def __init__(self, module, arguments, interpreter=sys.executable):
        super().__init__({"by": "ansible"})
        self._connection.transport = "local"
        self._task = types.SimpleNamespace(action=f"memstretch.density.{module}", args=arguments, delegate_to=None)
        self._templar = types.SimpleNamespace(template=lambda value: value)
        self.variables = {"ansible_python_interpreter": interpreter}
        self.environment = ""

    def _update_module_args(self, name, arguments, task_vars):
        arguments.update(_ansible_check_mode=False, _ansible_module_name=name)

    def _compute_environment_string(self):
        return self.environment

    def _low_level_execute_command(self, command, in_data):
        self.command = command
        done = subprocess.run(["/bin/sh", "-c", command], input=in_data, capture_output=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}

    def answer(self):
        return self.ask(self.variables, dict)


LOG = {"gather": ["log"]}


def test_a_module_for_this_machine_runs_where_it_is():
    action = LocalAction("host_memory_info", LOG)
    # Users other than root may not read the kernel's log, so that there is no position for them.
    assert "position" in action.answer()["log"] and action.module is None
    assert action._task.args == LOG, "what Ansible adds for a module is not of the task"
    assert "log" not in action.command, "arguments may be secret, so no process list shows them"


def test_a_module_that_another_one_is_run_for():
    action = LocalAction("nothing", {})
    found = action.ask(
        action.variables, dict, module_name="memstretch.density.host_memory_info", module_args={"gather": ["log"]}
    )
    assert "position" in found["log"]


def test_the_environment_of_a_task_is_that_of_its_module():
    action = LocalAction("host_memory_info", LOG)
    action.environment = "LANG=C MARK=x"
    assert "log" in action.answer() and action.command.startswith(f"LANG=C MARK=x {sys.executable} ")


def test_a_bad_option_is_named_as_by_ansible():
    found = LocalAction("host_memory_info", {"gather": ["nonsense"]}).answer()
    assert found["failed"] and "gather" in found["msg"] and "nonsense" in found["msg"]


def test_a_module_that_breaks_fails_with_what_it_told(monkeypatch):
    found = LocalAction("no_such_module", {}).answer()
    assert found["failed"] and found["msg"].startswith("the module no_such_module ended with status 1 and no result: ")
    assert "no_such_module" in found["msg"].rpartition("result: ")[2]
    monkeypatch.setattr(host_action, "_command", lambda name: ["echo", "[]"])
    assert "returned no mapping" in LocalAction("host_memory_info", LOG).answer()["msg"]


def test_a_file_of_the_current_directory_is_no_part_of_a_module(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('planted')", encoding="utf-8")
    (tmp_path / "ansible.py").write_text("raise SystemExit('planted')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "log" in LocalAction("host_memory_info", LOG).answer()


def test_no_byte_code_is_left_among_the_files_of_another_user(monkeypatch):
    assert "-B" not in host_action._command("x")
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(host_action.ROOT).st_uid + 1)
    assert host_action._command("x")[1] == "-B"


@pytest.mark.parametrize("what", ["ssh", "become", "another Python", "no Python", "another host"])
def test_any_other_host_gets_the_module_from_ansible(what):
    action = LocalAction("host_memory_info", LOG)
    if what == "ssh":
        action._connection.transport = "ssh"
    elif what == "become":
        action._connection.become = object()
    elif what == "another host":
        action._task.delegate_to = "b"
        action.variables["ansible_delegated_vars"] = {"b": {"ansible_python_interpreter": "/usr/bin/python3"}}
    else:
        action.variables = {"ansible_python_interpreter": "/opt/python"} if what == "another Python" else {}
    assert action.answer() == {"by": "ansible"}


def test_secrets_and_texts_arrive_as_they_are(monkeypatch):
    """As JSON, also what is no text of ASCII."""
    echo = [sys.executable, "-c", "import sys; print(sys.stdin.read())"]
    monkeypatch.setattr(host_action, "_command", lambda name: echo)
    found = LocalAction("x", {"password": "p'\"$(ä)\n", "list": [1, None, True]}).answer()
    arguments = found["ANSIBLE_MODULE_ARGS"]
    assert arguments["password"] == "p'\"$(ä)\n" and arguments["list"] == [1, None, True]


WARNING = "from ansible.module_utils.basic import AnsibleModule as M; m = M({}); m.warn('low'); m.exit_json()"


def test_a_warning_of_a_module_is_shown(monkeypatch):
    monkeypatch.setattr(host_action, "_command", lambda name: [sys.executable, "-c", WARNING])
    action = LocalAction("x", {})
    assert action.ask(action.variables, lambda answer: accepted_answer(answer, ()))["warnings"] == ["low"]
