# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.vm_members import members, moves


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
    surplus = {
        host: [vm["name"] for vm in before if vm["hypervisor"] == host and {**vm} not in after] for host in ("a", "b")
    }
    moved = moves(after, {**surplus, "c": []})
    # 6 and 7 are beyond the count: they are removed, not moved.
    assert moved == ["r-3 (on a, not c)", "r-4 (on b, not a)", "r-5 (on a, not b)"]
    assert moves(before, {"a": [], "b": []}) == []
