# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of VMs, as libvirt reports them, and its errors, as the user reads them."""

from __future__ import annotations

import types

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm import host as vm_host
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import (
    VmHost,
    VmHostError,
    arp_addresses,
    usable_addresses,
)

IPV4, IPV6 = 0, 1
RUNNING, PAUSED, SHUT_OFF = 1, 3, 5
SHUT_DOWN, CRASHED, FAILED = 1, 3, 6


class LibvirtError(Exception):
    """Stands for libvirt.libvirtError."""


def fail(*_arguments):
    raise LibvirtError("client socket is closed")


@pytest.fixture
def connect(monkeypatch):
    """A function that returns a host with a VM, of which some calls fail because libvirtd has ended."""
    libvirt = types.SimpleNamespace(
        libvirtError=LibvirtError,
        registerErrorHandler=lambda *_arguments: None,
        VIR_DOMAIN_RUNNING=RUNNING,
        VIR_DOMAIN_PAUSED=PAUSED,
        VIR_DOMAIN_SHUTOFF=SHUT_OFF,
        VIR_DOMAIN_SHUTOFF_CRASHED=CRASHED,
        VIR_DOMAIN_SHUTOFF_FAILED=FAILED,
    )
    monkeypatch.setattr(vm_host, "libvirt", libvirt)

    def call(**calls):
        working = {
            "state": lambda: [RUNNING, 1],
            "isActive": lambda: 1,
            "shutdown": lambda: 0,
            "lookupByName": lambda _name: found,
            "networkLookupByName": lambda _name: found,
            "XMLDesc": lambda: "<network/>",
        }
        found = types.SimpleNamespace(**{**working, **calls})
        libvirt.open = lambda _uri: found
        return VmHost("qemu:///system")

    return call


def card(*addresses: tuple[str, int]) -> dict[str, object]:
    return {"addrs": [{"addr": address, "prefix": 64, "type": kind} for address, kind in addresses], "hwaddr": "02:0"}


def test_an_address_of_ipv4_comes_first_and_one_of_ipv6_serves_alone() -> None:
    loopback = card(("127.0.0.1", IPV4), ("::1", IPV6))
    both = card(("fe80::1", IPV6), ("fd00::5", IPV6), ("10.0.0.5", IPV4))
    assert usable_addresses({"lo": loopback, "eth0": both}) == ["10.0.0.5", "fd00::5"]
    assert usable_addresses({"lo": loopback, "eth0": card(("fe80::1", IPV6), ("2001:db8::7", IPV6))}) == ["2001:db8::7"]
    assert usable_addresses({"lo": loopback, "eth0": card(("fe80::1", IPV6), ("169.254.3.4", IPV4))}) == []
    assert usable_addresses({"lo": {"addrs": None, "hwaddr": ""}}) == []


@pytest.mark.parametrize(
    "text", ["2001:db8::5%{{ lookup('pipe', 'id') }}", "2001:db8::5%eth0", "10.0.0.300", "", "x\n"]
)
def test_what_is_no_address_leaves_the_others(text) -> None:
    assert usable_addresses({"eth0": card((text, IPV6), ("2001:db8::7", IPV6))}) == ["2001:db8::7"]


@pytest.mark.parametrize(
    ("calls", "what", "message"),
    [
        ({"listAllDomains": fail}, lambda host: host.domains(), "cannot list the VMs: client socket is closed"),
        ({"state": fail}, lambda host: host.start("fleet-1"), "cannot read the state of fleet-1: client socket"),
        ({"isActive": fail}, lambda host: host.start("fleet-1"), "cannot read the state of fleet-1: client socket"),
        ({"isActive": fail}, lambda host: host.stop("fleet-1", 5), "cannot read the state of fleet-1: client socket"),
        ({"state": fail}, lambda host: host.stop("fleet-1", 5), "cannot read the state of fleet-1: client socket"),
        ({"isActive": fail}, lambda host: host.stop("fleet-1", 0), "cannot read the state of fleet-1: client socket"),
        ({"isActive": fail}, lambda host: host.network_addresses("net"), "cannot read the network net: client socket"),
        ({"XMLDesc": fail}, lambda host: host.network_addresses("net"), "cannot read the network net: client socket"),
    ],
)
def test_an_error_of_libvirt_names_what_could_not_be_done(connect, calls, what, message) -> None:
    with pytest.raises(VmHostError, match=message):
        what(connect(**calls))


@pytest.mark.parametrize(
    ("state", "crashed"),
    [((RUNNING, 1), None), ((SHUT_OFF, SHUT_DOWN), False), ((SHUT_OFF, CRASHED), True), ((SHUT_OFF, FAILED), True)],
)
def test_a_vm_that_was_killed_is_told_from_one_that_was_shut_down(connect, state, crashed) -> None:
    assert connect(state=lambda: state).has_crashed("fleet-1") is crashed


def test_a_vm_that_is_undefined_while_it_shuts_down_is_an_error_of_this_vm(connect) -> None:
    answers = iter([1])

    def is_active():
        return next(answers, None) or fail()

    with pytest.raises(VmHostError, match="cannot read the state of fleet-1"):
        connect(isActive=is_active).stop("fleet-1", 5)


def test_a_vm_that_ends_while_it_is_switched_off_is_off(connect) -> None:
    answers = iter([1, 0])
    connect(isActive=lambda: next(answers), destroy=fail).stop("fleet-1", 0)
    with pytest.raises(VmHostError, match="cannot switch off fleet-1: client socket is closed"):
        connect(destroy=fail).stop("fleet-1", 0)


@pytest.mark.parametrize(
    ("definition", "count"),
    [
        ("<ip address='10.0.0.1'><dhcp><range start='10.0.0.2' end='10.0.0.11'/></dhcp></ip>", 10),
        ("<ip address='10.0.0.1'><dhcp><host mac='52:54:00:00:00:01' ip='10.0.0.2'/></dhcp></ip>", 0),
        ("<ip address='10.0.0.1'/>", None),
        ("<forward mode='bridge'/><bridge name='br0'/>", None),
    ],
)
def test_a_network_without_dhcp_of_libvirt_has_no_known_number_of_addresses(connect, definition, count) -> None:
    host = connect(XMLDesc=lambda: f"<network>{definition}</network>")
    assert host.network_addresses("net") == count


ARP = """IP address       HW type     Flags       HW address            Mask     Device
10.77.0.9        0x1         0x2         02:34:FB:46:00:07     *        br0
10.77.0.8        0x1         0x0         02:34:fb:46:00:08     *        br0
10.77.0.7        0x1         0x6         02:34:fb:46:00:09     *        br0
"""


@pytest.mark.parametrize(
    ("table", "mac", "found"),
    [
        (ARP, "02:34:fb:46:00:07", ["10.77.0.9"]),
        (ARP, "02:34:fb:46:00:08", []),  # asked for, and not answered
        (ARP, "02:34:fb:46:00:09", ["10.77.0.7"]),
        (ARP.splitlines()[0], "02:34:fb:46:00:07", []),
        ("", "02:34:fb:46:00:07", []),
    ],
)
def test_addresses_in_the_arp_table(table, mac, found) -> None:
    assert arp_addresses(table, mac) == found
