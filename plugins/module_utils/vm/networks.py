# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks that a fleet has made on its host.

A network is the fleet's if the owner file lists its name and it has the UUID that follows from the fleet's salt. Others
may use it, so it is removed only when nothing is attached to it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import ipaddress
import socket
import struct
import typing as t
import uuid
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.vm.addresses import dhcp_range
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import Domain, Network, VmHost, VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import IDENTITIES, NAMESPACE

# Linux: include/uapi/linux/if_bridge.h and sockios.h. Unlike sysfs, they show the bridges of the caller's own network
# namespace, and need no program.
_SIOCDEVPRIVATE = 0x89F0
_BRCTL_GET_PORT_LIST = 7
_MAX_PORTS = 1024


def network_uuid(fleet: str, salt: str, name: str) -> str:
    """Return the UUID of a network that a fleet makes."""
    return str(uuid.uuid5(IDENTITIES, f"{salt}/{fleet}/network/{name}"))


def network_xml(fleet: str, salt: str, name: str, address: str) -> str:
    """Return the definition of a network with NAT whose VMs get the addresses after the host's."""
    addresses = dhcp_range(address)
    root = ET.Element("network")
    ET.SubElement(root, "name").text = name
    ET.SubElement(root, "uuid").text = network_uuid(fleet, salt, name)
    # For an administrator who reads it. The UUID of the network says which fleet owns it.
    ET.SubElement(ET.SubElement(root, "metadata"), f"{{{NAMESPACE}}}network", {"fleet": fleet})
    ET.SubElement(root, "forward", {"mode": "nat"})
    ET.SubElement(root, "bridge", {"stp": "on", "delay": "0"})
    ip = ET.SubElement(root, "ip", {"address": str(addresses.address), "netmask": str(addresses.netmask)})
    ET.SubElement(ET.SubElement(ip, "dhcp"), "range", {"start": str(addresses.first), "end": str(addresses.last)})
    return ET.tostring(root, encoding="unicode")


class FleetNetworks:
    """The networks of one fleet on one host."""

    def __init__(self, fleet: str, salt: str, recorded: t.Sequence[str], host: VmHost) -> None:
        self.fleet, self.salt, self.recorded, self.host = fleet, salt, recorded, host
        self.found: dict[str, Network] = host.networks()

    def _is_own(self, name: str) -> bool:
        network = self.found.get(name)
        return network is not None and network.uuid == network_uuid(self.fleet, self.salt, name)

    def operations(self, name: str, address: str) -> list[str]:
        """Return the operations after which the network can be used: define, start, autostart.

        A network of that name that somebody else has made is used if it has the address, and is never changed.

        Raises:
            VmHostError: there is a network of that name without the address, or a foreign one that is off.
        """
        network = self.found.get(name)
        if network is None:
            return ["define", "start", "autostart"]
        wanted = dhcp_range(address)
        if (str(wanted.address), str(wanted.netmask)) not in _addresses_of(network.xml):
            has = ", ".join(f"{each} ({mask})" for each, mask in _addresses_of(network.xml)) or "none"
            raise VmHostError(
                f"network: {name} exists and its address is not {address}; it has {has}. Nothing was changed. Choose "
                "another name (vm_fleet_network.name), its own address, or leave out the address to use it as it is"
            )
        if self._is_own(name):
            return [*([] if network.active else ["start"]), *([] if network.autostart else ["autostart"])]
        if not network.active:
            raise VmHostError(
                f"network: {name} was not made for fleet {self.fleet}, and is off. Nothing was changed. Start it "
                f"(virsh net-start {name}), or choose another name (vm_fleet_network.name)"
            )
        return []

    def perform(self, name: str, address: str, operations: t.Sequence[str]) -> None:
        """Perform what operations() has returned. The owner file must list the network already."""
        if "define" in operations:
            self.host.define_network(network_xml(self.fleet, self.salt, name, address))
        if "start" in operations:
            self.host.start_network(name)
        if "autostart" in operations:
            self.host.autostart_network(name)

    def removable(self, members: t.Collection[str]) -> tuple[list[str], dict[str, str]]:
        """Return the names of the fleet's networks that nobody else uses, and why each other one must stay.

        Args:
            members: names of the fleet's VMs, which go first.
        """
        own = [name for name in self.recorded if self._is_own(name)]
        domains = self.host.domains()
        others = [each for name, each in domains.items() if name not in members]
        ours = [domains[name] for name in members if name in domains]
        users = {name: self._user(self.found[name], ours, others) for name in own}
        return [name for name in own if not users[name]], {name: user for name, user in users.items() if user}

    def _user(self, network: Network, ours: t.Sequence[Domain], others: t.Sequence[Domain]) -> str:
        """Return who else uses a network, an empty text if nobody does."""
        for each in others:
            if any(_uses(xml, network) for xml in self.host.definitions(each)):
                return f"VM {each.name}"
        cards = [card for each in ours for xml in self.host.definitions(each) for card in _cards(xml, network)]
        taps = {target.get("dev", "") for card in cards for target in card.iterfind("target")}
        # Its own port keeps the bridge's MAC address.
        ports = {port for port in bridge_ports(network.bridge) if not port.endswith("-nic")} - taps
        if ports:
            return f"what is attached to its bridge {network.bridge} ({', '.join(sorted(ports))})"
        return ""

    def remove(self, name: str) -> None:
        self.host.remove_network(name)


def _addresses_of(definition: str) -> list[tuple[str, str]]:
    """Return the host's addresses in a network and their netmasks."""
    found = []
    for each in ET.fromstring(definition).iterfind("./ip"):
        length = each.get("netmask") or each.get("prefix", "")
        interface = ipaddress.ip_interface(f"{each.get('address', '')}/{length}")
        found.append((str(interface.ip), str(interface.netmask)))
    return found


def _cards(definition: str, network: Network) -> t.Iterator[ET.Element]:
    """Yield the network cards in a definition that are attached to a network, by its name or by its bridge."""
    for card in ET.fromstring(definition).iterfind("./devices/interface"):
        for source in card.iterfind("source"):
            by_name = source.get("network") == network.name
            if by_name or (network.bridge and source.get("bridge") == network.bridge):
                yield card


def _uses(definition: str, network: Network) -> bool:
    return any(True for card in _cards(definition, network))


def bridge_ports(bridge: str) -> list[str]:
    """Return the network cards that are attached to a bridge of this host; none if there is no such bridge."""
    indices = (ctypes.c_int * _MAX_PORTS)()
    arguments = (ctypes.c_ulong * 4)(_BRCTL_GET_PORT_LIST, ctypes.addressof(indices), _MAX_PORTS, 0)
    request = struct.pack("16sP", bridge.encode(), ctypes.addressof(arguments)).ljust(40, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            fcntl.ioctl(control, _SIOCDEVPRIVATE, request)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return []  # the network is off
            raise
    return [socket.if_indextoname(index) for index in indices if index]
