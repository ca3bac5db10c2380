# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.vm.addresses import dhcp_range


@pytest.mark.parametrize(
    "address, first, last, count",
    [
        ("10.77.0.1/22", "10.77.0.2", "10.77.3.254", 1021),
        ("10.77.0.200/24", "10.77.0.201", "10.77.0.254", 54),  # those before the host's are not assigned
    ],
)
def test_addresses_follow_the_hypervisor(address, first, last, count):
    found = dhcp_range(address)
    assert (str(found.first), str(found.last), found.size) == (first, last, count)


@pytest.mark.parametrize(
    "address", ["10.77.0.1", "10.77.0.1/31", "10.77.0.0/24", "10.77.0.254/24", "x/24", "10.77.0.999/22"]
)
def test_address_is_checked(address):
    with pytest.raises(SettingError, match="vm_fleet_network: address"):
        dhcp_range(address)
