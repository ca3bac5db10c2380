# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of `make bench` start: no other lane runs all of them."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

_BENCH = pathlib.Path(__file__).parents[1] / "bench"
_PROGRAMS = sorted(path for path in _BENCH.rglob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


def test_there_are_programs():
    assert {"memory_bandwidth.py", "throughput.py", "fleet.py", "run.py"} <= {path.name for path in _PROGRAMS}


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda path: str(path.relative_to(_BENCH)))
def test_it_starts(program):
    done = subprocess.run([sys.executable, program, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
