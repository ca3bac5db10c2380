# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of actions that run a module on a host, which is not trusted."""

from __future__ import annotations

import json
import os
import shlex
import sys
import typing as t

import ansible
from ansible.module_utils.common.json import Direction, get_module_decoder, get_module_encoder
from ansible.module_utils.json_utils import _filter_non_json_lines
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.plugin_utils.collection import ROOT
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    MeasurementError,
    message,
    unusable,
)

# Where Python finds the collections, and Ansible itself.
_COLLECTIONS = os.path.dirname(os.path.dirname(os.path.dirname(ROOT)))
_ANSIBLE = os.path.dirname(os.path.dirname(ansible.__file__))
# Runs a module as developers do by hand. A file of the current directory is never imported.
_RUN = (
    "import sys; first, last, name = sys.argv[1:]; sys.path = [first, *filter(None, sys.path), last]; "
    "import runpy; del sys.argv[1:]; runpy.run_module(name, run_name='__main__', alter_sys=True)"
)


# What Ansible shows of an answer as soon as it has read it, before an action has it (since ansible-core 2.21).
_SHOWN_AT_ONCE = ("warnings", "deprecations")


def without_forged_lines(output: str) -> str:
    """Return the output of a module, whose warnings cannot forge a line that looks as if it came from this collection.

    What is not part of the answer is left out, because Ansible would show it in a warning.
    """
    try:
        text, around = _filter_non_json_lines(output, objects_only=True)
        answer = json.loads(text)
    except ValueError:
        return output  # Ansible says what is wrong
    shown = [name for name in _SHOWN_AT_ONCE if name in answer]
    if not around and not shown:
        return output
    return json.dumps({**answer, **{name: _messages(answer[name]) for name in shown}})


def _messages(value: t.Any) -> t.Any:
    """Return warnings in the form of any ansible-core, each text as a message."""
    if isinstance(value, dict):
        return {name: _messages(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_messages(each) for each in value]
    return message(value) if isinstance(value, str) else value


class HostAction(ActionBase):
    """An action that takes from the answer of a host only what a function accepts.

    Answers of async jobs would not pass through here, so async is refused.
    """

    _supports_check_mode = True
    _supports_async = False

    def _parse_returned_data(self, res: t.Any, *more: t.Any) -> t.Any:
        return super()._parse_returned_data({**res, "stdout": without_forged_lines(res.get("stdout", ""))}, *more)

    def ask(
        self, task_vars: t.Any, accept: t.Callable[[dict[str, t.Any]], dict[str, t.Any]], **module: t.Any
    ) -> dict[str, t.Any]:
        """Run a module on the host, and return what is accepted of its answer.

        Args:
            task_vars: of the task.
            accept: returns the accepted part of the answer. Its MeasurementError makes the task fail on this host.
            module: C(module_name) and C(module_args), by default those of the task.
        """
        run = self._run_here if self._is_here(task_vars) else self._execute_module
        answer = run(task_vars=task_vars, **module)
        try:
            accepted = accept(answer)
        except MeasurementError as error:
            accepted = unusable(error)
        if answer.get("unreachable") is True:
            accepted["unreachable"] = True
        if self._discovered_interpreter_key:
            accepted["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return accepted

    def _is_here(self, task_vars: t.Mapping[str, t.Any]) -> bool:
        """Decide whether the host is this machine, and Ansible would run modules as this user and in this Python."""
        if self._connection.transport != "local" or self._connection.become:
            return False
        host = self._task.delegate_to
        variables = task_vars.get("ansible_delegated_vars", {}).get(host, {}) if host else task_vars
        return bool(self._templar.template(variables.get("ansible_python_interpreter")) == sys.executable)

    def _run_here(
        self, task_vars: t.Any, module_name: str | None = None, module_args: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Run a module of this collection where it is, and return its answer.

        Ansible would pack the module and its imports into a zip file, and its process would compile all of them again:
        that takes three times as long as this.
        """
        name = (module_name or self._task.action).rpartition(".")[2]
        given = dict(self._task.args if module_args is None else module_args)
        self._update_module_args(name, given, task_vars)
        done = self._low_level_execute_command(
            f"{self._compute_environment_string()} {shlex.join(_command(name))}".strip(),
            in_data=json.dumps({"ANSIBLE_MODULE_ARGS": given}, cls=_ENCODER).encode(),
        )
        try:
            answer = json.loads(done["stdout"], cls=_DECODER)
        except ValueError:
            told = done["stderr"].strip()[-1000:]
            return {"failed": True, "msg": f"the module {name} ended with status {done['rc']} and no result: {told}"}
        return answer if isinstance(answer, dict) else {"failed": True, "msg": f"the module {name} returned no mapping"}


# How a module that is run by hand reads and writes JSON.
_ENCODER = get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE)
_DECODER = get_module_decoder("legacy", Direction.MODULE_TO_CONTROLLER)


def _command(name: str) -> list[str]:
    """Return the command that runs a module with the arguments in its standard input."""
    # Python keeps byte code next to the sources. In a checkout of another user it must leave no files of ours.
    options = [] if os.stat(ROOT).st_uid == os.geteuid() else ["-B"]
    module = f"ansible_collections.memstretch.density.plugins.modules.{name}"
    return [sys.executable, *options, "-c", _RUN, _COLLECTIONS, _ANSIBLE, module]
