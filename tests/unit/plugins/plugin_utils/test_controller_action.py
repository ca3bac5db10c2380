# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frame of actions on the controller: how their errors are shown, and which directories they may use."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    ControllerAction,
    measured_run,
    own_directory,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError


class Action(ControllerAction):
    """Does what it is told, without the parts of Ansible that the frame does not use."""

    def __init__(self, work):
        self.work = work

    def validate_argument_spec(self, arguments):
        return None, {"a": 1}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(ControllerAction.__mro__[1], "run", lambda *_arguments: {"from_ansible": True})
    return lambda work: Action(work).run(None, {"host": "x"})


def test_work_gets_the_checked_options_and_the_variables(run):
    assert run(lambda options, variables: {"got": (options, variables)}) == {
        "from_ansible": True,
        "got": ({"a": 1}, {"host": "x"}),
    }


@pytest.mark.parametrize("error", [RunError("no run"), SettingError("no run"), OSError("no run")])
def test_an_error_that_names_its_reason_fails_the_task_with_it(run, error):
    def work(options, variables):
        raise error

    with pytest.raises(AnsibleActionFail, match="^no run$"):
        run(work)


def test_what_to_do_stands_once_and_at_the_end(run):
    def work(options, variables):
        raise OSError(28, "No space left on device", "results/a/lock")

    told = r"No space left on device: 'results/a/lock'. Make room on that file system, then run the same command again$"
    with pytest.raises(AnsibleActionFail, match=told):
        run(work)


def test_results_of_root_are_explained_to_other_users(run):
    def work(options, variables):
        raise PermissionError(13, "Permission denied", "results/a/run.json")

    with pytest.raises(AnsibleActionFail, match="results/a/run.json: permission denied.*run this as root.*chown -R"):
        run(work)


def test_a_defect_is_not_taken_for_an_error_of_the_user(run):
    with pytest.raises(KeyError):
        run(lambda options, variables: options["missing"])


def test_a_run_must_have_been_measured(tmp_path):
    (tmp_path / "begun").mkdir()
    for name in ("", "missing", "begun"):
        with pytest.raises(RunError, match=f"^runs: there is no run '{name}' below "):
            measured_run("runs", str(tmp_path), name)
    (tmp_path / "begun" / "run.json").write_text("{}", encoding="ascii")
    assert measured_run("runs", str(tmp_path), "begun").path == str(tmp_path / "begun")


@pytest.mark.parametrize("name", ["", ".", "..", "latest", "a/b", "/a"])
def test_names_that_are_not_those_of_a_directory_here(tmp_path, name):
    with pytest.raises(RunError, match="^comparison: .* cannot be the name of a directory"):
        own_directory("comparison", str(tmp_path), name)


def test_a_run_is_not_overwritten_by_something_else(tmp_path):
    (tmp_path / "mine").mkdir()
    assert own_directory("comparison", str(tmp_path), "mine").path == str(tmp_path / "mine")
    (tmp_path / "mine" / "run.json").write_text("{}", encoding="ascii")
    with pytest.raises(RunError, match="^comparison: mine is a run"):
        own_directory("comparison", str(tmp_path), "mine")
