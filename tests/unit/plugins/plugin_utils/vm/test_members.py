# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.vm.members import (
    members,
    moves,
    reached,
)


def test_vms_are_assigned_in_turn():
    assert members(3, "redis-%02d", ["a", "b"]) == [
        {"name": "redis-01", "number": 1, "hypervisor": "a"},
        {"name": "redis-02", "number": 2, "hypervisor": "b"},
        {"name": "redis-03", "number": 3, "hypervisor": "a"},
    ]


def test_growth_moves_no_vm():
    assert members(108, "r%d", ["a", "b", "c"])[:20] == members("20", "r%d", ["a", "b", "c"])


@pytest.mark.parametrize("count", [-1, 65536, "many", None, 1.5, True])
def test_count_is_checked(count):
    with pytest.raises(SettingError, match="^vm_fleet_count: .* it must be a whole number from 0 to 65,535 "):
        members(count, "r%d", ["a"])


@pytest.mark.parametrize("pattern", ["redis", "r%d-%d", "r%s", "%d%%", "r_%d", "-%d", "x" * 70 + "%d"])
def test_pattern_is_checked(pattern):
    with pytest.raises(SettingError, match="vm_fleet_pattern"):
        members(2, pattern, ["a"])


def test_a_fleet_needs_hypervisors():
    with pytest.raises(SettingError, match="no hypervisors"):
        members(1, "r%d", [])
    assert members(0, "r%d", []) == []


def test_vms_that_another_list_of_hypervisors_would_move_are_named():
    before = members(7, "r-%d", ["a", "b"])
    after = members(5, "r-%d", ["a", "b", "c"])
    results = {
        host: {"surplus": [vm["name"] for vm in before if vm["hypervisor"] == host and {**vm} not in after]}
        for host in ("a", "b")
    }
    moved = moves(after, {**results, "c": {"skipped": True}})
    # 6 and 7 are beyond the count: they are removed, not moved.
    assert moved == ["r-3 (on a, not c)", "r-4 (on b, not a)", "r-5 (on a, not b)"]
    assert moves(before, {"a": {"surplus": []}, "b": {"surplus": []}}) == []


VM = {"name": "r1", "address": "10.0.0.5", "port": 22, "running": True}


COMMON = {"vm_fleet_hypervisor": "a", "ansible_ssh_common_args": "-o X=1", "ansible_user": "root"}


def test_a_hypervisor_says_how_its_vms_are_reached():
    found = reached([VM, {**VM, "name": "r2", "address": "fd00::5"}], ["r1", "r2"], COMMON)

    assert {name: (each["ansible_host"], each["ansible_port"]) for name, each in found.items()} == {
        "r1": ("10.0.0.5", 22),
        "r2": ("fd00::5", 22),
    }
    assert all(each.items() >= COMMON.items() and "running" not in each for each in found.values())


def test_vms_of_two_hypervisors_with_one_address_have_different_sockets():
    variants = (COMMON, {**COMMON, "vm_fleet_hypervisor": "b"}, {**COMMON, "ansible_ssh_common_args": ""})

    assert len({reached([VM], ["r1"], each)["r1"]["ansible_control_path"] for each in variants}) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "localhost"},
        {"address": ""},
        {"address": "2001:db8::5%{{ 7 * 7 }}"},
        {"address": "{{ 7 * 7 }}"},
        {"address": 5},
        {"port": 0},
        {"port": "22 -o ProxyCommand=id"},
        {"port": True},
    ],
)
def test_a_hypervisor_names_no_host_and_no_text(wrong):
    with pytest.raises(SettingError, match="the hypervisor "):
        reached([{**VM, **wrong}], ["r1"], COMMON)
