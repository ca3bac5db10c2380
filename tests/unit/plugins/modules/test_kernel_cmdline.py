# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record that was made with a boot loader that the host no longer has."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.modules import kernel_cmdline

RECORD = {"boot_loader": "grub", "arguments": ["rcu_nocbs=all"], "removed": [], "originals": {}, "names": ["rcu_nocbs"]}


@pytest.fixture(name="record")
def _record(tmp_path, monkeypatch):
    record = HostRecord("kernel_cmdline", str(tmp_path / "records"))
    monkeypatch.setattr(kernel_cmdline, "HostRecord", lambda name: record)
    monkeypatch.setattr(kernel_cmdline, "find", lambda *programs: None)
    record.write(RECORD)
    return record


@pytest.fixture(name="run")
def _run(tmp_path):
    def run(check_mode=False, **arguments):
        output = io.StringIO()
        arguments = {**arguments, "_ansible_remote_tmp": str(tmp_path), "_ansible_check_mode": check_mode}
        with contextlib.redirect_stdout(output), patch_module_args(arguments), contextlib.suppress(SystemExit):
            kernel_cmdline.main()
        return json.loads(output.getvalue())

    return run


def test_a_restore_keeps_the_record_and_warns_until_it_is_forgotten(record, run, monkeypatch):
    warnings = []
    monkeypatch.setattr(kernel_cmdline.AnsibleModule, "warn", lambda module, text: warnings.append(text))
    for check_mode in (True, False):
        result = run(check_mode, state="restored")
        assert not result.get("failed") and not result["changed"]
        assert "for the boot loader grub, and this host now has no supported boot loader" in result["notes"][0]
        assert "(rcu_nocbs=all) cannot be undone" in result["notes"][0]
        assert "host_tuning_forget: [kernel_cmdline]" in result["notes"][0]
        assert warnings.pop() == f"not restored: {result['notes'][0]}"
        assert record.read() is not None

    assert run(True, state="restored", forget=True)["changed"] and record.read() is not None
    assert run(state="restored", forget=True)["changed"] and record.read() is None
    assert not run(state="restored", forget=True)["changed"]
