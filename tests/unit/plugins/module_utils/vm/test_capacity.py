# SPDX-License-Identifier: GPL-3.0-or-later
"""The control group that holds the VMs of a fleet. tests/fleet admits fleets on real hosts."""

from __future__ import annotations

import os
import types

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import CGROUP_V1, CGROUP_V2
from ansible_collections.memstretch.density.plugins.module_utils.vm import capacity, partition
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.sizes import Sizes

GIB = 2**30


@pytest.mark.parametrize(
    ("named", "systemd", "directory"),
    [
        ("", True, "machine.slice"),
        ("", False, "machine"),
        ("/machine/fleet", True, "machine.slice/machine-fleet.slice"),
        ("/machine/fleet", False, "machine/fleet.partition"),
    ],
)
def test_the_budget_is_that_of_the_control_group_of_the_partition(monkeypatch, named, systemd, directory):
    monkeypatch.setattr(partition, "booted", lambda: systemd)
    monkeypatch.setattr(capacity.CgroupFiles, "limit", lambda group: group.path)
    root = CGROUP_V1 if os.path.isdir(CGROUP_V1) else CGROUP_V2
    assert capacity._dram_budget(named) == f"{root}/{directory}"


@pytest.mark.parametrize(
    ("asked", "sizes", "refusal"),
    [
        ((0, 0), (8 * GIB, 4, 8), ""),
        ((2 * GIB, 2), (2 * GIB, 2, 2), ""),
        ((2 * GIB - 1, 2), (2 * GIB, 2, 2), ""),  # libvirt rounds up to whole MiB
        ((2 * GIB, 2), (8 * GIB, 2, 2), "memory: 2 GiB becomes 8 GiB"),
        ((2 * GIB, 2), (GIB, 2, 2), "memory: 2 GiB becomes 1 GiB"),
        ((0, 4), (8 * GIB, 4, 8), "vcpus: 4 becomes 4 of 8"),
    ],
)
def test_sizes_that_libvirt_changes_are_refused(asked, sizes, refusal):
    template = types.SimpleNamespace(memory=asked[0], vcpus=asked[1])
    if not refusal:
        capacity._refuse_other_sizes(template, Sizes(*sizes))
        return
    with pytest.raises(VmHostError, match=refusal):
        capacity._refuse_other_sizes(template, Sizes(*sizes))
