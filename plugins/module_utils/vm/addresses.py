# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that a hypervisor's own network assigns to VMs."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError


class DhcpRange(t.NamedTuple):
    """The addresses of a network whose VMs get those after the host's.

    Attributes:
        address: the host's.
        netmask: of the network.
        first: the first address of a VM.
        last: the last one.
    """

    address: ipaddress.IPv4Address
    netmask: ipaddress.IPv4Address
    first: ipaddress.IPv4Address
    last: ipaddress.IPv4Address

    @property
    def size(self) -> int:
        """The number of addresses for VMs."""
        return int(self.last) - int(self.first) + 1


def dhcp_range(address: str) -> DhcpRange:
    """Return the addresses of a network.

    Args:
        address: the hypervisor's address with the prefix length of the network.

    Raises:
        SettingError: this is not such an address, or no addresses follow it.
    """
    try:
        own = ipaddress.IPv4Interface(address)
    except ValueError as error:
        raise SettingError(
            f"vm_fleet_network: address {address!r} is not allowed ({error}); it must be one such as 10.77.0.1/22"
        ) from error
    first, last = own.ip + 1, own.network.broadcast_address - 1
    if own.network.prefixlen > 29 or first >= last or own.ip == own.network.network_address:
        raise SettingError(
            f"vm_fleet_network: address {address!r} leaves no addresses for VMs; it must be one such as 10.77.0.1/22"
        )
    return DhcpRange(own.ip, own.netmask, first, last)
