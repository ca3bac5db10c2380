# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import inert_yaml
from ansible_collections.memstretch.density.plugins.plugin_utils.vm import members as vm_members
from ansible_collections.memstretch.density.plugins.plugin_utils.vm import problems, ssh


def members(count: t.Any, pattern: str, hypervisors: t.Sequence[str]) -> list[dict[str, t.Any]]:
    try:
        return vm_members.members(count, pattern, hypervisors)
    except SettingError as error:
        raise AnsibleFilterError(str(error)) from error


def reached(vms: t.Any, names: t.Collection[str], variables: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    try:
        return vm_members.reached(vms, names, variables)
    except SettingError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Filters of the role vm_fleet."""

    def filters(self) -> dict[str, t.Callable]:
        return {
            "vm_members": members,
            "vm_moves": vm_members.moves,
            "vm_problems": problems.problems,
            "vm_reached": reached,
            "vm_ssh": ssh.ssh,
            "vm_inventory": inert_yaml.text,
        }
