# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/troubleshooting.md quotes reasons as the code prints them."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
CODE = [ROOT / "plugins" / "plugin_utils" / "run", ROOT / "plugins" / "module_utils" / "host"]


def texts(source: str) -> list[str]:
    """Return the strings of a source, with {} for each value that is put into one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


PRINTED = [text for place in CODE for path in sorted(place.glob("*.py")) for text in texts(path.read_text("utf-8"))]
QUOTED = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_quotes_reasons():
    assert len(QUOTED) == len(set(QUOTED)) >= 20


@pytest.mark.parametrize("reason", QUOTED)
def test_a_quoted_reason_is_printed(reason):
    assert any(reason in text for text in PRINTED), f"no text of the code contains: {reason}"
