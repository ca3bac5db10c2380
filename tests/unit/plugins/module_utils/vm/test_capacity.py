# SPDX-License-Identifier: GPL-3.0-or-later
"""The control group that holds the VMs of a fleet. tests/fleet admits fleets on real hosts."""

from __future__ import annotations

import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CGROUP_V1, CGROUP_V2
from ansible_collections.memstretch.density.plugins.module_utils.vm import capacity


@pytest.mark.parametrize(
    ("partition", "systemd", "directory"),
    [
        ("", True, "machine.slice"),
        ("", False, "machine"),
        ("/fleet", True, "fleet.slice"),
        ("/machine/fleet", True, "machine.slice/machine-fleet.slice"),
        ("/machine/fleet", False, "machine/fleet"),
        ("/my-fleet", True, "my\\x2dfleet.slice"),  # libvirt escapes the name: a hyphen would be a level of slices
    ],
)
def test_the_budget_is_that_of_the_control_group_of_the_partition(monkeypatch, partition, systemd, directory):
    monkeypatch.setattr(capacity, "booted", lambda: systemd)
    monkeypatch.setattr(capacity.CgroupFiles, "limit", lambda group: group.path)
    root = CGROUP_V1 if os.path.isdir(CGROUP_V1) else CGROUP_V2
    assert capacity._dram_budget(partition) == f"{root}/{directory}"
