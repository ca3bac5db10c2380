# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import csv
import io

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.density import exports


def test_exports_name_the_interval_and_the_time(decided):
    text = exports.open_metrics(decided, 1000.5)
    assert 'memstretch_density{profile="dram"} 10 1000.500' in text and text.endswith("# EOF\n")
    assert 'memstretch_density_bound{profile="dram",bound="low"} 10 1000.500' in text
    lines = exports.windows_csv(decided).splitlines()
    assert len(lines) == 1 + sum(len(each["points"]) for arm in decided["arms"] for each in arm["rounds"])


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\n"])
def test_no_text_of_a_host_is_a_formula(decided, start):
    """A measured host says why a window is disturbed, and a spreadsheet program runs what looks like a formula."""
    text = f"{start}HYPERLINK(A1)"
    point = decided["arms"][0]["rounds"][0]["points"][0]
    point["disturbed"] = text
    first = next(csv.DictReader(io.StringIO(exports.windows_csv(decided))))
    assert first["disturbed"] == f"'{text}" and first["settled"] in ("true", "false")
