# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as Ansible runs it, on this machine, and its documentation compared with its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import pytest
import yaml

from ansible_collections.memstretch.density.plugins.module_utils.host import memory as host_memory
from ansible_collections.memstretch.density.plugins.modules import host_memory_info
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_command


def run(check_mode=False, **options):
    arguments = {"ANSIBLE_MODULE_ARGS": {"_ansible_check_mode": check_mode, **options}}
    completed = subprocess.run(
        [sys.executable, host_memory_info.__file__],
        input=json.dumps(arguments),
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    result = json.loads(completed.stdout.splitlines()[-1])
    result.pop("invocation", None)  # which ansible-core 2.21 leaves out by default
    return result


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_record_is_returned_without_a_change(check_mode):
    result = run(check_mode)

    assert result["changed"] is False
    record = result["host_memory"]
    assert record["kernel"]["boot_id"] == host_memory.gather(run_command)["kernel"]["boot_id"]
    assert record["settings_digest"] == host_memory.settings_digest(record)  # other tests change settings meanwhile


def test_the_pressure_since_an_earlier_reading_is_returned():
    before = run(gather=["pressure"])
    assert sorted(before) == ["changed", "machine", "snapshot"]
    after = run(gather=["pressure"], since=before["snapshot"])
    assert after["machine"] == before["machine"] and after["pressure"]["counters"]["clock_s"] > 0


def test_files_and_the_position_of_the_log_are_returned():
    found = run(gather=["log", "files"])
    assert found["files"]["/proc/meminfo"].startswith("MemTotal:") and "host_memory" not in found
    log = found["log"]
    assert "text" not in log and (log["position"] is None) == ("unknown" in log)
    later = run(gather=["log"], log_after=log["position"] or 0)["log"]
    assert ("unknown" in later) == ("unknown" in log) and ("text" in later) == ("unknown" not in later)


def test_the_drives_of_this_machine_are_listed_as_documented(needs_root):
    found = run(gather=["drives"])
    assert sorted(found) == ["changed", "machine", "swap_drives"]
    keys = yaml.safe_load(host_memory_info.RETURN)["swap_drives"]["contains"]
    assert found["swap_drives"] and all(sorted(drive) == sorted(keys) for drive in found["swap_drives"])


def test_programs_that_are_missing_are_told_with_their_packages(monkeypatch):
    """A small system of Ubuntu or Debian has no sfdisk."""

    module = types.SimpleNamespace(
        get_bin_path=lambda name: None if name in ("sfdisk", "wipefs") else f"/usr/sbin/{name}"
    )
    monkeypatch.setattr(host_memory_info.os, "geteuid", lambda: 0)
    assert host_memory_info.read_drives(module) == {
        "swap_drives": None,
        "swap_drives_unknown": "sfdisk is missing on this host; Debian and Ubuntu have it in the package fdisk; "
        "wipefs is missing on this host; Debian and Ubuntu have it in the package util-linux",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"since": {}}, "since: has no effect unless gather includes pressure"),
        ({"log_after": 3, "gather": ["files"]}, "log_after: has no effect unless gather includes log"),
        ({"since": {"pswpin": "x"}, "gather": ["pressure"]}, "since.pswpin is not a number"),
        ({"gather": ["all"]}, "must be one or more of: record, pressure, log, files, drives"),
    ],
)
def test_an_option_without_an_effect_or_with_a_wrong_value_is_refused(options, message):
    assert message in run(**options)["msg"]


def test_an_unknown_option_is_refused():
    result = run(profile="swap")

    assert result["failed"] is True
    assert "profile" in result["msg"]


def documented(returned):
    return {name: documented(entry["contains"]) if "contains" in entry else None for name, entry in returned.items()}


def test_every_returned_key_is_documented():
    documentation = yaml.safe_load(host_memory_info.RETURN)["host_memory"]["contains"]
    record = host_memory.gather(run_command)

    assert set(documentation) == set(record)
    for section, keys in documented(documentation).items():
        if keys is not None:
            assert set(keys) == set(record[section]), section
    assert all(f"C({name})" in " ".join(documentation["ksm"]["description"]) for name in record["ksm"])
    for queue in record["block_queues"].values():
        assert all(f"C({name})" in " ".join(documentation["block_queues"]["description"]) for name in queue)
