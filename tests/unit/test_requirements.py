# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What make setup installs is pinned with hashes, by what requirements.txt and constraints.txt say."""

from __future__ import annotations

import pathlib
import re

from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[2]


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


def test_every_package_is_pinned_with_hashes():
    locked = lines("requirements.lock")
    assert len(locked) > 8
    for line in locked:
        assert re.match(r"[A-Za-z0-9._-]+==[0-9][\w.]*( ;.*?)?(\s+--hash=sha256:[0-9a-f]{64})+$", line), line[:80]


def test_the_lock_is_what_make_lock_wrote_from_the_constraints():
    lock, constraints = pinned("requirements.lock"), pinned("constraints.txt")
    for line in lines("requirements.txt"):
        name = Requirement(line).name.lower()
        assert lock[name] == constraints[name], "run make lock"


def test_it_names_no_place_to_download_from():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text and "--index" not in text and "--find-links" not in text
