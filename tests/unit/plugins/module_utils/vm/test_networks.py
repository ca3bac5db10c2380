# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks on libvirt are in tests/fleet/test_module.py."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.vm.networks import (
    bridge_ports,
    network_uuid,
    network_xml,
)

SALT = "0123456789abcdef" * 2


def test_a_uuid_follows_from_fleet_salt_and_name():
    own = network_uuid("fleet", SALT, "redis")
    assert own == network_uuid("fleet", SALT, "redis")
    others = {network_uuid("other", SALT, "redis"), network_uuid("fleet", "1" * 32, "redis")}
    assert len({own, network_uuid("fleet", SALT, "other"), *others}) == 4


def test_a_definition_gives_vms_the_addresses_after_the_hosts():
    root = ET.fromstring(network_xml("fleet", SALT, "redis", "10.77.0.1/22"))
    assert root.findtext("uuid") == network_uuid("fleet", SALT, "redis") and root.findtext("name") == "redis"
    ip = root.find("ip")
    assert ip is not None and ip.attrib == {"address": "10.77.0.1", "netmask": "255.255.252.0"}
    assert [each.attrib for each in ip.iterfind("dhcp/range")] == [{"start": "10.77.0.2", "end": "10.77.3.254"}]


def test_an_address_without_room_is_refused():
    with pytest.raises(SettingError, match="leaves no addresses for VMs"):
        network_xml("fleet", SALT, "redis", "10.77.0.1/31")


def test_a_bridge_that_is_not_there_has_no_ports():
    assert bridge_ports("memstretch-none") == []
