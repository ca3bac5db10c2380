# SPDX-License-Identifier: GPL-3.0-or-later
"""Options are checked before anything is changed. tests/local measures real budgets."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.host.budgeted_host import BudgetedHost
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.modules import charged_dram
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_module


def test_a_wrong_longest_is_refused_before_the_limit_is_changed(tmp_path, monkeypatch):
    limits = []
    monkeypatch.setattr(BudgetedHost, "set_limit", lambda _host, limit, check_mode: limits.append(limit))
    record = HostRecord("dram_budget", str(tmp_path / "records"))
    asked = {"mechanism": "hugepages", "size_bytes": 2**40, "reserve_bytes": 0, "group": None}
    record.write({"asked": asked, "original": {"huge pages": 0}})

    result = run_module(
        charged_dram, tmp_path, limit="released", watch=True, longest=0, record_directory=record.directory
    )
    assert result["failed"] and result["msg"].startswith("longest: 0") and limits == []
