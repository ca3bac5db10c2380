# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sockets the drives of a set are near. What the kinds of swap do is tried in tests/local/swap."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import BLANK, Content, Guard
from ansible_collections.memstretch.density.plugins.module_utils.swap.kinds import Disks
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import read
from ansible_collections.memstretch.density.plugins.modules.swap_space import ARGUMENTS


class Drive:
    """What the check of locality needs to know of a disk."""

    def __init__(self, name):
        self.name, self.path = name, f"/dev/disk/by-id/{name}"


def warnings(tmp_path, sockets, nodes):
    """The warnings of a host with so many sockets, and drives that are near these NUMA nodes."""
    for number in range(sockets):
        directory = tmp_path / f"sys/devices/system/cpu/cpu{number}/topology"
        directory.mkdir(parents=True)
        (directory / "physical_package_id").write_text(f"{number}\n", encoding="ascii")
    for number, node in enumerate(nodes):
        device = tmp_path / f"sys/devices/pci{number}"
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{node}\n", encoding="ascii")
        (tmp_path / f"sys/block/drive{number}").mkdir(parents=True)
        (tmp_path / f"sys/block/drive{number}/device").symlink_to(device)
    options = read({name: option.get("default") for name, option in ARGUMENTS.items()}, 2**30, {})
    kind = Disks(options, Guard(lambda command: pytest.fail(f"runs {command}"), HostFiles(str(tmp_path))))
    kind.disks = [(Drive(f"drive{number}"), Content(BLANK, "nothing")) for number in range(len(nodes))]
    kind._locality()
    return kind.warnings


@pytest.mark.parametrize(("sockets", "nodes"), [(1, [0, 0]), (1, [-1]), (2, [0, 1]), (2, []), (4, [0, 2, 3])])
def test_drives_that_are_as_they_should_be(tmp_path, sockets, nodes):
    assert warnings(tmp_path, sockets, nodes) == []


def test_drives_on_one_socket_only_are_named(tmp_path):
    assert warnings(tmp_path, 2, [1, 1]) == [
        "this host has 2 sockets and all swap drives are near NUMA node 1: /dev/disk/by-id/drive0, /dev/disk/by-id/drive1",
    ]


def test_one_drive_on_two_sockets_is_named(tmp_path):
    assert warnings(tmp_path, 2, [0]) == [
        "this host has 2 sockets and all swap drives are near NUMA node 0: /dev/disk/by-id/drive0"
    ]


def test_drives_that_are_near_no_socket_are_named(tmp_path):
    assert warnings(tmp_path, 2, [0, -1]) == ["no socket is known to be near these swap drives: /dev/disk/by-id/drive1"]
