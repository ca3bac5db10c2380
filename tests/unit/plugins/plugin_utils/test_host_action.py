# SPDX-License-Identifier: GPL-3.0-or-later
"""The frame of actions that run a module on a host."""

from __future__ import annotations

import types

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.host_action import HostAction
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError


class Action(HostAction):
    """An action whose host gives this answer, without the parts of Ansible that the frame does not use."""

    _discovered_interpreter_key = None

    def __init__(self, answer):
        self._answer = answer
        self._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="/tmp/x"))
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
