# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.report import text as report_text
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import summarise


def test_the_final_table(record):
    directory = record()[0]
    text = "\n".join(report_text.table(summarise(directory), directory.path))
    assert "Verdict: PASS (host not tuned)" in text
    assert "indicative" in text
    assert "3 of 3" in text
    assert "The brief's six figures" in text


@pytest.mark.parametrize("seconds, text", [(0, "0:00"), (65, "1:05"), (7265.4, "2:01:05"), (-3, "0:00")])
def test_durations(seconds, text):
    assert report_text.clock(seconds) == text
