# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module reports as a change, and what check mode leaves. tests/local measures."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.modules import writeback_benchmark
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_module


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_what_an_interrupted_execution_left_is_a_change(tmp_path, left, check_mode):
    directory, records = tmp_path / "disk", tmp_path / "records"
    files = directory / "memstretch-writeback"
    directory.mkdir()
    if left:
        files.mkdir()
        (files / "flood").write_bytes(b"x")
    options = {"state": "restored", "directory": str(directory), "record_directory": str(records)}
    result = run_module(writeback_benchmark, tmp_path, check_mode, **options)
    assert result["changed"] is left, result
    assert files.exists() is (left and check_mode)
    assert run_module(writeback_benchmark, tmp_path, check_mode, **options)["changed"] is (left and check_mode)
