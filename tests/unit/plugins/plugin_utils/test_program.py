# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.program import content_digest


def test_a_digest_changes_with_names_order_and_content(tmp_path):
    (tmp_path / "part").mkdir()
    for name, text in (("a.c", "int a;"), ("b.c", "int b;"), ("part/a.c", "int a;")):
        (tmp_path / name).write_text(text, encoding="utf-8")

    def digest(*names):
        return content_digest(names, str(tmp_path))

    first = digest("a.c", "b.c")
    assert re.fullmatch("[0-9a-f]{12}", first) and first == digest("a.c", "b.c")
    assert len({first, digest("b.c", "a.c"), digest("part/a.c", "b.c"), digest("a.c")}) == 4
    (tmp_path / "b.c").write_text("int b;\n", encoding="utf-8")
    assert digest("a.c", "b.c") != first


def test_a_missing_source_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent.c"):
        content_digest(["absent.c"], str(tmp_path))
