# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs a fleet has, and which hypervisor carries each."""

from __future__ import annotations

import ipaddress
import re
import typing as t

COUNT_RANGE = (0, 65535)
_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$")


class MembersError(Exception):
    """The fleet cannot be named; the text names the option, the value and what is allowed."""


def members(count: t.Any, pattern: str, hypervisors: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return C(name), C(number) and C(hypervisor) of each VM, in the order of their numbers.

    They are dealt out in turns: when a fleet grows or shrinks, every VM that stays has its name, its number and its hypervisor.

    Args:
        count: how many there are on all hypervisors together.
        pattern: the name, with %d or for example %03d for the number.

    Raises:
        MembersError: one of these cannot be used.
    """
    try:
        number = int(str(count))
    except ValueError:
        number = -1
    if not COUNT_RANGE[0] <= number <= COUNT_RANGE[1]:
        raise MembersError(
            f"vm_fleet_count: {count!r} is not allowed; it takes a whole number from {COUNT_RANGE[0]} to {COUNT_RANGE[1]}"
        )
    if not re.match(r"^[^%]*%0?[0-9]?d[^%]*$", pattern):
        raise MembersError(
            f"vm_fleet_pattern: {pattern!r} is not allowed; it takes a name with %d, or for example %03d, where the number goes"
        )
    if number and not hypervisors:
        raise MembersError(
            "vm_fleet_count: there are no hypervisors that could carry a VM; put one into the group hypervisors"
        )
    found = [
        {"name": pattern % each, "number": each, "hypervisor": hypervisors[(each - 1) % len(hypervisors)]}
        for each in range(1, number + 1)
    ]
    for each in found[:1] + found[-1:]:
        if not _NAME.match(each["name"]):
            raise MembersError(
                f"vm_fleet_pattern: {pattern!r} gives {each['name']!r}, which is no name of a host; it takes up to 63 letters, digits and '-', none at the ends"
            )
    return found


def dhcp_range(address: str) -> dict[str, str]:
    """Return C(address), C(netmask), C(first) and C(last) for a network in which the hypervisor has that address and VMs get all others behind it.

    Raises:
        MembersError: it is not an IPv4 address with the length of its network, or there is no room behind it.
    """
    try:
        own = ipaddress.IPv4Interface(address)
    except ValueError as error:
        raise MembersError(
            f"vm_fleet_network: address {address!r} is not allowed ({error}); it takes one such as 10.77.0.1/22"
        ) from error
    first, last = own.ip + 1, own.network.broadcast_address - 1
    if own.network.prefixlen > 29 or first >= last or own.ip == own.network.network_address:
        raise MembersError(
            f"vm_fleet_network: address {address!r} leaves no room for VMs behind it; it takes one such as 10.77.0.1/22"
        )
    return {"address": str(own.ip), "netmask": str(own.netmask), "first": str(first), "last": str(last)}
