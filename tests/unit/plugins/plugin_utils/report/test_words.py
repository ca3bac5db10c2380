# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted, listed


@pytest.mark.parametrize("number, text", [(0, "0 hosts"), (1, "1 host"), (2, "2 hosts"), (1200, "1,200 hosts")])
def test_a_number_has_its_noun(number, text):
    assert counted(number, "host") == text


@pytest.mark.parametrize(
    "parts, most, text",
    [
        ([], None, ""),
        (["a"], None, "a"),
        (["a", "b", "c"], None, "a, b and c"),
        (["a", "b", "c"], 3, "a, b and c"),
        (["a", "b", "c", "d"], 2, "a, b and 2 more"),
    ],
)
def test_a_list_in_words(parts, most, text):
    assert listed(parts, most) == text
