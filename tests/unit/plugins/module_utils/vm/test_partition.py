# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control groups of libvirt's partitions; tests/fleet asks a real libvirt without systemd."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm import partition


@pytest.mark.parametrize(
    ("named", "systemd", "group"),
    [
        ("", True, "machine.slice"),
        ("", False, "machine"),
        ("/fleet", True, "fleet.slice"),
        ("/fleet", False, "fleet.partition"),
        ("/machine/fleet", True, "machine-fleet.slice"),
        ("/machine/fleet", False, "machine/fleet.partition"),
        ("/machine/my.own/machine", False, "machine/my.own/machine.partition"),
        ("/my-fleet", True, "my\\x2dfleet.slice"),  # libvirt escapes the name: a hyphen would be a level of slices
    ],
)
def test_libvirt_names_the_group_of_a_partition(monkeypatch, named, systemd, group):
    monkeypatch.setattr(partition, "booted", lambda: systemd)
    assert partition.group_of(named) == group
