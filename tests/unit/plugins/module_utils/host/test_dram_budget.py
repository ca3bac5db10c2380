# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DRAM budgets: the states they want, and the sizes they refuse."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import budget_service, dram_budget
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import (
    BudgetError,
    CgroupFiles,
    HugepageBudget,
    SliceBudget,
    group_path,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles

MIB = 2**20


def accept(_command):
    """Accept each command."""
    return 0, "", ""


@pytest.fixture
def meminfo(monkeypatch):
    figures = {"MemTotal": 4096 * MIB, "MemAvailable": 3000 * MIB, "Hugepagesize": 2 * MIB, "SwapFree": 100 * MIB}
    monkeypatch.setattr(dram_budget, "meminfo", lambda files: figures)
    return figures


def test_hugepages_are_reserved_for_the_memory_above_the_budget(meminfo):
    budget = HugepageBudget(2048 * MIB, 512 * MIB, accept)
    present = {"huge pages": 10}
    assert budget.applied_state(present, present)["huge pages"] == 10 + 1024
    assert budget.applied_state({**present, "huge pages": 1025}, present)["huge pages"] == 1025, (
        "a number that is close enough is kept, so that a second run changes nothing"
    )
    assert budget.lifted_state({"huge pages": 1034}, present)["huge pages"] == 10


def test_a_budget_that_would_push_the_host_into_oom_is_refused(meminfo):
    with pytest.raises(BudgetError, match=r"of 1.465 GiB .* use 1.07 GiB, .* 512 MiB.* at least 1.57 GiB"):
        HugepageBudget(1500 * MIB, 512 * MIB, accept).check({"huge pages": 0})
    HugepageBudget(1608 * MIB, 512 * MIB, accept).check({"huge pages": 0})


def test_a_budget_that_is_not_below_the_hosts_memory_is_refused(meminfo):
    present = {"huge pages": 0}
    with pytest.raises(BudgetError, match=r"of 4 GiB must be below the host's memory \(4 GiB\)"):
        HugepageBudget(4096 * MIB, 0, accept).applied_state(present, present)


def test_reserved_huge_pages_do_not_count_as_in_use(meminfo):
    meminfo["MemAvailable"] = 1000 * MIB
    HugepageBudget(1700 * MIB, 512 * MIB, accept).check({"huge pages": 1000})


def test_a_kernel_without_huge_pages_is_refused(meminfo):
    del meminfo["Hugepagesize"]
    with pytest.raises(BudgetError, match="use cgroup"):
        HugepageBudget(1700 * MIB, 512 * MIB, accept)


def test_a_control_group_must_fit_into_the_budget_and_swap(meminfo, tmp_path):
    (tmp_path / "memory.usage_in_bytes").write_text(str(300 * MIB), encoding="ascii")
    (tmp_path / "memory.limit_in_bytes").write_text("9223372036854771712\n", encoding="ascii")
    files = CgroupFiles(str(tmp_path), version_1=True)
    assert files.exists() and files.limit() is None
    files.check(200 * MIB)
    with pytest.raises(BudgetError, match=r"199 MiB .* 300 MiB are in use there, and budget and free swap are 299 MiB"):
        files.check(199 * MIB)


@pytest.mark.parametrize("text, limit", [("max\n", None), ("1048576\n", 1048576)])
def test_limits_of_control_groups_version_2(tmp_path, text, limit):
    (tmp_path / "memory.max").write_text(text, encoding="ascii")
    assert CgroupFiles(str(tmp_path), version_1=False).limit() == limit
    assert CgroupFiles(str(tmp_path / "gone"), version_1=False).limit() is None


def test_the_processes_of_a_control_group_are_also_in_those_below_it(tmp_path):
    (tmp_path / "machine-qemu-1.scope" / "emulator").mkdir(parents=True)
    for directory, processes in ((tmp_path, ""), (tmp_path / "machine-qemu-1.scope" / "emulator", "17\n18\n")):
        (directory / "cgroup.procs").write_text(processes, encoding="ascii")
    assert CgroupFiles(str(tmp_path), version_1=False).processes() == 2
    assert CgroupFiles(str(tmp_path / "none"), version_1=False).processes() == 0


def test_the_swappiness_of_a_control_group_is_set_in_those_below_it_too(tmp_path):
    below = tmp_path / "machine-qemu-1.scope"
    below.mkdir()
    group = CgroupFiles(str(tmp_path), version_1=True)
    for directory, value in ((tmp_path, "60"), (below, "100")):
        (directory / "memory.swappiness").write_text(value, encoding="ascii")
    assert group.swappiness() == [60, 100]
    group.set_swappiness([60, 100])
    assert group.swappiness() == [60, 100]
    group.set_swappiness([133])
    assert group.swappiness() == [133] and (below / "memory.swappiness").read_text(encoding="ascii") == "133"


def test_version_2_has_no_swappiness_of_a_group(tmp_path):
    group = CgroupFiles(str(tmp_path), version_1=False)
    assert group.swappiness() == group.applied_swappiness() == []


def test_the_control_group_of_a_nested_slice_is_below_its_parents():
    budget = SliceBudget(64 * MIB, "machine-fleet.slice", lambda *args: (0, "", ""))
    assert budget._files.path.endswith("/machine.slice/machine-fleet.slice")
    assert budget.applied_state({}, {})["/etc/systemd/system/machine-fleet.slice.d/90-memstretch-budget.conf"].endswith(
        "[Slice]\nMemoryMax=67108864\n"
    )


@pytest.mark.parametrize("group", ["fleet", "a/b", "fleet.slice", "a.slice/a-b.slice"])
def test_the_path_of_a_control_group_stays_as_it_is(group):
    assert group_path(group) == group


@pytest.mark.parametrize("systemd", [True, False])
def test_only_systemd_reserves_huge_pages_at_boot(meminfo, systemd):
    budget = HugepageBudget(2048 * MIB, 512 * MIB, accept)
    budget.persistent = systemd
    wanted = budget.applied_state({"huge pages": 0}, {"huge pages": 10})
    assert (wanted[budget_service.LINK] == budget_service.UNIT_FILE) == systemd
    assert bool(wanted[budget_service.SCRIPT_FILE]) == bool(wanted[budget_service.UNIT_FILE]) == systemd


def test_a_host_that_has_lost_memory_does_not_get_its_old_huge_pages_back(meminfo, tmp_path, monkeypatch):
    """The original number was set on a host with more memory: to restore it would push the host into OOM."""
    path = tmp_path / "nr_hugepages"
    path.write_text("1000\n", encoding="ascii")
    monkeypatch.setattr(dram_budget, "HUGEPAGES", str(path))
    monkeypatch.setattr(budget_service, "write_files", lambda wanted: False)
    budget = HugepageBudget(2048 * MIB, 512 * MIB, accept)
    original = {**dict.fromkeys(budget_service.FILES), "huge pages": 1000 + 1501}
    with pytest.raises(BudgetError, match="2,501 huge pages need 2.932 GiB more than now, and 2.93 GiB are available"):
        budget.set_state(original)
    assert path.read_text(encoding="ascii") == "1000\n"
    budget.set_state({**original, "huge pages": 1000 + 1500})
    assert path.read_text(encoding="ascii").strip() == "2500"


def test_version_2_lowers_a_limit_only_once_the_memory_is_reclaimed(tmp_path):
    """Otherwise memory.max would call the OOM killer."""
    (tmp_path / "memory.current").write_text(str(300 * MIB), encoding="ascii")
    (tmp_path / "memory.max").write_text("max", encoding="ascii")
    files = CgroupFiles(str(tmp_path), version_1=False)
    with pytest.raises(BudgetError, match=r"has no memory.reclaim; it needs Linux 5.19"):
        files.squeeze(200 * MIB)
    (tmp_path / "memory.reclaim").write_text("", encoding="ascii")
    assert not files.squeeze(200 * MIB), "nothing was reclaimed"
    assert files.limit() is None
    assert (tmp_path / "memory.reclaim").read_text(encoding="ascii") == str(100 * MIB)
    (tmp_path / "memory.current").write_text(str(150 * MIB), encoding="ascii")
    assert files.squeeze(200 * MIB)
    assert (tmp_path / "memory.max").read_text(encoding="ascii").startswith(str(200 * MIB))


@pytest.mark.parametrize(("left", "lowered"), [([210, 205, 190], True), ([210, 205, 201], False)])
def test_version_2_reclaims_again_what_a_running_fleet_takes_back(tmp_path, monkeypatch, left, lowered):
    """Each element of C(left) is what is in use after one more reclaim, in MiB."""
    for name in ("memory.max", "memory.reclaim"):
        (tmp_path / name).write_text("max", encoding="ascii")
    files, reclaimed, now = CgroupFiles(str(tmp_path), version_1=False), [], [300 * MIB]

    def write(path, value):
        if path.endswith("memory.reclaim"):
            reclaimed.append(int(value))
            now[0] = left[len(reclaimed) - 1] * MIB
        else:
            (tmp_path / "memory.max").write_text(value, encoding="ascii")

    monkeypatch.setattr(dram_budget, "_write", write)
    monkeypatch.setattr(CgroupFiles, "usage", lambda self: now[0])
    assert files.squeeze(200 * MIB) == lowered
    assert reclaimed == [100 * MIB, 10 * MIB, 5 * MIB]
    assert files.limit() == (200 * MIB if lowered else None)


@pytest.mark.parametrize(
    "name, flags, group",
    [("vm-1", 0x400040, "/vm-1"), ("vm-1", 0x400044, "/vm-1"), ("", 0x400040, "/"), ("", 0x400044, None)],
)
def test_a_process_that_exits_is_not_in_the_group_of_the_root(tmp_path, name, flags, group):
    """So the kernel says in version 1, and a newcomer that dies at once was taken for one in the wrong place."""
    process = tmp_path / "proc" / "17"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(f"4:cpu,memory:/{name}\n0::/\n", encoding="ascii")
    (process / "stat").write_text(f"17 (redis) server) R 1 17 17 0 -1 {flags} 76 0\n", encoding="ascii")
    assert dram_budget.group_of_process(HostFiles(str(tmp_path)), 17) == group
    (process / "stat").unlink()
    assert dram_budget.group_of_process(HostFiles(str(tmp_path)), 17) == (f"/{name}" if name else None)
