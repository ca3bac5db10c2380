# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of the action that runs only on the controller, and what its modules share."""

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import failures
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError


class ControllerAction(ActionBase):
    """An action that needs no connection. A subclass defines C(ARGUMENTS) and work()."""

    ARGUMENTS: dict[str, t.Any] = {}
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _validation, options = self.validate_argument_spec(self.ARGUMENTS)
        try:
            return {**result, **self.work(options, task_vars or {})}
        except PermissionError as error:
            raise AnsibleActionFail(
                f"{error.filename}: permission denied. Results that root measured belong to root: run this as "
                f"root, too, or give the results to your user (chown -R)"
            ) from None  # whose text Ansible would add
        except (RunError, SettingError, OSError) as error:
            told = failures.with_remedy(str(error))
            # Ansible adds the text of the cause, unless the message ends with it.
            raise AnsibleActionFail(told) from (error if told == str(error) else None)

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the result of the task. A RunError, SettingError or OSError fails the task with its text."""
        raise NotImplementedError


class Task(t.NamedTuple):
    """What a function on the controller may know of the task that calls it.

    Attributes:
        check_mode: whether nothing may be changed.
        given: names of the options that the task sets.
        variables: of the host for which it runs.
        play: Ansible's object of the play.
    """

    check_mode: bool
    given: t.Collection[str]
    variables: t.Mapping[str, t.Any]
    play: t.Any = None


def refuse_options_of_others(
    selector: str, chosen: str, given: t.Iterable[str], options_of: t.Mapping[str, t.Collection[str]]
) -> None:
    """Refuse an option that only other choices of the selector read, so that no option is without effect.

    Args:
        selector: the option that chooses, such as kind.
        chosen: its value.
        given: names of the options that the task sets.
        options_of: by choice, the options that it reads.

    Raises:
        SettingError: there is such an option.
    """
    for name in given:
        others = [choice for choice, names in options_of.items() if name in names]
        if others and chosen not in others:
            raise SettingError(f"{name}: has no effect with {selector}={chosen}; it is for {' and '.join(others)}")


def measured_run(option: str, results_dir: str, run_id: str) -> RunDirectory:
    """Return the directory of an existing run.

    Raises:
        RunError: there is no such run; the text names the option.
    """
    return _measured(option, results_dir, run_id, "run")


def measured_density(option: str, results_dir: str, name: str) -> RunDirectory:
    """Return the directory of an existing density.

    Raises:
        RunError: there is no such density; the text names the option.
    """
    return _measured(option, results_dir, name, "density")


def measured_headroom(option: str, results_dir: str, name: str) -> RunDirectory:
    """Return the directory of an existing answer of headroom.

    Raises:
        RunError: there is no such answer; the text names the option.
    """
    return _measured(option, results_dir, name, "headroom")


def _measured(option: str, results_dir: str, name: str, kind: str) -> RunDirectory:
    path = os.path.join(os.path.expanduser(results_dir), name)
    if not name or not os.path.isfile(os.path.join(path, f"{kind}.json")):
        raise RunError(f"{option}: there is no {kind} {name!r} below {results_dir}; measure one first")
    return RunDirectory.at(path)


def own_directory(option: str, results_dir: str, name: str) -> RunDirectory:
    """Return a directory below results_dir, which may not exist yet, for something other than a run.

    Raises:
        RunError: the name cannot be used, or is that of a run; the text names the option.
    """
    if os.path.basename(name) != name or name in ("", ".", "..", "latest"):
        raise RunError(f"{option}: {name!r} cannot be the name of a directory below {results_dir}")
    directory = RunDirectory(results_dir, name)
    if os.path.exists(directory.file("run.json")):
        raise RunError(f"{option}: {name} is a run; choose another name")
    return directory
