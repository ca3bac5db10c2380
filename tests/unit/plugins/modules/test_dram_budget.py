# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two budgets at once. tests/local sets real budgets."""

from __future__ import annotations

import contextlib
import io
import json

from ansible.module_utils.testing import patch_module_args

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, meminfo
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.modules import dram_budget
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_module
from ansible_collections.memstretch.density.tests.unit.fixtures.two_runs import change_while_waiting


def test_a_run_that_waited_for_another_budget_keeps_the_recorded_original(tmp_path):
    record = HostRecord("dram_budget", str(tmp_path / "records"))
    # So close to the host's memory that no huge page is missing: the host would not change.
    params = {"mechanism": "hugepages", "size": str(meminfo(HostFiles())["MemTotal"] - 1)}
    other = {
        "asked": {"mechanism": "cgroup", "size_bytes": 2**30, "reserve_bytes": 0, "group": "other"},
        "original": {"group": None, "limit": 12345678},
    }

    def set_budget():
        output = io.StringIO()
        arguments = {**params, "record_directory": record.directory, "_ansible_remote_tmp": str(tmp_path)}
        with contextlib.redirect_stdout(output), patch_module_args(arguments), contextlib.suppress(SystemExit):
            dram_budget.main()
        return json.loads(output.getvalue())

    result = change_while_waiting(record, set_budget, lambda: record.write(other))
    assert record.read()["original"] == other["original"]
    assert "this host has a DRAM budget by cgroup (other); restore it before you set a budget" in result["msg"]


def test_a_budget_that_cannot_be_restored_is_kept_and_named_until_it_is_forgotten(tmp_path, monkeypatch):
    """The host had another init system when the budget was set, so the name of its group means nothing now."""
    monkeypatch.setattr(dram_budget, "booted", lambda: True)
    warnings = []
    monkeypatch.setattr(dram_budget.AnsibleModule, "warn", lambda module, text: warnings.append(text))
    record = HostRecord("dram_budget", str(tmp_path / "records"))
    asked = {"mechanism": "cgroup", "size_bytes": 2**30, "reserve_bytes": 0, "group": "fleet"}
    record.write({"asked": asked, "original": {"group": None, "limit": None}})

    def restore(state="restored", check_mode=False, **more):
        output = io.StringIO()
        arguments = {"state": state, "record_directory": record.directory, "_ansible_check_mode": check_mode, **more}
        arguments["_ansible_remote_tmp"] = str(tmp_path)
        with contextlib.redirect_stdout(output), patch_module_args(arguments), contextlib.suppress(SystemExit):
            dram_budget.main()
        return json.loads(output.getvalue())

    for arguments in ({"state": "lifted", "forget": True}, {}, {"check_mode": True}):
        result = restore(**arguments)
        assert not result.get("failed") and not result["changed"] and record.read()
        assert "group is 'fleet'; on a host with systemd it must be the name of a slice" in result["kept"]
        assert "host_tuning_forget: [dram_budget]" in warnings.pop()
    assert restore(check_mode=True, forget=True)["changed"] and record.read()
    assert restore(forget=True)["changed"] and record.read() is None and warnings == []
    assert not restore(forget=True)["changed"]


def test_a_host_without_a_budget_is_neither_released_nor_fitted(tmp_path):
    for state in ("released", "fitted"):
        result = run_module(dram_budget, tmp_path, state=state, record_directory=str(tmp_path / "records"))
        assert (result["changed"], result["charged_dram"]) == (False, None)
    assert not (tmp_path / "records").exists()
