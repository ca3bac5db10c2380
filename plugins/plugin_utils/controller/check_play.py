# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import typing as t

from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import host_names, known_variables
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import Task

# The last parts of their names. The strategy debug is linear too.
LINEAR = ("linear", "mitogen_linear", "debug")


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Refuse a play before it changes anything: for names of hosts or variables, or if its hosts do not go together."""
    if options["together"]:
        _refuse_others_than_linear(task.play)
    _refuse_names(task.variables)
    _refuse_misspelt(task.variables)
    if options["playbook"]:
        _refuse_nearly_known()
    if options["profiles"]:
        refuse_the_other_number(options["profiles"], task.variables)
    return {"changed": False}


def _refuse_others_than_linear(play: t.Any) -> None:
    if play.strategy.split(".")[-1] not in LINEAR:
        raise SettingError(
            f"strategy: {play.strategy} is not allowed for the play {play.get_name()!r}; it must be linear, "
            "because all hosts have to be at the same task. Remove the strategy from the play, from "
            "ansible.cfg and from the environment (ANSIBLE_STRATEGY)"
        )
    if play.serial:
        raise SettingError(
            f"serial: {', '.join(map(str, play.serial))} is not allowed for the play {play.get_name()!r}, because "
            "all hosts have to be at the same task. Remove serial from the play; forks limits how many hosts "
            "Ansible reaches at once"
        )


def _refuse_names(task_vars: t.Mapping[str, t.Any]) -> None:
    groups = (task_vars["groups"].get(name, ()) for name in ("hypervisors", "fleet"))
    host_names.refuse(dict.fromkeys(itertools.chain(task_vars["ansible_play_hosts_all"], *groups)))


def _refuse_misspelt(task_vars: t.Mapping[str, t.Any]) -> None:
    """Look at the names of the variables of all hosts of the play, never at their values."""
    hostvars = task_vars["hostvars"]
    names = {host: set(hostvars.raw_get(host)) for host in task_vars["ansible_play_hosts_all"]}
    # The variables of a task, for example those of a role, are not among the host's own.
    names.setdefault(task_vars["inventory_hostname"], set()).update(task_vars)
    found = known_variables.misspelt(set().union(*names.values()))
    if found:
        hosts = {name: [host for host, each in names.items() if name in each] for name in found}
        raise SettingError(known_variables.message(found, hosts))


def _refuse_nearly_known() -> None:
    """Look at what the command line sets. Most names of playbooks have no prefix, so only a near one is refused."""
    found = known_variables.nearly_of_playbooks(load_extra_vars(DataLoader()))
    if found:
        raise SettingError(known_variables.message(found, dict.fromkeys(found, ["every host"])))


def refuse_the_other_number(number: str, variables: t.Container[str]) -> None:
    """Refuse "profiles" where a playbook has one profile, and "profile" where it has several.

    Args:
        number: one or several.
        variables: the names that are set. With both, the one that the playbook reads counts.

    Raises:
        SettingError: only the one that it does not read is set; it would use its default.
    """
    has, read, other, example = {
        "one": ("one profile", "profile", "profiles", "zram"),
        "several": ("several profiles", "profiles", "profile", "dram,zram"),
    }[number]
    if other in variables and read not in variables:
        raise SettingError(
            f"{other}: this playbook has {has}, and does not read this variable. Set {read} instead, such as "
            f"-e {read}={example}"
        )
