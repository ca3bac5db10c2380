# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What passes of the answer of a host that is not trusted."""

from __future__ import annotations

import types

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError
from ansible_collections.memstretch.density.plugins.plugin_utils.untrusted_module import UntrustedModule

OBEYED = {"add_host": {"host_name": "evil"}, "ansible_facts": {"ansible_become_password": "x"}, "_ansible_no_log": True}


class Action(UntrustedModule):
    """Accepts the key that it was told, without the parts of Ansible that the frame does not use."""

    def __init__(self, answer, interpreter=""):
        self.answer, self.removed = answer, []
        self._discovered_interpreter_key = interpreter
        self._discovered_interpreter = "/usr/bin/python3"
        self._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="/tmp/x"))

    def _execute_module(self, task_vars):
        return self.answer

    def _remove_tmp_path(self, path):
        self.removed.append(path)

    def accept(self, answer):
        if answer.get("count", 0) < 0:
            raise MeasurementError("count = -1")
        return {"count": answer["count"]} if "count" in answer else {}


@pytest.fixture(autouse=True)
def without_ansible(monkeypatch):
    monkeypatch.setattr(UntrustedModule.__mro__[1], "run", lambda *_arguments: {})


def test_only_what_is_accepted_passes():
    action = Action({"count": 5, **OBEYED})
    assert action.run() == {"count": 5}
    assert action.removed == ["/tmp/x"]


def test_a_result_that_does_not_fit_fails_the_host():
    action = Action({"count": -1, **OBEYED})
    assert action.run() == {"failed": True, "msg": "the host's result cannot be used: count = -1"}
    assert action.removed == ["/tmp/x"], "the temporary directory is removed all the same"


@pytest.mark.parametrize("value, passes", [(True, True), ("yes", False), (1, False)])
def test_a_host_that_cannot_be_reached_is_known_by_true_alone(value, passes):
    assert ("unreachable" in Action({"unreachable": value}).run()) is passes


def test_facts_are_those_that_the_controller_has_found_itself():
    found = Action({"count": 1, **OBEYED}, "discovered_interpreter_python").run()["ansible_facts"]
    assert found == {"discovered_interpreter_python": "/usr/bin/python3"}
