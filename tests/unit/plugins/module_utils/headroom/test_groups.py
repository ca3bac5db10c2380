# SPDX-License-Identifier: GPL-3.0-or-later
"""Which control groups are those of a unit alone."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import groups
from ansible_collections.memstretch.density.plugins.module_utils.headroom.units import Unit
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

VERSION_1 = "12:memory:/vms/{0}\n1:name=systemd:/other\n0::/unified\n"
VERSION_2 = "0::/vms/{0}\n"


@pytest.fixture
def host(tmp_path):
    """A function that makes a host whose processes are in these groups."""

    def make(text, **processes):
        for pid, group in processes.items():
            directory = tmp_path / "proc" / pid[1:]
            directory.mkdir(parents=True)
            (directory / "cgroup").write_text(text.format(group), encoding="ascii")
        return HostFiles(str(tmp_path))

    return make


def unit(name, *pids):
    return Unit(name, "vm", pids)


@pytest.mark.parametrize("text", [VERSION_1, VERSION_2])
def test_each_unit_has_its_groups(host, text):
    files = host(text, p1="a", p2="b/emulator", p3="b/vcpu0", p4="c")
    found = groups.of_units(files, [unit("a", 1), unit("b", 2, 3)], lambda path: True)

    assert found == [["/vms/a"], ["/vms/b/emulator", "/vms/b/vcpu0"]]


def test_memory_counts_to_the_next_group_above_that_has_the_controller(host):
    files = host(VERSION_2, p2="b/emulator", p3="b/vcpu0")
    assert groups.of_units(files, [unit("b", 2, 3)], lambda path: path == "/vms/b") == [["/vms/b"]]


@pytest.mark.parametrize(
    ("units", "known", "reason"),
    [
        ([unit("a", 1)], lambda path: True, "a shares the control group /vms/a"),
        ([unit("a", 1), unit("b", 2)], lambda path: True, "a shares the control group /vms/a"),
        ([unit("c", 3)], lambda path: False, "c has no memory control group of its own"),
    ],
)
def test_a_group_that_is_not_a_units_own_is_refused(host, units, known, reason):
    files = host(VERSION_2, p1="a", p2="a", p3="c")
    with pytest.raises(groups.NoGroup, match=f"^{reason}$"):
        groups.of_units(files, units, known)


def test_a_unit_that_has_ended_has_none_and_the_others_keep_theirs(host):
    files = host(VERSION_2, p1="a")
    assert groups.of_units(files, [unit("d", 4), unit("a", 1)], lambda path: True) == [[], ["/vms/a"]]
