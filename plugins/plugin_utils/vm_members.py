# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VMs of a fleet: their names, their numbers and their hypervisors."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number
from ansible_collections.memstretch.density.plugins.module_utils.vm import addresses

COUNT = Range(int, 0, 65_535, "VMs on all hypervisors together")
_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$")


def members(count: t.Any, pattern: str, hypervisors: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return C(name), C(number) and C(hypervisor) of each VM, ordered by number.

    VMs are assigned to the hypervisors in turn. When a fleet grows or shrinks, every VM that stays keeps its name, its
    number and its hypervisor. Another list of hypervisors moves VMs, which the role refuses.

    Args:
        count: number of VMs on all hypervisors together.
        pattern: the name, with %d or for example %03d for the number.

    Raises:
        SettingError: an argument cannot be used.
    """
    total = number("vm_fleet_count", count, COUNT)
    if not re.match(r"^[^%]*%0?[0-9]?d[^%]*$", pattern):
        raise SettingError(
            f"vm_fleet_pattern: {pattern!r} is not allowed; it must be a name with %d, or for example %03d, in place "
            "of the number"
        )
    if total and not hypervisors:
        raise SettingError(
            "vm_fleet_count: there are no hypervisors to carry the VMs; add at least one host to the group hypervisors"
        )
    found: list[dict[str, t.Any]] = [
        {"name": pattern % each, "number": each, "hypervisor": hypervisors[(each - 1) % len(hypervisors)]}
        for each in range(1, total + 1)
    ]
    for each in found[:1] + found[-1:]:
        if not _NAME.match(each["name"]):
            raise SettingError(
                f"vm_fleet_pattern: {pattern!r} gives {each['name']!r}, which is not a valid host name; it must have "
                "1 to 63 letters, digits and '-', with no '-' at either end"
            )
    return found


def moves(members_of_all: t.Sequence[t.Mapping[str, t.Any]], surplus: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Return the VMs that exist on another hypervisor than the one that members() gives them, with both.

    Args:
        members_of_all: from members().
        surplus: the names of the fleet's VMs that each hypervisor has and is not to carry.
    """
    return [
        f"{vm['name']} (on {host}, not {vm['hypervisor']})"
        for vm in members_of_all
        for host, names in surplus.items()
        if vm["name"] in names and host != vm["hypervisor"]
    ]


def dhcp_range(address: str) -> dict[str, str]:
    """Return the addresses of a network as text; see addresses.dhcp_range()."""
    return {name: str(value) for name, value in addresses.dhcp_range(address)._asdict().items()}
