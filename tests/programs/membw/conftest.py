# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the builds of membw."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(__file__).resolve().parent / "build"


class Membw:
    """One build of membw."""

    def __init__(self, name):
        self.program = BUILD / name

    def run(self, *arguments):
        """Run it to its end."""
        return subprocess.run(
            [self.program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300
        )

    def measure(self, *arguments):
        """Return what it measured."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def membw():
    """The program as it is shipped."""
    return Membw("membw")


@pytest.fixture(params=["membw", "membw-O3", "membw-clang-O3"])
def optimised(request):
    """The program as compilers make it that drop whatever is not needed."""
    return Membw(request.param)


@pytest.fixture(params=["membw-sanitized", "membw-threads"])
def inspected(request):
    """The program with a sanitizer looking on."""
    return Membw(request.param)
