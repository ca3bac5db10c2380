# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of VMs, as libvirt reports them."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.vm.host import usable_addresses

IPV4, IPV6 = 0, 1


def card(*addresses: tuple[str, int]) -> dict[str, object]:
    return {"addrs": [{"addr": address, "prefix": 64, "type": kind} for address, kind in addresses], "hwaddr": "02:0"}


def test_an_address_of_ipv4_comes_first_and_one_of_ipv6_serves_alone() -> None:
    loopback = card(("127.0.0.1", IPV4), ("::1", IPV6))
    both = card(("fe80::1", IPV6), ("fd00::5", IPV6), ("10.0.0.5", IPV4))
    assert usable_addresses({"lo": loopback, "eth0": both}) == ["10.0.0.5", "fd00::5"]
    assert usable_addresses({"lo": loopback, "eth0": card(("fe80::1", IPV6), ("2001:db8::7", IPV6))}) == ["2001:db8::7"]
    assert usable_addresses({"lo": loopback, "eth0": card(("fe80::1", IPV6), ("169.254.3.4", IPV4))}) == []
    assert usable_addresses({"lo": {"addrs": None, "hwaddr": ""}}) == []
