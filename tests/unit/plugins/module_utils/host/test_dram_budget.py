# SPDX-License-Identifier: GPL-3.0-or-later
"""What a DRAM budget refuses, and what it wants."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import dram_budget
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import (
    BudgetError,
    CgroupFiles,
    HugepageBudget,
    SliceBudget,
)

MIB = 2**20


@pytest.fixture
def meminfo(monkeypatch):
    figures = {"MemTotal": 4096 * MIB, "MemAvailable": 3000 * MIB, "Hugepagesize": 2 * MIB, "SwapFree": 100 * MIB}
    monkeypatch.setattr(dram_budget, "meminfo", lambda files: figures)
    return figures


def test_hugepages_take_what_the_budget_leaves(meminfo):
    budget = HugepageBudget(2048 * MIB, 512 * MIB)
    present = {"huge pages": 10, dram_budget.SYSCTL_FILE: None}
    assert budget.wanted(present, present)["huge pages"] == 10 + 1024
    assert budget.wanted({**present, "huge pages": 1025}, present)["huge pages"] == 1025, (
        "nearly is enough, or no second run were without change"
    )
    assert budget.lifted({"huge pages": 1034, dram_budget.SYSCTL_FILE: None}, present)["huge pages"] == 10


def test_a_budget_that_pushes_the_host_into_oom_is_refused_with_the_figures(meminfo):
    with pytest.raises(BudgetError, match=r"of 1.465 GiB .* hold 1.07 GiB, and 512 MiB .* at least 1.57 GiB"):
        HugepageBudget(1500 * MIB, 512 * MIB).refuse({"huge pages": 0})
    HugepageBudget(1608 * MIB, 512 * MIB).refuse({"huge pages": 0})
    with pytest.raises(BudgetError, match="no budget: the host has 4 GiB"):
        HugepageBudget(4096 * MIB, 0).refuse({"huge pages": 0})


def test_huge_pages_that_are_ours_do_not_count_as_in_use(meminfo):
    meminfo["MemAvailable"] = 1000 * MIB
    HugepageBudget(1700 * MIB, 512 * MIB).refuse({"huge pages": 1000})


def test_no_huge_pages_no_such_budget(meminfo):
    del meminfo["Hugepagesize"]
    with pytest.raises(BudgetError, match="use cgroup"):
        HugepageBudget(1700 * MIB, 512 * MIB)


def test_a_group_must_fit_into_budget_and_swap(meminfo, tmp_path):
    (tmp_path / "memory.usage_in_bytes").write_text(str(300 * MIB), encoding="ascii")
    (tmp_path / "memory.limit_in_bytes").write_text("9223372036854771712\n", encoding="ascii")
    files = CgroupFiles(str(tmp_path), version_1=True)
    assert files.there() and files.limit() is None
    files.refuse(200 * MIB)
    with pytest.raises(BudgetError, match=r"199 MiB .* 300 MiB are in use there, and budget and free swap are 299 MiB"):
        files.refuse(199 * MIB)


@pytest.mark.parametrize("text, limit", [("max\n", None), ("1048576\n", 1048576)])
def test_limits_of_version_2(tmp_path, text, limit):
    (tmp_path / "memory.max").write_text(text, encoding="ascii")
    assert CgroupFiles(str(tmp_path), version_1=False).limit() == limit
    assert CgroupFiles(str(tmp_path / "gone"), version_1=False).limit() is None


def test_a_nested_slice_lies_in_its_parents():
    budget = SliceBudget(64 * MIB, "machine-fleet.slice", lambda *args: (0, "", ""))
    assert budget._files.path.endswith("/machine.slice/machine-fleet.slice")
    assert budget.wanted({}, {})["/etc/systemd/system/machine-fleet.slice.d/90-memstretch-budget.conf"].endswith(
        "[Slice]\nMemoryMax=67108864\n"
    )
