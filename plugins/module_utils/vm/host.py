# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VMs of one host through libvirt: list, define, start, stop and undefine them, and look up their addresses.

libvirt's Python binding releases the interpreter while the daemon works, so threads can start VMs in parallel over one
connection.
"""

from __future__ import annotations

import ipaddress
import os
import time
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.vm.sizes import Sizes, max_memory_of, sizes_of_command
from ansible_collections.memstretch.density.plugins.module_utils.vm.template import Mark, Vm, macs_of, mark_of

try:
    import libvirt
except ImportError:
    libvirt = None

POLL_S = 0.25
_ARP_COMPLETE = 0x02


class VmHostError(Exception):
    """The host cannot do what the fleet needs; the text is for the user."""


class Domain(t.NamedTuple):
    """A VM as libvirt describes it."""

    name: str
    uuid: str
    running: bool
    paused: bool
    mark: Mark | None
    macs: set[str]
    max_memory: int
    xml: str


class Network(t.NamedTuple):
    """A network as libvirt describes it."""

    name: str
    uuid: str
    active: bool
    autostart: bool
    bridge: str  # empty if it has none
    xml: str


def usable_addresses(cards: t.Mapping[str, t.Any]) -> list[str]:
    """Return the addresses that other machines can connect to, those of IPv4 first.

    Args:
        cards: the network cards of a VM, as libvirt's interfaceAddresses() returns them.
    """
    found = [_parsed(ip["addr"]) for card in cards.values() for ip in card["addrs"] or []]
    usable = [each for each in found if each and not each.is_loopback and not each.is_link_local]
    return [str(each) for each in sorted(usable, key=lambda each: each.version)]


def arp_addresses(table: str, mac: str) -> list[str]:
    """Return the addresses of a network card in the kernel's ARP table, /proc/net/arp."""
    rows = (line.split() for line in table.splitlines()[1:])
    return [row[0] for row in rows if len(row) > 3 and row[3].lower() == mac and int(row[2], 16) & _ARP_COMPLETE]


def bridge_of(definition: str) -> str:
    """Return the name of the bridge in the definition of a network, an empty text if it has none."""
    element = ET.fromstring(definition).find("bridge")
    return "" if element is None else element.get("name", "")


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, None if a guest has sent something else.

    The part behind a % is the name of a network card of the guest, which means nothing on the host and may be any text.
    """
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


class VmHost:
    """A connection to one libvirt."""

    def __init__(self, uri: str) -> None:
        if libvirt is None:
            raise VmHostError(
                "the Python interpreter that Ansible uses on this host cannot import libvirt; "
                "install python3-libvirt for it"
            )
        # libvirt raises its errors and, without a handler, prints them too.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        try:
            self._connection = libvirt.open(uri)
        except libvirt.libvirtError as error:
            raise VmHostError(f"libvirt does not answer at {uri}: {error}") from error

    def domains(self) -> dict[str, Domain]:
        """Return all VMs of this host by name."""
        found = {}
        for domain in self._call("list the VMs", self._connection.listAllDomains):
            try:
                state = domain.state()[0]
                xml = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    continue  # somebody has removed it since the list was made
                raise VmHostError(f"libvirt: {error}") from error
            running = state not in (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_NOSTATE)
            found[domain.name()] = Domain(
                domain.name(),
                domain.UUIDString(),
                running,
                state == libvirt.VIR_DOMAIN_PAUSED,
                mark_of(xml),
                macs_of(xml),
                max_memory_of(xml),
                xml,
            )
        return found

    def definitions(self, domain: Domain) -> list[str]:
        """Return every definition that libvirt keeps of a VM: inactive, active, of its snapshots and saved state."""
        found = [domain.xml]
        try:
            handle = self._connection.lookupByUUIDString(domain.uuid)
            if handle.isActive():
                found.append(handle.XMLDesc(0))
            found += [each.getXMLDesc(0) for each in handle.listAllSnapshots()]
            if handle.hasManagedSaveImage():
                found.append(handle.managedSaveGetXMLDesc(0))
        except libvirt.libvirtError as error:
            # It has been removed, or switched off, since it was listed; not every driver has snapshots or saved states.
            if error.get_error_code() not in (
                libvirt.VIR_ERR_NO_DOMAIN,
                libvirt.VIR_ERR_OPERATION_INVALID,
                libvirt.VIR_ERR_NO_SUPPORT,
            ):
                raise VmHostError(f"libvirt: {error}") from error
        return found

    def volumes(self) -> dict[tuple[str, str], str]:
        """Return the path of every volume by pool and name, also in pools that are not active or not up to date."""
        found = {}
        for pool in self._call("list the storage pools", self._connection.listAllStoragePools):
            root = ET.fromstring(self._call("read a storage pool", pool.XMLDesc))
            directory = root.findtext("./target/path") or ""
            if root.get("type") in ("dir", "fs", "netfs") and os.path.isdir(directory):
                found.update({(pool.name(), name): os.path.join(directory, name) for name in os.listdir(directory)})
            if self._call("read a storage pool", pool.isActive):
                for volume in self._call("list the volumes", pool.listAllVolumes):
                    found[pool.name(), volume.name()] = self._call("read a volume", volume.path)
        return found

    def define(self, xml: str) -> None:
        self._call("define the VM", lambda: self._connection.defineXML(xml))

    def sizes(self, name: str, xml: str) -> Sizes:
        """Return the sizes that libvirt would give to a VM, without defining it.

        Raises:
            VmHostError: libvirt or QEMU cannot run such a VM.
        """
        command = self._call(
            f"make a VM of the definition of {name}",
            lambda: self._connection.domainXMLToNative("qemu-argv", xml, 0),
        )
        return sizes_of_command(command, xml)

    def start(self, name: str) -> None:
        domain = self._find(name)
        if self._state(name, domain) == libvirt.VIR_DOMAIN_PAUSED:
            self._call(f"resume {name}", domain.resume)
        elif not self._is_active(name, domain):
            self._call(f"start {name}", domain.create)

    def stop(self, name: str, timeout: float) -> None:
        """Request a shutdown, and switch the VM off if it still runs after the timeout."""
        domain = self._find(name)
        if timeout and self._is_active(name, domain) and self._state(name, domain) == libvirt.VIR_DOMAIN_RUNNING:
            self._call(f"shut down {name}", domain.shutdown)
            deadline = time.monotonic() + timeout
            while self._is_active(name, domain) and time.monotonic() < deadline:
                time.sleep(POLL_S)
        try:
            if self._is_active(name, domain):
                domain.destroy()
        except libvirt.libvirtError as error:
            if self._is_active(name, domain):
                raise VmHostError(f"cannot switch off {name}: {error}") from error

    def has_crashed(self, name: str) -> bool | None:
        """Return whether a VM has ended without a shutdown or an order to end; None if it has not ended."""
        state, reason = self._call(f"read the state of {name}", self._find(name).state)
        ends = (libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, libvirt.VIR_DOMAIN_SHUTOFF_FAILED)
        return reason in ends if state == libvirt.VIR_DOMAIN_SHUTOFF else None

    def undefine(self, name: str) -> None:
        flags = (
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            # A file of the fleet's directory, which is removed with the disk, unless somebody has named another one.
            | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
            # In a directory named after the VM's UUID; libvirt of Debian 11 has no such flag.
            | getattr(libvirt, "VIR_DOMAIN_UNDEFINE_TPM", 0)
        )
        domain = self._find(name)
        self._call(f"undefine {name}", lambda: domain.undefineFlags(flags))

    def addresses(self, vm: Vm, source: str) -> list[str]:
        """Return the addresses of a VM, those of IPv4 first.

        Args:
            source: lease (of its libvirt network), agent (in the guest) or arp (the host's ARP table).
        """
        # libvirt 9.0 fails to read a table that is empty ("wrong nlmsg len").
        if source == "arp":
            return arp_addresses(HostFiles().text("/proc/net/arp") or "", vm.mac)
        name = vm.name
        kind = {
            "lease": libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
            "agent": libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT,
        }[source]
        try:
            cards = self._find(name).interfaceAddresses(kind)
        except libvirt.libvirtError as error:
            # The guest agent does not answer yet, the VM has none, or it has just ended: it has no address.
            if error.get_error_code() in (
                libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
                libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
                libvirt.VIR_ERR_OPERATION_INVALID,
                libvirt.VIR_ERR_NO_DOMAIN,
            ):
                return []
            raise VmHostError(f"cannot read the address of {name}: {error}") from error
        return usable_addresses(cards)

    def network_addresses(self, name: str) -> int | None:
        """Count how many addresses a libvirt network can assign, None if libvirt serves no DHCP in it.

        Raises:
            VmHostError: there is no such network, or it is not active.
        """
        try:
            network = self._connection.networkLookupByName(name)
        except libvirt.libvirtError as error:
            raise VmHostError(f"network: libvirt has no network {name!r} ({error})") from error
        if not self._call(f"read the network {name}", network.isActive):
            raise VmHostError(f"network: {name!r} is not active")
        definition = self._call(f"read the network {name}", network.XMLDesc)
        servers = ET.fromstring(definition).findall("./ip/dhcp")
        if not servers:
            return None
        return sum(
            int(ipaddress.ip_address(each.get("end", ""))) - int(ipaddress.ip_address(each.get("start", ""))) + 1
            for server in servers
            for each in server.iterfind("range")
        )

    def networks(self) -> dict[str, Network]:
        """Return all networks of this host by name."""
        found = {}
        for network in self._call("list the networks", self._connection.listAllNetworks):
            try:
                xml = network.XMLDesc()
                found[network.name()] = Network(
                    network.name(),
                    network.UUIDString(),
                    bool(network.isActive()),
                    bool(network.autostart()),
                    bridge_of(xml),
                    xml,
                )
            except libvirt.libvirtError as error:
                if error.get_error_code() != libvirt.VIR_ERR_NO_NETWORK:  # removed since the list was made
                    raise VmHostError(f"libvirt: {error}") from error
        return found

    def define_network(self, xml: str) -> None:
        self._call("define the network", lambda: self._connection.networkDefineXML(xml))

    def start_network(self, name: str) -> None:
        self._call(f"start the network {name}", self._network(name).create)

    def autostart_network(self, name: str) -> None:
        network = self._network(name)
        self._call(f"start the network {name} at boot", lambda: network.setAutostart(1))

    def remove_network(self, name: str) -> None:
        network = self._network(name)
        if self._call(f"read the network {name}", network.isActive):
            self._call(f"stop the network {name}", network.destroy)
        self._call(f"remove the network {name}", network.undefine)

    def _network(self, name: str) -> t.Any:
        return self._call(f"find the network {name}", lambda: self._connection.networkLookupByName(name))

    def _find(self, name: str) -> t.Any:
        return self._call(f"find {name}", lambda: self._connection.lookupByName(name))

    def _state(self, name: str, domain: t.Any) -> int:
        return self._call(f"read the state of {name}", domain.state)[0]

    def _is_active(self, name: str, domain: t.Any) -> bool:
        return bool(self._call(f"read the state of {name}", domain.isActive))

    @staticmethod
    def _call(what: str, function: t.Callable[[], t.Any]) -> t.Any:
        try:
            return function()
        except libvirt.libvirtError as error:
            raise VmHostError(f"cannot {what}: {error}") from error
