# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the client do where a tool is missing."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def complete(*variables):
    command = ["make", "-s", "-C", str(ROOT / "tests" / "programs" / "solotest"), "complete", *variables]
    # "make test" runs this lane too. Its own job server would be a warning here.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(("ci", "passes"), [("true", False), ("", True)])
def test_a_missing_libfuzzer_fails_in_ci_alone(ci, passes):
    done = complete("HAVE_CLANG=clang", "HAVE_FUZZER=", f"CI={ci}")
    assert (done.returncode == 0) is passes and "libclang-rt-dev" in done.stderr


def test_clang_is_needed_everywhere():
    assert complete("HAVE_CLANG=", "HAVE_FUZZER=yes", "CI=").returncode != 0


def test_nothing_is_missing():
    done = complete("HAVE_CLANG=clang", "HAVE_FUZZER=yes", "CI=true")
    assert done.returncode == 0 and not done.stderr


def test_the_packages_have_what_ci_must_not_miss():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    packages = [line.split("=", 1)[1].split() for line in makefile.splitlines() if line.startswith("TEST_PACKAGES ")]
    assert {"clang", "libclang-rt-dev"} <= {name for line in packages for name in line}
