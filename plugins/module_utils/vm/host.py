# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VMs of one host, through libvirt: what is there, and the few things that are done to them.

libvirt's Python binding lets other threads run while the daemon works, so that VMs are started side by side over one connection.
"""

from __future__ import annotations

import ipaddress
import os
import time
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.memstretch.density.plugins.module_utils.vm.template import (
    Mark,
    macs_of,
    mark_of,
    max_memory_of,
)

try:
    import libvirt
except ImportError:
    libvirt = None

POLL_S = 0.25


class VmHostError(Exception):
    """Something that the user has to know; the text is for them."""


class Known(t.NamedTuple):
    """A VM that is there."""

    name: str
    uuid: str
    running: bool
    paused: bool
    mark: Mark | None
    macs: set[str]
    max_memory: int
    xml: str


class VmHost:
    """A connection to one libvirt."""

    def __init__(self, uri: str) -> None:
        if libvirt is None:
            raise VmHostError(
                "the Python of this task cannot import libvirt; install python3-libvirt on the host, for the Python that Ansible uses there"
            )
        # What goes wrong is raised; without this it is printed as well.
        libvirt.registerErrorHandler(lambda context, error: None, None)
        try:
            self._connection = libvirt.open(uri)
        except libvirt.libvirtError as error:
            raise VmHostError(f"libvirt does not answer at {uri}: {error}") from error

    def known(self) -> dict[str, Known]:
        """Return all VMs of this host, by their names."""
        found = {}
        for domain in self._connection.listAllDomains():
            try:
                state = domain.state()[0]
                xml = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    continue  # removed by somebody else meanwhile
                raise VmHostError(f"libvirt: {error}") from error
            running = state not in (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_NOSTATE)
            found[domain.name()] = Known(
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

    def define(self, xml: str) -> None:
        self._do("define", lambda: self._connection.defineXML(xml))

    def start(self, name: str) -> None:
        domain = self._domain(name)
        if domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
            self._do(f"resume {name}", domain.resume)
        elif not domain.isActive():
            self._do(f"start {name}", domain.create)

    def stop(self, name: str, timeout: float) -> None:
        """Have it shut itself down; one that does not within the timeout is switched off."""
        domain = self._domain(name)
        if timeout and domain.isActive() and domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING:
            self._do(f"shut down {name}", domain.shutdown)
            deadline = time.monotonic() + timeout
            while domain.isActive() and time.monotonic() < deadline:
                time.sleep(POLL_S)
        try:
            if domain.isActive():
                domain.destroy()
        except libvirt.libvirtError as error:
            if domain.isActive():
                raise VmHostError(f"switch off {name}: {error}") from error

    def undefine(self, name: str) -> None:
        flags = (
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
        )
        domain = self._domain(name)
        self._do(f"undefine {name}", lambda: domain.undefineFlags(flags))

    def addresses(self, name: str, source: str) -> list[str]:
        """Return the IPv4 addresses of a VM; from the leases of its network, its guest agent or the host's ARP table."""
        kind = {
            "lease": libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
            "agent": libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT,
            "arp": libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP,
        }[source]
        try:
            cards = self._domain(name).interfaceAddresses(kind)
        except libvirt.libvirtError as error:
            # No agent answers yet, or the VM has just ended: it has no address.
            if error.get_error_code() in (
                libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
                libvirt.VIR_ERR_OPERATION_INVALID,
                libvirt.VIR_ERR_NO_DOMAIN,
            ):
                return []
            raise VmHostError(f"address of {name}: {error}") from error
        found = [
            ip["addr"]
            for card in cards.values()
            for ip in card["addrs"] or []
            if ip["type"] == libvirt.VIR_IP_ADDR_TYPE_IPV4
        ]
        return [address for address in found if not ipaddress.ip_address(address).is_loopback]

    def network_addresses(self, name: str) -> int:
        """Return how many addresses a network of libvirt can give.

        Raises:
            VmHostError: there is no such network, or it does not run.
        """
        try:
            network = self._connection.networkLookupByName(name)
        except libvirt.libvirtError as error:
            raise VmHostError(f"network: {name!r} is no network of this libvirt ({error})") from error
        if not network.isActive():
            raise VmHostError(f"network: {name!r} is not active")
        ranges = ET.fromstring(network.XMLDesc()).iterfind("./ip/dhcp/range")
        return sum(
            int(ipaddress.ip_address(each.get("end", ""))) - int(ipaddress.ip_address(each.get("start", ""))) + 1
            for each in ranges
        )

    def _domain(self, name: str) -> t.Any:
        return self._do(f"find {name}", lambda: self._connection.lookupByName(name))

    @staticmethod
    def _do(what: str, call: t.Callable[[], t.Any]) -> t.Any:
        try:
            return call()
        except libvirt.libvirtError as error:
            raise VmHostError(f"{what}: {error}") from error


def file_state(path: str) -> str:
    """Return what changes with every change of a file: its size and the time of its last change."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise VmHostError(f"golden image: cannot read {path}: {error.strerror}") from error
    return f"{status.st_size}-{status.st_mtime_ns}"
