# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module reports as a change. tests/local measures."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import writeback
from ansible_collections.memstretch.density.plugins.modules import writeback_benchmark
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_module


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_what_an_interrupted_execution_left_is_a_change(tmp_path, monkeypatch, left, check_mode):
    undone = []
    monkeypatch.setattr(writeback, "is_left", lambda *_arguments: left)
    monkeypatch.setattr(writeback, "undo", lambda *_arguments: undone.append(True))
    monkeypatch.setattr(writeback, "check_directory", lambda *_arguments: "sda")
    monkeypatch.setattr(writeback_benchmark, "measured", lambda *_arguments: {"chosen": None})
    result = run_module(
        writeback_benchmark,
        tmp_path,
        check_mode,
        directory=str(tmp_path),
        flood_size="64M",
        record_directory=str(tmp_path / "records"),
    )
    assert result["changed"] is left, result
    assert bool(undone) is (left and not check_mode)
