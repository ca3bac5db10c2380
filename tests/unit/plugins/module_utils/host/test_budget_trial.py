# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import budget_trial
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError

SIZE = 2**20


def run(command, **_options):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A directory with the files of a control group; the process that enters it is real."""
    monkeypatch.setattr(budget_trial, "booted", lambda: False)

    def make(limit, charged, version_1):
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if version_1 else ("memory.max", "memory.current")
        for name, value in zip((*names, "cgroup.procs"), (limit, charged, "")):
            (tmp_path / name).write_text(f"{value}\n", encoding="ascii")
        monkeypatch.setattr(budget_trial, "group_directory", lambda files, group: (str(tmp_path), version_1))
        return tmp_path

    return make


@pytest.mark.parametrize("version_1", [True, False])
def test_a_budget_that_holds(group, version_1):
    directory = group(SIZE, SIZE // 2, version_1)
    found = budget_trial.trial("fleet", SIZE, run)
    assert found == {"version": 1 if version_1 else 2, "limit_bytes": SIZE, "charged_bytes": SIZE // 2}
    assert (directory / "cgroup.procs").read_text(encoding="ascii") == "0\n"  # the process has entered itself


@pytest.mark.parametrize(
    ("limit", "charged", "text"),
    [
        ("max", SIZE, "the limit of .* is max, not the budget of 1,048,576 bytes"),
        (2 * SIZE, SIZE, "the limit of .* is 2097152, not the budget"),
        (SIZE, SIZE // 4, "a process in .* uses 512 KiB, but only 262,144 bytes are charged"),
    ],
)
def test_a_budget_that_does_not_hold(group, limit, charged, text):
    group(limit, charged, False)
    with pytest.raises(BudgetError, match=text):
        budget_trial.trial("fleet", SIZE, run)


def test_a_group_that_is_not_there(group):
    directory = group(SIZE, SIZE, False)
    (directory / "cgroup.procs").unlink()
    directory.joinpath("cgroup.procs").mkdir()
    with pytest.raises(BudgetError, match="no process can run in the control group"):
        budget_trial.trial("fleet", SIZE, run)


def test_with_systemd_the_process_is_a_unit_of_the_slice(monkeypatch):
    asked = []
    monkeypatch.setattr(budget_trial, "booted", lambda: True)
    with pytest.raises(BudgetError, match="exit status 1.*no bus"):
        budget_trial.trial("fleet.slice", SIZE, lambda command, **_options: asked.append(command) or (1, "", "no bus"))
    assert asked[0][0] == "systemd-run" and "--slice=fleet.slice" in asked[0]
