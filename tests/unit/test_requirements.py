# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What make installs is pinned with hashes, by what requirements*.txt and constraints.txt say."""

from __future__ import annotations

import pathlib
import re

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ("requirements", "requirements-docs", "requirements-test")


def lines(name: str) -> list[str]:
    """Return the lines of a file of requirements, each with its continuation, without comments and options."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    return [line for line in text.splitlines() if line and not line.startswith(("#", "-"))]


def pinned(name: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in lines(name):
        requirement = Requirement(re.sub(r"\s+--hash=\S+", "", line))
        found.setdefault(requirement.name.lower(), set()).add(str(requirement.specifier))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_package_is_pinned_with_hashes(name):
    locked = lines(f"{name}.lock")
    assert len(locked) > 8
    for line in locked:
        assert re.match(r"[A-Za-z0-9._-]+==[0-9][\w.]*( ;.*?)?(\s+--hash=sha256:[0-9a-f]{64})+$", line), line[:80]


@pytest.mark.parametrize("name", NAMES)
def test_the_lock_is_what_make_lock_wrote_from_the_constraints(name):
    lock, constraints = pinned(f"{name}.lock"), pinned("constraints.txt")
    for line in lines(f"{name}.txt"):
        package = Requirement(line).name.lower()
        assert lock[package] == constraints[package], "run make lock"


def test_what_is_in_two_locks_is_the_same():
    """Tests install their packages next to those of the playbooks."""
    tests = pinned("requirements-test.lock")
    for name in NAMES:
        for package, version in pinned(f"{name}.lock").items():
            assert tests[package] == version, f"{package} of {name}.lock"


@pytest.mark.parametrize("name", NAMES)
def test_it_names_no_place_to_download_from(name):
    text = (ROOT / f"{name}.lock").read_text(encoding="utf-8")
    assert "://" not in text and "--index" not in text and "--find-links" not in text


def test_make_installs_nothing_without_a_hash():
    """Each pip of the Makefile is that of $(locked), and what it installs is a lock."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (installing,) = (line for line in text.splitlines() if "pip install" in line)
    assert installing.startswith("locked = ") and "--require-hashes --only-binary :all: -r $(1) " in installing
    assert sorted(re.findall(r"\$\(call locked,(\S+?)\)", text)) == sorted(f"{name}.lock" for name in NAMES)
