# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that everybody reads first is short."""

from __future__ import annotations

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT


def test_the_readme_has_at_most_120_lines():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120, (
        "move the details to a page of docs"
    )
