# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.memstretch.density.plugins.plugin_utils.vm_members import MembersError, dhcp_range, members


def vm_members(count: t.Any, pattern: str, hypervisors: t.Sequence[str]) -> list[dict[str, t.Any]]:
    try:
        return members(count, pattern, hypervisors)
    except MembersError as error:
        raise AnsibleFilterError(str(error)) from error


def network_range(address: str) -> dict[str, str]:
    try:
        return dhcp_range(address)
    except MembersError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """What the role vm_fleet asks for."""

    def filters(self) -> dict[str, t.Callable]:
        return {"vm_members": vm_members, "dhcp_range": network_range}
